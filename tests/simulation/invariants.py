"""Invariants after every step: of the simulated cluster, and of control's state of it."""

from collections import Counter

from weir.control.idle_ladder import idle_rules
from weir.control.time_limits import limits_of
from weir.engine.cache import EngineCache
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI
from weir.simulation.simulated_cluster import SimulatedCluster
from weir.state.capacity_columns import NO_DEVICE
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeLost,
    NodeSet,
    Nominated,
    Placement,
    PodAssigned,
    PodKey,
    PodStopping,
    QueuesSet,
    TopologiesSet,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.jobs import Phase
from weir.state.reduce import reduce
from weir.state.shapes import GPU_ROW

from .reference_scheduler import first_fit

FACT_LATE_S_MAX = 5.0
ROUNDING_S = 1e-6
"""Sums of times in another order differ by as little."""


class Untrue(AssertionError):
    """Something that is always true isn't."""


def hold(that: bool, otherwise: str) -> None:
    """Say so if something isn't true."""
    if not that:
        raise Untrue(otherwise)


def of_world(world: SimulatedCluster) -> None:
    """No device and no node carries more than it has."""
    shares: Counter[tuple[str, int]] = Counter()
    amounts: Counter[tuple[str, str]] = Counter()
    for run in world.runs.values():
        for pod, alive in run.alive.items():
            node = world.nodes.get(alive.place.node)
            if node is None:
                continue
            request = run.job_trace.workload.groups[pod.group].request
            milli = (
                request.gpu_memory * WHOLE_MILLI // node.gpu_memory
                if request.gpu_memory
                else request.share_milli
            )
            for device in alive.place.devices:
                hold(device < node.gpus, f"{pod} is on device {device} of {node.name}, which has {node.gpus}")
                shares[node.name, device] += milli
            hold(len(set(alive.place.devices)) == request.devices, f"{pod} has {alive.place.devices}")
            amounts[node.name, "cpu"] += request.cpu_milli
            amounts[node.name, "memory"] += request.memory
            amounts[node.name, "pods"] += 1
    for (name, device), milli in shares.items():
        hold(milli <= WHOLE_MILLI, f"device {device} of {name} carries {milli} thousandths")
    for (name, resource), amount in amounts.items():
        most = world.nodes[name].capacity[resource]
        hold(amount <= most, f"{name} carries {amount} of {most} {resource}")


def of_cluster(cluster: Cluster, policy: Policy, now_s: float) -> None:
    """Limits, quotas of what can't be stopped, and gangs."""
    ledger = cluster.ledger
    for index, queue in enumerate(ledger.queues):
        for row, most in ledger.limited[index]:
            held = ledger.allocated[index][row]
            hold(held <= most, f"{queue.name} holds {held} of a limit of {most} {cluster.rows.names[row]}")
        for row, quota in ledger.bounded[index]:
            fixed = ledger.fixed[index][row]
            hold(fixed <= quota, f"{queue.name} holds {fixed} non-preemptible with a quota of {quota}")
    for name, job in cluster.incomplete.items():
        if job.running_pods() and not job.held:
            since_s = job.below_since_s
            hold(since_s is not None, f"{name} is incomplete since nobody knows when")
            assert since_s is not None
            over_s = now_s - since_s - policy.gang_grace
            hold(over_s <= 0, f"{name} is below its minimum for {now_s - since_s} s, {over_s} s too long")


def of_times(cluster: Cluster, policy: Policy, world: SimulatedCluster, connected_s: float) -> None:
    """Nothing runs for longer than its time rules say, or idles for longer where that is measured.

    A measurement may come late, and a gap isn't idle time.
    """
    late_s = 2 * world.measured_every_s + FACT_LATE_S_MAX
    for name, job in cluster.jobs.items():
        if job.started_s is None or not job.running_pods():
            continue
        project = cluster.ledger.queues[cluster.ledger.position[job.spec.project]]
        limits = limits_of(job.spec, project.times, policy.life)
        ran_s = world.now_s - job.started_s
        if limits.max_runtime_s is not None:
            over_s = job.ran_s + ran_s - limits.max_runtime_s
            hold(over_s < ROUNDING_S, f"{name} has run for {job.ran_s} + {ran_s} s")
        if limits.lifetime_s is not None:
            hold(ran_s - limits.lifetime_s < ROUNDING_S, f"{name} has been open for {ran_s} s")
        run = world.runs.get(name)
        ladder = idle_rules(job.spec, project.times, policy.life)
        if ladder.stop_s is None or run is None or run.started_s is None or not job.devices_milli:
            continue
        since_s = max(run.started_s + run.job_trace.idle_after_s, job.started_s, connected_s)
        idle_s = world.now_s - since_s
        hold(idle_s <= ladder.stop_s + ladder.lead_s + late_s, f"{name} has idled for {idle_s} s")


def of_plan(plan: Plan, again: Plan) -> None:
    """Check that the engine's cache only saves time: without it, the plan is the same."""
    for name in ("binds", "evictions", "nominations", "drops", "blocked", "wake_s"):
        own, theirs = getattr(plan, name), getattr(again, name)
        hold(own == theirs, f"{name} of the plan are {own}, without a memory {theirs}")


def of_waiting(cluster: Cluster, policy: Policy, now_s: float) -> None:
    """Nothing waits that fits into capacity which is free, where nothing is kept for anyone.

    Asked where neither reserve nor a reservation nor a wish for a domain may keep it waiting, and by
    another way of placing than the engine's.
    """
    jobs = [job for queued in cluster.waiting.values() for _, _, job in queued.members]
    oldest_s = min((job.spec.submitted_s for job in jobs), default=now_s)
    if (
        policy.reserve_fraction
        or now_s - oldest_s > policy.reserve_after
        or any(job.spec.topology for job in jobs)
    ):
        return
    could = {place.pod.workload for place in first_fit(cluster, policy, now_s, EngineCache()).binds}
    could -= set(cluster.nominated)  # they start with the capacity that is being freed for them
    hold(not could, f"these wait and would fit: {sorted(could)}")


def of_rebuilt(cluster: Cluster) -> None:
    """The state that events updated in place equals one built from scratch."""
    fresh = rebuilt(cluster)
    _same_capacity(cluster, fresh)
    for name in ("allocated", "fixed", "asked"):
        for index, queue in enumerate(cluster.ledger.queues):
            own = dict(zip(cluster.rows.names, getattr(cluster.ledger, name)[index], strict=True))
            theirs = dict(zip(fresh.rows.names, getattr(fresh.ledger, name)[index], strict=True))
            _same(own, theirs, name, queue.name)
    _same(set(cluster.incomplete), set(fresh.incomplete), "incomplete")
    _same(set(cluster.nominated), set(fresh.nominated), "nominated")
    running = {name for jobs in cluster.running.values() for name in jobs}
    again = {name for jobs in fresh.running.values() for name in jobs}
    _same(running, again, "running")
    waiting = sorted(job.spec.name for queued in cluster.waiting.values() for _, _, job in queued.members)
    again_waiting = sorted(job.spec.name for queued in fresh.waiting.values() for _, _, job in queued.members)
    _same(waiting, again_waiting, "waiting")
    for name, job in cluster.jobs.items():
        other = fresh.jobs[name]
        own_counts = (job.placed, job.pending, job.stopping)
        theirs_ = (other.placed, other.pending, other.stopping)
        _same(own_counts, theirs_, "placed, pending, stopping", name)


def _same(own: object, theirs: object, subject: str, whose: str = "the cluster") -> None:
    """Say so if they aren't; writing the sentence costs more than comparing."""
    if own != theirs:
        raise Untrue(f"{subject} of {whose} is {own}, rebuilt {theirs}")


def rebuilt(cluster: Cluster) -> Cluster:
    """The same state, from scratch."""
    fresh = Cluster()
    for index, node in enumerate(cluster.nodes):
        lost = Node(
            cluster.node_names[index], cluster.free_capacity.share.shape[1], cluster.device_memory[index], {}
        )
        reduce(fresh, NodeSet(lost if node is None else node))
    reduce(fresh, TopologiesSet(tuple(cluster.topologies.values())))
    reduce(fresh, QueuesSet(cluster.ledger.queues))
    for job in cluster.jobs.values():
        reduce(fresh, WorkloadSubmitted(job.spec, job.spec.submitted_s, job.ran_s))
        pods = [pod for group in job.pods for pod in group]
        for pod in pods:
            if pod.phase in (Phase.RUNNING, Phase.STOPPING):
                key = PodKey(job.spec.name, pod.group, pod.index)
                place = Placement(key, cluster.node_names[pod.node], pod.devices)
                reduce(fresh, PodAssigned(place, job.started_s or 0.0))
                if pod.phase is Phase.STOPPING:
                    reduce(fresh, PodStopping(key, 0.0))
        promised = tuple(
            Placement(
                PodKey(job.spec.name, pod.group, pod.index),
                cluster.node_names[pod.nomination[0]],
                pod.nomination[1],
            )
            for pod in pods
            if pod.nomination is not None
        )
        if promised:
            reduce(fresh, Nominated(job.spec.name, promised, 0.0))
        if job.held:
            reduce(fresh, WorkloadSuspended(job.spec.name, True))
    for index, node in enumerate(cluster.nodes):
        if node is None:
            reduce(fresh, NodeLost(cluster.node_names[index]))
    return fresh


def _same_capacity(cluster: Cluster, fresh: Cluster) -> None:
    for index, node in enumerate(cluster.nodes):
        if node is None:
            continue
        other = fresh.node_at[node.name]
        for name in ("free_capacity", "releasing"):
            own, theirs = getattr(cluster, name), getattr(fresh, name)
            free = dict(zip(cluster.rows.names, own.free[:, index].tolist(), strict=False))
            again = dict(zip(fresh.rows.names, theirs.free[:, other].tolist(), strict=False))
            _same(free, again, name, node.name)
            for part in ("share", "memory"):
                by_device = getattr(own, part)[index, : node.gpus].tolist()
                by_device_again = getattr(theirs, part)[other, : node.gpus].tolist()
                _same(by_device, by_device_again, f"{name} ({part})", node.name)
        total = int(cluster.free_capacity.share[index, : node.gpus].sum())
        _same(total, int(cluster.free_capacity.free[GPU_ROW, index]), "free by device", node.name)
        hold(
            bool((cluster.free_capacity.share[index, node.gpus :] == NO_DEVICE).all()),
            f"{node.name} has devices too many",
        )
