"""Prometheus metrics: one collector over the live rows, without counter objects for each workload."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from weir import __version__
from weir.api.answers import NodeRow, QueueRow, WorkloadRow
from weir.engine.plan import Plan
from weir.local.server.views.pool_view import PoolView
from weir.local.server.views.workload_view import WorkloadView
from weir.model.resources import GPU
from weir.service.metric_families import (
    DECISION_BOUNDS_S,
    WAIT_BOUNDS_S,
    Histogram,
    counter_family,
    histogram_family,
    plain_histogram,
    queue_families,
)
from weir.state.events import Event, PodAssigned


class PoolCounters:
    """Counts events that leave no state: waits, preemptions, ends."""

    def __init__(self, view: PoolView) -> None:
        self._view = view
        self.waits: dict[str, Histogram] = {}  # by project
        self.decisions = Histogram(DECISION_BOUNDS_S)
        self.preemptions: Counter[tuple[str, str]] = Counter()  # by rule and project of the victim
        self.moves = 0
        self.ends: Counter[tuple[str, str]] = Counter()  # by project and outcome
        self.connected_s = 0.0

    def happened(self, event: Event) -> None:
        """Count a workload's wait when its first pod is assigned."""
        if isinstance(event, PodAssigned) and event.at_s >= self.connected_s:
            line = self._view.workloads.get(event.place.pod.workload)
            if line is not None and len(line.pods) == 1:
                waits = self.waits.setdefault(line.spec.project, Histogram(WAIT_BOUNDS_S))
                waits.add(max(0.0, event.at_s - line.waits_since_s))

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:  # noqa: ARG002 - as readers are called
        """Count preempted workloads, each once."""
        self.decisions.add(took_s)
        for name, rule in plan.stopped().items():
            line = self._view.workloads.get(name)
            if rule is None or line is None:
                self.moves += 1
            else:
                self.preemptions[rule.value, line.spec.project] += 1

    def ended(self, rows: Iterable[WorkloadRow]) -> None:
        """Count the workloads that ended."""
        for row in rows:
            if row.ended_s is not None:
                self.ends[row.project, row.status] += 1


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """State of the pool at one moment, for metrics."""

    queues: Mapping[str, QueueRow]
    nodes: Sequence[NodeRow]
    rows: Sequence[WorkloadRow]
    counters: PoolCounters
    workloads: Mapping[str, WorkloadView] = field(default_factory=dict)
    ready: bool = True
    readers: int = 0
    named: frozenset[str] | None = None  # projects with metrics by workload; None: all


def exposition(seen: MetricsSnapshot) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(seen))
    return generate_latest(registry)


class _Collector:
    def __init__(self, seen: MetricsSnapshot) -> None:
        self._seen = seen

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        seen = self._seen
        info = GaugeMetricFamily("weir_build_info", "Version of Weir.", labels=["version"])
        info.add_metric([__version__], 1.0)
        yield info
        yield _gauge("weir_ready", "1 if the control loop makes decisions.", float(seen.ready))
        yield _gauge("weir_stream_readers", "Number of readers of the live stream.", float(seen.readers))
        yield from queue_families(seen.queues.values())
        yield from _nodes(seen.nodes)
        yield from _workloads(seen)
        yield from _passed_by(seen.counters)


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)


def _nodes(rows: Sequence[NodeRow]) -> Iterator[Metric]:
    devices = GaugeMetricFamily("weir_node_gpus", "Devices of a node.", labels=["node"])
    allocated = GaugeMetricFamily("weir_node_allocated_gpus", "Allocated devices of a node.", labels=["node"])
    use = GaugeMetricFamily(
        "weir_gpu_utilization_ratio", "Utilization of a device, 0 to 1, if known.", labels=["node", "gpu"]
    )
    memory = GaugeMetricFamily(
        "weir_gpu_memory_used_bytes", "Memory in use on a device.", labels=["node", "gpu"]
    )
    for row in rows:
        devices.add_metric([row.name], len(row.devices))
        allocated.add_metric([row.name], row.allocated.get(GPU, 0.0))
        for device in row.devices:
            if device.use is not None:
                use.add_metric([row.name, str(device.index)], device.use)
            if device.memory_used is not None:
                memory.add_metric([row.name, str(device.index)], device.memory_used)
    yield from (devices, allocated, use, memory)


def _workloads(seen: MetricsSnapshot) -> Iterator[Metric]:
    counts = Counter((row.project, row.status) for row in seen.rows)
    states = GaugeMetricFamily(
        "weir_workloads", "Workloads that aren't over, by status.", labels=["project", "status"]
    )
    for (project, status), count in sorted(counts.items()):
        states.add_metric([project, status], count)
    yield states
    labels = ["workload", "project"]
    use = GaugeMetricFamily(
        "weir_workload_gpu_utilization_ratio", "Utilization of its devices now.", labels=labels
    )
    busy = CounterMetricFamily("weir_workload_gpu_used_seconds", "Device seconds used.", labels=labels)
    idle = CounterMetricFamily(
        "weir_workload_gpu_idle_seconds", "Device seconds allocated but idle.", labels=labels
    )
    activity = GaugeMetricFamily(
        "weir_workload_activity",
        "1 for the state of a running workload: working, starved, parked, left or unknown.",
        labels=[*labels, "state"],
    )
    allocated = GaugeMetricFamily(
        "weir_workload_allocated_gpus", "Allocated devices of a workload.", labels=labels
    )
    for row in seen.rows:
        if row.status == "pending" or not (seen.named is None or row.project in seen.named):
            continue
        if row.pods:
            allocated.add_metric([row.name, row.project], row.devices * row.pods_running / row.pods)
        if row.activity is not None and row.activity.state is not None:
            activity.add_metric([row.name, row.project, row.activity.state], 1.0)
        workload = seen.workloads.get(row.name)
        if workload is not None and workload.utilization is not None:
            use.add_metric([row.name, row.project], workload.utilization)
            busy.add_metric([row.name, row.project], workload.used_gpu_s)
            idle.add_metric([row.name, row.project], workload.idle_gpu_s)
    yield from (allocated, use, busy, idle, activity)


def _passed_by(counters: PoolCounters) -> Iterator[Metric]:
    about = "Time from submission to the first start."
    yield histogram_family("weir_workload_wait_seconds", about, counters.waits, labels=["project"])
    about = "Preempted workloads, by rule."
    yield counter_family("weir_preemptions", about, counters.preemptions, labels=["rule", "project"])
    yield CounterMetricFamily("weir_moves", "Workloads moved by consolidation.", value=counters.moves)
    about = "Workloads that ended."
    yield counter_family("weir_workloads_ended", about, counters.ends, labels=["project", "status"])
    about = "Duration of a decision of the engine."
    yield plain_histogram("weir_decision_seconds", about, counters.decisions)
