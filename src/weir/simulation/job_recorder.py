"""Record of a replay: each job's arrival, start, end and devices, and each eviction with its rule."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from weir.control.outbox import EventObserver
from weir.engine.plan import Plan
from weir.model.nodes import Node, Topology
from weir.model.reasons import EvictionRule
from weir.model.workloads import Workload
from weir.simulation.interval_means import INTERVALS, IntervalMeans
from weir.simulation.job_trace import JobTrace
from weir.simulation.simulated_cluster import gpus_of
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeLost,
    NodeSet,
    PodAssigned,
    PodStopped,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)

HOSTNAME = "kubernetes.io/hostname"


@dataclass(slots=True, eq=False)
class JobRecord:
    """Record of one job."""

    workload: Workload
    duration_s: float
    gpus: float = 0.0  # devices of all its pods
    allocated: dict[tuple[int, int], float] = field(default_factory=dict)  # devices by pod
    waits: float = 0.0  # devices requested by its pending pods
    nodes: set[str] = field(default_factory=set)  # nodes of its last start
    first_start_s: float | None = None
    ended_s: float | None = None
    how: WorkloadOutcome | None = None
    entitled: bool = False
    stops: int = 0


class JobRecorder(EventObserver):
    """Records waits, runs and losses of each job from the events of control."""

    def __init__(self, job_traces: Sequence[JobTrace], topologies: Sequence[Topology] = ()) -> None:
        self.lines: dict[str, JobRecord] = {}
        self.rules: Counter[EvictionRule] = Counter()
        self.moves = 0
        self.cycle_s = array("d")
        self.topologies = {topology.name: topology for topology in topologies}
        submitted_s = [job_trace.workload.submitted_s for job_trace in job_traces]
        self.first_s, self.last_s = min(submitted_s, default=0.0), max(submitted_s, default=0.0)
        self.width_s = max(1.0, (self.last_s - self.first_s) / INTERVALS)
        means = partial(IntervalMeans, self.first_s, self.width_s)
        self.allocated = defaultdict[str, IntervalMeans](means)
        self.waiting = defaultdict[str, IntervalMeans](means)
        self.capacity = means()
        self.nodes: dict[str, Node] = {}
        self.ended = 0
        self._durations_s = {job_trace.workload.name: job_trace.duration_s for job_trace in job_traces}
        self._cluster: Cluster | None = None
        self._now_s = self.first_s
        self.handlers = {
            NodeSet: self._node_set,
            NodeLost: self._node_lost,
            WorkloadSubmitted: self._submitted,
            WorkloadEnded: self._ended,
            PodAssigned: self._assigned,
            PodStopped: self._stopped,
        }

    def watch(self, cluster: Cluster) -> None:
        """Use this cluster to decide if a job is within its quota."""
        self._cluster = cluster

    # Calls of readers

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        """Count the workloads that a plan stops, each once."""
        self._now_s = now_s
        self.cycle_s.append(took_s)
        for name, rule in plan.stopped().items():
            if rule is None:
                self.moves += 1
            else:
                self.rules[rule] += 1
                self.lines[name].stops += 1

    def close(self, now_s: float) -> None:
        """End the replay."""
        for timeline in (*self.allocated.values(), *self.waiting.values(), self.capacity):
            timeline.settle(now_s)

    # Events

    def _node_set(self, event: NodeSet) -> None:
        before = self.nodes.get(event.node.name)
        self.nodes[event.node.name] = event.node
        self.capacity.change(self._now_s, event.node.gpus - (before.gpus if before else 0))

    def _node_lost(self, event: NodeLost) -> None:
        node = self.nodes.pop(event.name, None)
        if node is not None:
            self.capacity.change(self._now_s, -node.gpus)

    def _submitted(self, event: WorkloadSubmitted) -> None:
        workload = event.workload
        if workload.name in self.lines:
            return  # known before a restart of control
        line = JobRecord(workload, self._durations_s[workload.name])
        self.lines[workload.name] = line
        line.gpus = sum(
            [_requested_devices(workload, index) * group.count for index, group in enumerate(workload.groups)]
        )
        line.entitled = self._is_entitled(workload)
        self._wait(line, event.at_s, line.gpus)

    def _is_entitled(self, workload: Workload) -> bool:
        """Return True if the project's usage and requests, this job included, are within its quota."""
        if self._cluster is None:
            return False
        ledger = self._cluster.ledger
        position = ledger.position[workload.project]
        allocated, asked = ledger.allocated[position], ledger.asked[position]
        return all(allocated[row] + asked[row] <= quota for row, quota in ledger.bounded[position])

    def _assigned(self, event: PodAssigned) -> None:
        pod, at_s = event.place.pod, event.at_s
        line = self.lines[pod.workload]
        if (pod.group, pod.index) in line.allocated:
            return
        if not line.allocated:
            line.nodes = set()
            if line.first_start_s is None:
                line.first_start_s = at_s
        node = self.nodes.get(event.place.node)
        gpus = gpus_of(line.workload.groups[pod.group].request, node) if node is not None else 0.0
        line.allocated[pod.group, pod.index] = gpus
        line.nodes.add(event.place.node)
        self._hold(line, at_s, gpus)
        self._wait(line, at_s, -_requested_devices(line.workload, pod.group))

    def _stopped(self, event: PodStopped) -> None:
        pod = event.pod
        line = self.lines[pod.workload]
        gpus = line.allocated.pop((pod.group, pod.index), None)
        if gpus is not None:
            self._hold(line, event.at_s, -gpus)
            self._wait(line, event.at_s, _requested_devices(line.workload, pod.group))

    def _ended(self, event: WorkloadEnded) -> None:
        line = self.lines[event.workload]
        if line.ended_s is not None:
            return
        line.ended_s, line.how = event.at_s, event.how
        self.ended += 1
        self._hold(line, event.at_s, -sum(line.allocated.values()))
        self._wait(line, event.at_s, -line.waits)
        line.allocated.clear()

    def _hold(self, line: JobRecord, at_s: float, by: float) -> None:
        if by:
            self.allocated[line.workload.project].change(at_s, by)

    def _wait(self, line: JobRecord, at_s: float, by: float) -> None:
        if by:
            line.waits += by
            self.waiting[line.workload.project].change(at_s, by)


def _requested_devices(workload: Workload, group: int) -> float:
    """Return the devices that a pod of a group requests; a request by memory counts as 0 until placed."""
    request = workload.groups[group].request
    return 0.0 if request.gpu_memory else request.devices * request.share_milli / 1000
