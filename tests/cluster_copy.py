"""Copy of the cluster, rebuilt from its current state, event by event: what branches are compared with.

Learned data (run times, usage, the request mix) is copied too, since decisions depend on it.
"""

from copy import deepcopy
from dataclasses import dataclass

from weir.model.budgets import DisruptionBudget
from weir.model.workloads import Request
from weir.state.capacity_columns import CapacityColumns
from weir.state.cluster import Cluster
from weir.state.events import (
    BudgetSet,
    Checkpointed,
    Event,
    HistoryRestored,
    NodeSet,
    Nominated,
    Placement,
    PodAssigned,
    PodKey,
    PodProtected,
    PodStopping,
    QueuesSet,
    TopologiesSet,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.jobs import Job, Phase
from weir.state.reduce import reduce
from weir.state.request_mix import RequestMix
from weir.state.runtime_history import RuntimeHistory
from weir.state.usage_history import UsageHistory


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """State of a cluster as events, each after those it depends on."""

    events: tuple[Event, ...]
    resources: tuple[str, ...]  # by row
    marks: tuple[str, ...]  # by row
    requests: tuple[Request, ...]  # by number of their shape
    mix: tuple[tuple[int, int], ...]  # (number of a shape, pods)
    mix_capacity: CapacityColumns | None  # capacity when the mix was computed
    usage: UsageHistory
    runtimes: RuntimeHistory  # shared with the cluster: a trial ends nothing successfully
    now_s: float


def cluster_facts(cluster: Cluster, *, with_usage: bool = True) -> ClusterFacts:
    """Return the state of a cluster as events; past usage only if decisions depend on it."""
    events: list[Event] = [TopologiesSet(tuple(cluster.topologies.values()))]
    events += [NodeSet(node) for node in cluster.nodes if node is not None]
    events.append(QueuesSet(cluster.ledger.queues))
    for job in cluster.jobs.values():
        events.append(WorkloadSubmitted(job.spec, job.spec.submitted_s, job.ran_s, absent_pods(job)))
        if job.started_s is not None or job.stopping:
            events += _pods_of(cluster, job)
        past = HistoryRestored(
            job.spec.name, job.waits_since_s, job.below_since_s, tuple(job.stopped_for.items())
        )
        if past != HistoryRestored(job.spec.name, job.spec.submitted_s):
            events.append(past)
        if job.held:
            events.append(
                WorkloadSuspended(job.spec.name, True, job.held_why, job.held_until_s, job.held_code)
            )
    events += [_nomination_of(cluster, job) for job in cluster.nominated.values()]
    events += _budgets_of(cluster)  # after the pods that stop: their budgets have counted them already
    return ClusterFacts(
        events=tuple(events),
        resources=tuple(cluster.rows.names),
        marks=tuple(cluster.marks.names),
        requests=tuple(shape.request for shape in cluster.shapes.all),
        mix=tuple((shape.id, pods) for shape, pods in cluster.mix.drawn),
        mix_capacity=_mix_capacity(cluster),
        usage=deepcopy(cluster.usage) if with_usage else UsageHistory(),
        runtimes=cluster.runtimes,
        now_s=cluster.now_s,
    )


def absent_pods(job: Job) -> frozenset[PodKey]:
    """Return the pods of a job that don't exist."""
    return frozenset(
        PodKey(job.spec.name, pod.group, pod.index)
        for group in job.pods
        for pod in group
        if pod.phase is Phase.ABSENT
    )


def copy_cluster(picture: ClusterFacts) -> Cluster:
    """Build a cluster from facts."""
    cluster = Cluster()
    cluster.rows.see(picture.resources)
    cluster.marks.see(picture.marks)
    for request in picture.requests:
        cluster.shapes.shape_of(request)
    for event in picture.events:
        reduce(cluster, event)
    cluster.usage = deepcopy(picture.usage)
    cluster.mix = RequestMix()
    cluster.mix.drawn = tuple((cluster.shapes.all[number], pods) for number, pods in picture.mix)
    cluster.mix.free_capacity = picture.mix_capacity
    cluster.mix.version = 1
    cluster.runtimes = picture.runtimes
    cluster.now_s = max(cluster.now_s, picture.now_s)
    return cluster


def _mix_capacity(cluster: Cluster) -> CapacityColumns | None:
    """Return the capacity that the request mix was computed for, of the nodes that still exist."""
    capacity = cluster.mix.free_capacity
    if capacity is None:
        return None
    rows, nodes = cluster.free_capacity.free.shape
    capacity = capacity.grown(rows, nodes, cluster.free_capacity.share.shape[1])
    there = [at for at, node in enumerate(cluster.nodes) if node is not None]
    return CapacityColumns(
        capacity.free[:, there], capacity.share[there], capacity.memory[there], capacity.marks[:, there]
    )


def _pods_of(cluster: Cluster, job: Job) -> list[Event]:
    name, events = job.spec.name, list[Event]()
    started_s = job.spec.submitted_s if job.started_s is None else job.started_s
    for group in job.pods:
        for pod in group:
            if pod.phase in (Phase.RUNNING, Phase.STOPPING):
                key = PodKey(name, pod.group, pod.index)
                events.append(
                    PodAssigned(Placement(key, cluster.node_names[pod.node], pod.devices), started_s)
                )
                if pod.phase is Phase.STOPPING:
                    events.append(PodStopping(key, started_s))
    if job.saved_s is not None:
        events.insert(1, Checkpointed(name, job.saved_s))
    return events


def _budgets_of(cluster: Cluster) -> list[Event]:
    if not cluster.budgets:
        return []
    found: list[Event] = [
        BudgetSet(DisruptionBudget(name, budget.allowed)) for name, budget in cluster.budgets.items()
    ]
    for job in cluster.jobs.values():
        for pod in (pod for group in job.pods for pod in group if pod.budgets):
            names = tuple([budget.name for budget in pod.budgets])
            found.append(PodProtected(PodKey(job.spec.name, pod.group, pod.index), names))
    return found


def _nomination_of(cluster: Cluster, job: Job) -> Nominated:
    name = job.spec.name
    places = tuple(
        Placement(
            PodKey(name, pod.group, pod.index), cluster.node_names[pod.nomination[0]], pod.nomination[1]
        )
        for group in job.pods
        for pod in group
        if pod.nomination is not None
    )
    return Nominated(name, places, cluster.now_s, job.nomination_freed_by)
