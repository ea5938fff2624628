"""Prometheus metrics of a scheduler: projects, nodes, decisions, and its requests to the API server.

Names and labels of projects and departments are those of a pool on one machine. Replicas that don't lead
leave out the values that only the leader knows.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir import __version__
from weir.kubernetes.api.leader_election import AlwaysLeader, LeaderElection
from weir.kubernetes.api.reflector import Reflector
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.notifications.notification_service import ClusterNotifications
from weir.kubernetes.process.config_watcher import ConfigWatcher
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.process.control.scheduling_counters import PROJECTS_MAX, SchedulingCounters
from weir.kubernetes.process.server.api_calls import ApiCalls
from weir.kubernetes.process.usage.usage_service import UsageService
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.writes.delivery.api_writer import ApiWriter
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI
from weir.service.engine_build import engine_kind
from weir.service.metric_families import counter_family, histogram_family, plain_histogram, queue_families

if TYPE_CHECKING:  # without a port, nothing of it is imported
    from weir.kubernetes.process.server.query_service import QueryService

WAITING_MAX = 4 * PROJECTS_MAX
"""Series by project and reason."""


class MeteredScheduler(Protocol):
    """Parts of a scheduler that its metrics read."""

    backend: KubernetesBackend
    calls: ApiCalls
    election: LeaderElection | AlwaysLeader
    hooks: ClusterControlHooks
    leaderships: int
    notifications: ClusterNotifications
    query: "QueryService | None"
    reflectors: dict[str, Reflector[Any]]
    settings: ConfigWatcher
    usage: UsageService
    writer: ApiWriter

    def trouble(self) -> str:
        """Return the parts that make no progress, as a sentence; empty if none."""
        ...


class ClusterMetrics(Collector):
    """Reads existing counters on request."""

    def __init__(self, instance: MeteredScheduler) -> None:
        self._instance = instance
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all metrics."""
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Return nothing beforehand."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the present values of all metrics."""
        instance = self._instance
        info = GaugeMetricFamily("weir_build_info", "Version of Weir.", labels=["version", "engine"])
        info.add_metric([__version__, engine_kind()], 1.0)
        yield info
        leads = bool(instance.election.may_write())
        yield GaugeMetricFamily("weir_leading", "1 if this replica leads.", float(leads))
        trouble = float(not instance.trouble())
        yield GaugeMetricFamily("weir_ready", "1 if all parts make progress.", trouble)
        refused = float(bool(instance.settings.refused))
        yield GaugeMetricFamily("weir_settings_refused", "1 if a SchedulerConfig is invalid.", refused)
        if instance.usage.reader.has_source(instance.settings.settings.usage):
            is_read = float(instance.usage.reader.trouble is None)
            yield GaugeMetricFamily("weir_usage_known", "1 if the use of GPUs is read.", is_read)
            yield GaugeMetricFamily(
                "weir_usage_read_time_seconds",
                "Time of the last reading of use, in seconds since 1970; 0 before the first.",
                instance.usage.reader.read_s or 0.0,
            )
        yield from self._notifications()
        yield from self._history()
        yield from self._requests()
        counts = instance.hooks.counts
        restarts = max(0, counts.connects - instance.leaderships)
        yield CounterMetricFamily(
            "weir_control_restarts",
            "Number of times the control loop started with the whole state.",
            restarts,
        )
        yield from _passed_by(counts)
        if leads:
            yield from cluster_families(instance.hooks.numbers)

    def _notifications(self) -> Iterator[Metric]:
        notifications = self._instance.notifications
        if notifications.sends and self._instance.election.may_write():
            sent = float(not notifications.trouble)
            yield GaugeMetricFamily("weir_notifications_sent", "1 if notifications are sent.", sent)

    def _history(self) -> Iterator[Metric]:
        history = None if self._instance.query is None else self._instance.query.history
        if history is not None and history.writes:
            yield GaugeMetricFamily(
                "weir_history_stored", "1 if the history is stored.", float(not history.trouble)
            )
            yield GaugeMetricFamily(
                "weir_history_store_time_seconds",
                "Time of the last write of the history, in seconds since 1970.",
                history.written_s,
            )

    def _requests(self) -> Iterator[Metric]:
        instance = self._instance
        objects = GaugeMetricFamily("weir_objects", "Objects watched, by resource.", labels=["resource"])
        relists = CounterMetricFamily(
            "weir_lists", "Number of complete lists of a resource.", labels=["resource"]
        )
        seen = CounterMetricFamily(
            "weir_watch_events", "Number of events of watches, by resource.", labels=["resource"]
        )
        for resource, reflector in instance.reflectors.items():
            objects.add_metric([resource], len(reflector))
            relists.add_metric([resource], reflector.counts.lists)
            seen.add_metric([resource], reflector.counts.events)
        yield objects
        yield relists
        yield seen
        yield from _calls(instance.calls)
        unreadable = GaugeMetricFamily(
            "weir_unreadable_objects", "Objects left out because they can't be read.", labels=["resource"]
        )
        for resource, count in instance.backend.unreadable_counts().items():
            unreadable.add_metric([resource], count)
        yield unreadable
        overcommitted = GaugeMetricFamily(
            "weir_node_overcommitted_gpus", "GPUs in use beyond those of the node.", labels=["node"]
        )
        for overcommit in instance.backend.overcommitted():
            overcommitted.add_metric([overcommit.node], overcommit.use.excess_milli / WHOLE_MILLI)
        yield overcommitted
        writer = instance.writer
        tries = {("tried",): writer.tries, ("retried",): writer.retries, ("throttled",): writer.throttled}
        yield counter_family("weir_writes", "Writes to the API server, by result.", tries, labels=["result"])


def _calls(calls: ApiCalls) -> Iterator[Metric]:
    about = "Requests to the API server, by verb, resource and status code."
    yield counter_family("weir_api_requests", about, calls.counts, labels=["verb", "resource", "code"])
    about = "Duration of answered requests to the API server."
    yield histogram_family("weir_api_request_seconds", about, calls.durations, labels=["verb"])


def cluster_families(numbers: ClusterSummary) -> Iterator[Metric]:
    """Yield metrics of projects and nodes; of very many projects the first by name."""
    shown = dict(sorted(numbers.queues.items())[:PROJECTS_MAX])
    yield from queue_families(shown.values())
    demand = GaugeMetricFamily(
        "weir_queue_demand_gpus", "Usage and satisfiable requests of a queue.", labels=["queue", "kind"]
    )
    stuck = GaugeMetricFamily(
        "weir_queue_unschedulable_workloads",
        "Workloads that no node can ever run.",
        labels=["queue", "kind"],
    )
    for name, row in shown.items():
        demand.add_metric([name, row.kind], numbers.demand[name].get(GPU, 0.0))
        stuck.add_metric([name, row.kind], numbers.unschedulable.get(name, 0))
    yield demand
    yield stuck
    waiting = GaugeMetricFamily(
        "weir_waiting_workloads", "Pending workloads, by reason.", labels=["project", "reason"]
    )
    for (project, why), count in sorted(numbers.waiting.items())[:WAITING_MAX]:
        waiting.add_metric([project, why], count)
    yield waiting
    for name, about, value in (
        ("weir_nodes", "Nodes known to Weir.", numbers.nodes),
        ("weir_gpus", "GPUs of these nodes.", numbers.gpus),
        (
            "weir_allocated_gpus",
            "GPUs allocated to pods of Weir, including stopping ones.",
            numbers.allocated_gpus,
        ),
        ("weir_foreign_gpus", "GPUs allocated to pods of other schedulers.", numbers.foreign_gpus),
        (
            "weir_overcommitted_nodes",
            "Nodes with more allocated GPUs than they have.",
            numbers.overcommitted_nodes,
        ),
        ("weir_overcommitted_gpus", "Allocated GPUs beyond those that exist.", numbers.overcommitted_gpus),
    ):
        yield GaugeMetricFamily(name, about, float(value))


def _passed_by(counts: SchedulingCounters) -> Iterator[Metric]:
    for name, about, histograms in (
        ("weir_workload_wait_seconds", "Time from submission to the first start.", counts.waits),
        (
            "weir_quota_wait_seconds",
            "Time from submission to the first start, of workloads within quota.",
            counts.quota_waits,
        ),
        (
            "weir_time_to_gpu_seconds",
            "Time from the creation of a replica of a service until GPUs are allocated to it.",
            counts.replica_waits,
        ),
    ):
        yield histogram_family(name, about, dict(histograms), labels=["project"])
    about = "Preempted workloads, by rule."
    yield counter_family("weir_preemptions", about, counts.evictions.copy(), labels=["rule", "project"])
    evicted = {(rule,): count for rule, count in counts.evicted_pods.copy().items()}
    yield counter_family("weir_evicted_pods", "Preempted pods, by rule.", evicted, labels=["rule"])
    yield CounterMetricFamily("weir_moves", "Workloads moved by consolidation.", counts.moves)
    about = "Workloads that ended."
    yield counter_family("weir_workloads_ended", about, counts.ends.copy(), labels=["project", "status"])
    about = "Duration of a decision of the engine."
    yield plain_histogram("weir_decision_seconds", about, counts.decisions)
    about = "Duration of a step of the control loop."
    yield plain_histogram("weir_cycle_seconds", about, counts.cycles)
