"""States in which it is hard to choose victims. Each is made of a number of nodes and a policy."""

from collections.abc import Iterable
from dataclasses import replace

from bench.hard_state_parts import LATER_S, add_different, add_gang, borrowed
from bench.made import NODE_GPUS, Made, project, work
from weir.model.budgets import DisruptionBudget
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.workloads import (
    WHOLE_MILLI,
    PodGroup,
    Request,
    Workload,
    WorkloadType,
)
from weir.state.events import (
    BudgetSet,
    PodKey,
    PodProtected,
    PodStopping,
    QueuesSet,
    StopRefused,
)
from weir.state.reduce import reduce


def protect(made: Made, pods: Iterable[int], per_budget: int = 1, allowed: int = 1) -> None:
    """Add budgets that each cover this number of single pods."""
    for position, job in enumerate(pods):
        name = f"budget-{position // per_budget:05d}"
        if position % per_budget == 0:
            reduce(made.cluster, BudgetSet(DisruptionBudget(name, allowed)))
        reduce(made.cluster, PodProtected(PodKey(f"job-{job:06d}", 0, 0), (name,)))


def half(nodes: int, policy: Policy) -> Made:
    """A gang of half the cluster reclaims its quota."""
    made = borrowed(nodes, policy)
    add_gang(made)
    return made


def tight(nodes: int, policy: Policy) -> Made:
    """The same, where its quota is one device too small."""
    made = borrowed(nodes, policy, kept=0.499)
    add_gang(made)
    return made


def budget(nodes: int, policy: Policy) -> Made:
    """The gang, and a disruption budget of one pod."""
    made = half(nodes, policy)
    protect(made, [1])
    return made


def budgets(nodes: int, policy: Policy) -> Made:
    """The gang, and a budget for every ten of a third of the pods."""
    made = half(nodes, policy)
    protect(made, range(0, nodes * NODE_GPUS, 3), per_budget=10)
    return made


def budget_each_node(nodes: int, policy: Policy) -> Made:
    """The gang, and budgets that allow nothing on all but a hundredth of the nodes it needs."""
    made = half(nodes, policy)
    protect(made, range(0, int(nodes * 0.51) * NODE_GPUS, NODE_GPUS), allowed=0)
    return made


def budget_spanning(nodes: int, policy: Policy) -> Made:
    """Return a state with one budget over all pods, which allows fewer than the gang needs."""
    made = half(nodes, policy)
    protect(made, range(nodes * NODE_GPUS), per_budget=nodes * NODE_GPUS, allowed=nodes * NODE_GPUS // 4)
    return made


def burst(nodes: int, policy: Policy) -> Made:
    """Single devices reclaim half the cluster, one workload each; all their victims cost the same."""
    made = borrowed(nodes, policy)
    for index in range(nodes * NODE_GPUS // 2):
        made.submit(work(f"late-{index:06d}", "owner", made.now_s))
    return made


def _refuse(made: Made, pods: Iterable[int]) -> None:
    for job in pods:
        pod = PodKey(f"job-{job:06d}", 0, 0)
        cause = EvictionCause(EvictionRule.RECLAIM_QUOTA, "gang", "")
        reduce(made.cluster, PodStopping(pod, made.now_s, cause))
        reduce(made.cluster, StopRefused(pod, made.now_s, "denied", "gang"))


def refused(nodes: int, policy: Policy) -> Made:
    """The gang, after one refused eviction."""
    made = half(nodes, policy)
    _refuse(made, [8])
    return made


def refused_many(nodes: int, policy: Policy) -> Made:
    """The gang, after refused evictions on a third of the nodes."""
    made = half(nodes, policy)
    _refuse(made, range(0, nodes * NODE_GPUS, 3 * NODE_GPUS))
    return made


def refused_tight(nodes: int, policy: Policy) -> Made:
    """Return the gang after refused evictions on nodes of which too few are left."""
    made = half(nodes, policy)
    _refuse(made, range(0, int(nodes * 0.51) * NODE_GPUS, NODE_GPUS))
    return made


def elastic(nodes: int, policy: Policy) -> Made:
    """Every node has an elastic job of 8 pods with a minimum of 1; a gang of half the cluster comes."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus // 2, "borrower": gpus // 2}, policy)
    for index in range(nodes):
        group = PodGroup("worker", Request(devices=1), count=NODE_GPUS, min=1)
        made.run(
            Workload(f"job-{index:06d}", "borrower", (group,), 1, index / nodes),
            range(index * NODE_GPUS, (index + 1) * NODE_GPUS),
        )
    made.now_s = LATER_S
    add_gang(made)
    return made


def elastic_wide(nodes: int, policy: Policy) -> Made:
    """Elastic jobs over 64 nodes each, interleaved; gangs of single devices and of nodes come."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus // 2, "borrower": gpus // 2}, policy)
    jobs = max(1, gpus // 64)
    for index in range(jobs):
        devices = range(index, gpus, jobs)
        group = PodGroup("worker", Request(devices=1), count=len(devices), min=4)
        made.run(Workload(f"job-{index:06d}", "borrower", (group,), 4, index / jobs), devices)
    made.now_s = LATER_S
    add_gang(made, "nodes", pods=nodes // 4)
    add_gang(made, "devices", pods=nodes, gpus=1)
    return made


def wide_victims(nodes: int, policy: Policy) -> Made:
    """Gangs over 64 nodes each, interleaved, of a borrower; 100 gangs of four nodes come."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus // 2, "borrower": gpus // 2}, policy)
    jobs = max(1, gpus // 64)
    for index in range(jobs):
        devices = range(index, gpus, jobs)
        made.run(work(f"job-{index:06d}", "borrower", index / jobs, pods=len(devices)), devices)
    made.now_s = LATER_S
    for index in range(100):
        add_gang(made, f"gang-{index:03d}", pods=4)
    return made


def classes_over_quota(nodes: int, policy: Policy) -> Made:
    """Thousands of different requests over quota, on a full cluster of others' quota."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus, "late": 0}, policy)
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", "owner", index / gpus), (index,))
    made.now_s = LATER_S
    add_different(made, 4 * nodes, "late")
    return made


def alike_reclaim(nodes: int, policy: Policy) -> Made:
    """Equal requests for one device reclaim a quota of half the cluster."""
    made = borrowed(nodes, policy)
    for index in range(2 * nodes):
        made.submit(work(f"late-{index:06d}", "owner", made.now_s))
    return made


def classes_reclaim(nodes: int, policy: Policy) -> Made:
    """Hundreds of different requests reclaim a quota of half the cluster."""
    made = borrowed(nodes, policy)
    add_different(made, 2 * nodes, "owner", 2)
    return made


def classes_preempt(nodes: int, policy: Policy) -> Made:
    """Thousands of different requests of all priorities, in a project that is full of its own work."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus}, policy)
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", "owner", index / gpus, priority=index % 80), (index,))
    made.now_s = LATER_S
    add_different(made, 4 * nodes, "owner")
    return made


def fractions(nodes: int, policy: Policy) -> Made:
    """Every device holds a half and a third of a borrower; shares and whole nodes are reclaimed."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus // 2, "borrower": gpus // 2}, policy)
    for index in range(gpus):
        made.run(work(f"half-{index:06d}", "borrower", index / gpus, milli=500), (index,))
        made.run(work(f"third-{index:06d}", "borrower", index / gpus, milli=333), (index,))
    made.now_s = LATER_S
    add_gang(made, "nodes", pods=nodes // 4)
    for index in range(200):
        milli = 200 + 3 * index
        made.submit(work(f"share-{index:04d}", "owner", made.now_s, milli=milli))
    return made


def in_the_way(nodes: int, policy: Policy) -> Made:
    """Every node has a pod that may not be stopped; gangs of whole nodes and of seven devices come."""
    made = borrowed(nodes, policy, in_the_way=True)
    for index in range(20):
        add_gang(made, f"whole-{index}", pods=4)
    add_gang(made, "seven", pods=nodes // 2, gpus=7)
    return made


def deep_tree(nodes: int, policy: Policy) -> Made:
    """Departments seven deep, two below each; every project borrows or waits."""
    made = Made(nodes, {}, policy)
    queues = [Queue("d", None, False)]
    above = ["d"]
    for depth in range(7):
        is_project = depth == 6
        below = [Queue(f"{name}{side}", name, is_project) for name in above for side in "ab"]
        queues += below
        above = [queue.name for queue in below]
    gpus = nodes * NODE_GPUS
    share = gpus // len(above)
    quota = dict.fromkeys((queue.name for queue in queues), 0)
    for name in above:
        for end in range(1, len(name) + 1):
            quota[name[:end]] += share
    reduce(
        made.cluster,
        QueuesSet(tuple(replace(queue, quota={"gpu": quota[queue.name] * WHOLE_MILLI}) for queue in queues)),
    )
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", above[index % (len(above) // 4)], index / gpus), (index,))
    made.now_s = LATER_S
    for index, name in enumerate(above):
        for number in range(5):
            made.submit(
                work(
                    f"late-{index}-{number}", name, made.now_s, pods=1 + number, gpus=2, priority=50 + number
                )
            )
    return made


def services(nodes: int, policy: Policy) -> Made:
    """Fifty services grow over a cluster of borrowers, and may have hundreds of replicas each."""
    made = borrowed(nodes, policy)
    for index in range(50):
        group = PodGroup("replica", Request(devices=1 + index % 2), count=nodes, min=1)
        spec = Workload(f"service-{index:03d}", "owner", (group,), 1, made.now_s, WorkloadType.INFERENCE, 125)
        made.submit(spec)
    return made


def gangs_compete(nodes: int, policy: Policy) -> Made:
    """Twenty projects with gangs of a quarter of the cluster each, all in quota, on borrowed devices."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"borrower": 0, **{project(index): gpus // 20 for index in range(20)}}, policy)
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", "borrower", index / gpus, priority=index % 50), (index,))
    made.now_s = LATER_S
    for index in range(20):
        add_gang(made, f"gang-{index:03d}", project(index), pods=gpus // 20, gpus=1, priority=50 + index)
        add_gang(made, f"nodes-{index:03d}", project(index), pods=nodes // 4, priority=10)
    return made


STATES = {
    state.__name__: state
    for state in (
        *(half, burst, tight, budget, budgets, budget_each_node, budget_spanning),
        *(refused, refused_many, refused_tight, elastic, elastic_wide, wide_victims),
        *(alike_reclaim, classes_over_quota, classes_reclaim, classes_preempt),
        *(fractions, in_the_way, deep_tree, services, gangs_compete),
    )
}
