"""Prometheus metrics of a scheduler: projects, nodes, decisions, and its requests to the API server.

Names and labels of projects and departments are those of a pool on one machine (metrics.py). What only the
leader knows is left out by the others.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from weir import __version__
from weir.kubernetes.process.cluster_summary import ClusterSummary
from weir.kubernetes.process.scheduling_counters import PROJECTS_MAX, SchedulingCounters
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI
from weir.service.engine_build import engine_kind
from weir.service.metric_families import Histogram, queue_families

if TYPE_CHECKING:
    from weir.kubernetes.process.scheduler_process import SchedulerProcess


WAITING_MAX = 4 * PROJECTS_MAX
"""Series by project and reason."""


class ClusterMetrics(Collector):
    """Reads counts that are kept anyway, when it is asked."""

    def __init__(self, instance: "SchedulerProcess") -> None:
        self._instance = instance
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all of it."""
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Return nothing beforehand."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield everything as it is now."""
        here = self._instance
        info = GaugeMetricFamily("weir_build_info", "The version that runs.", labels=["version", "engine"])
        info.add_metric([__version__, engine_kind()], 1.0)
        yield info
        leads = bool(here.election.may_write())
        yield GaugeMetricFamily("weir_leading", "Whether this one decides.", float(leads))
        trouble = float(not here.trouble())
        yield GaugeMetricFamily("weir_ready", "Whether everything makes progress.", trouble)
        refused = float(bool(here.settings.refused))
        yield GaugeMetricFamily("weir_settings_refused", "Whether a SchedulerConfig can't be used.", refused)
        yield from self._requests()
        counts = here.hooks.counts
        restarts = max(0, counts.connects - here.leaderships)
        yield CounterMetricFamily("weir_control_restarts", "Times the control loop began anew.", restarts)
        yield from _passed_by(counts)
        if leads:
            yield from cluster_families(here.hooks.numbers)

    def _requests(self) -> Iterator[Metric]:
        here = self._instance
        objects = GaugeMetricFamily("weir_objects", "Objects watched, by resource.", labels=["resource"])
        relists = CounterMetricFamily("weir_lists", "Times a resource was listed whole.", labels=["resource"])
        for resource, reflector in here.reflectors.items():
            objects.add_metric([resource], len(reflector))
            relists.add_metric([resource], reflector.counts.lists)
        yield objects
        yield relists
        unreadable = GaugeMetricFamily(
            "weir_unreadable_objects", "Objects left out because they can't be read.", labels=["resource"]
        )
        for resource, count in here.backend.unreadable_counts().items():
            unreadable.add_metric([resource], count)
        yield unreadable
        overcommitted = GaugeMetricFamily(
            "weir_node_overcommitted_gpus", "GPUs in use beyond those of the node.", labels=["node"]
        )
        for each in here.backend.overcommitted():
            overcommitted.add_metric([each.node], each.use.excess_milli / WHOLE_MILLI)
        yield overcommitted
        writer = here.writer
        tries = CounterMetricFamily(
            "weir_writes", "Writes to the API server, by what they met.", labels=["what"]
        )
        for what, count in (
            ("tried", writer.tries),
            ("retried", writer.retries),
            ("throttled", writer.throttled),
        ):
            tries.add_metric([what], count)
        yield tries


def cluster_families(numbers: ClusterSummary) -> Iterator[Metric]:
    """Yield what is known of projects and nodes; of very many projects the first by name."""
    shown = dict(sorted(numbers.queues.items())[:PROJECTS_MAX])
    yield from queue_families(shown.values())
    demand = GaugeMetricFamily(
        "weir_queue_demand_gpus", "What a queue holds and asks for, and could run.", labels=["queue", "kind"]
    )
    stuck = GaugeMetricFamily(
        "weir_queue_unschedulable_workloads",
        "Workloads that no node can ever take.",
        labels=["queue", "kind"],
    )
    for name, row in shown.items():
        demand.add_metric([name, row.kind], numbers.demand[name].get(GPU, 0.0))
        stuck.add_metric([name, row.kind], numbers.unschedulable.get(name, 0))
    yield demand
    yield stuck
    waiting = GaugeMetricFamily(
        "weir_waiting_workloads", "Workloads that wait, by reason.", labels=["project", "reason"]
    )
    for (project, why), count in sorted(numbers.waiting.items())[:WAITING_MAX]:
        waiting.add_metric([project, why], count)
    yield waiting
    for name, about, value in (
        ("weir_nodes", "Nodes that Weir knows.", numbers.nodes),
        ("weir_gpus", "GPUs of these nodes.", numbers.gpus),
        ("weir_allocated_gpus", "GPUs that pods of Weir hold, stopping ones too.", numbers.allocated_gpus),
        ("weir_foreign_gpus", "GPUs that pods of other schedulers hold.", numbers.foreign_gpus),
        (
            "weir_overcommitted_nodes",
            "Nodes whose pods hold more than they have.",
            numbers.overcommitted_nodes,
        ),
        ("weir_overcommitted_gpus", "GPUs held beyond those that exist.", numbers.overcommitted_gpus),
    ):
        yield GaugeMetricFamily(name, about, float(value))


def _passed_by(counts: SchedulingCounters) -> Iterator[Metric]:
    yield from _histograms(
        ("weir_workload_wait_seconds", "How long workloads waited for their start.", counts.waits),
        (
            "weir_quota_wait_seconds",
            "The same, of workloads within their project's quota.",
            counts.quota_waits,
        ),
    )
    taken = CounterMetricFamily(
        "weir_preemptions", "Workloads stopped for others, by rule.", labels=["rule", "project"]
    )
    for (rule, project), count in sorted(counts.evictions.copy().items()):
        taken.add_metric([rule, project], count)
    yield taken
    pods = CounterMetricFamily("weir_evicted_pods", "Pods stopped for others, by rule.", labels=["rule"])
    for rule, count in sorted(counts.evicted_pods.copy().items()):
        pods.add_metric([rule], count)
    yield pods
    yield CounterMetricFamily("weir_moves", "Workloads moved to make room.", counts.moves)
    ends = CounterMetricFamily("weir_workloads_ended", "Workloads that ended.", labels=["project", "status"])
    for (project, status), count in sorted(counts.ends.copy().items()):
        ends.add_metric([project, status], count)
    yield ends
    for name, about, histogram in (
        ("weir_decision_seconds", "How long the engine took to decide.", counts.decisions),
        ("weir_cycle_seconds", "How long a step of the control loop took.", counts.cycles),
    ):
        buckets, total = histogram.buckets()
        yield HistogramMetricFamily(name, about, buckets=buckets, sum_value=total)


def _histograms(*each: tuple[str, str, Mapping[str, Histogram]]) -> Iterator[Metric]:
    for name, about, histograms in each:
        family = HistogramMetricFamily(name, about, labels=["project"])
        for project, histogram in sorted(dict(histograms).items()):
            buckets, total = histogram.buckets()
            family.add_metric([project], buckets, total)
        yield family
