"""Reclaim with disruption budgets: none is broken, and an owner gets its GPUs if any allowed victims suffice.

Budgets protect a random half of the pods. What a backend said of them may be wrong: then it refuses, as the
eviction API does, and the engine has to choose again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from hypothesis import given
from hypothesis import strategies as st

from weir.engine.plan import Plan
from weir.model.budgets import DisruptionBudget
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import EvictionRule
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    BudgetSet,
    NominationReleased,
    Placement,
    PodAssigned,
    PodKey,
    PodProtected,
    StopRefused,
    WorkloadSubmitted,
)
from weir.state.jobs import Job, Phase, Pod

from .budget import examples
from .exhaustive import fits, floors
from .random_cluster import World, node
from .running import Running, key_of, pods_of

POLICIES = tuple(
    Policy.model_validate(fields)
    for fields in (
        {},
        {"preset": "fair"},
        {"consolidation": {"enabled": False}},
        {"preset": "fair", "consolidation": {"budget": 1e9}},
    )
)
GPUS = 4
CYCLES = 2
"""Cycles after a refusal within which the GPUs are the owner's, or are being freed for it."""


@dataclass(frozen=True)
class Protected:
    """A full cluster, its budgets as they are and as they were told, and who asks."""

    world: World
    running: tuple[tuple[Workload, tuple[int, ...]], ...]  # with the node of each pod
    budgets: dict[str, tuple[int, int]]  # allowed, and told to be
    members: dict[PodKey, tuple[str, ...]]
    owner: Workload


@st.composite
def protected(draw: st.DrawFn) -> Protected:
    """Return nodes full of borrowers, half of whose pods some budget protects, and an owner that asks."""
    nodes = tuple(node(f"n{number}", GPUS) for number in range(draw(st.integers(1, 3))))
    queues = (
        Queue("owner", quota={"gpu": len(nodes) * GPUS * WHOLE_MILLI}, created_s=0.0),
        Queue("p0", quota={"gpu": 0}, created_s=60.0),
        Queue("p1", quota={"gpu": draw(st.integers(0, 3)) * WHOLE_MILLI}, created_s=120.0),
    )
    free = [GPUS] * len(nodes)
    running: list[tuple[Workload, tuple[int, ...]]] = []
    while sum(free) and len(running) < 6:
        size, count = draw(st.sampled_from(((1, 1), (2, 1), (4, 1), (1, 2), (1, 3), (2, 2))))
        places: list[int] = []
        for _ in range(count):
            node_index = next((node_index for node_index, left in enumerate(free) if left >= size), None)
            if node_index is not None:
                free[node_index] -= size
                places.append(node_index)
        if not places:
            size, places = 1, [next(index for index, left in enumerate(free) if left)]
            free[places[0]] -= 1
        least = draw(st.integers(0, len(places)))
        group = PodGroup("0", Request(devices=size), len(places), max(1, least) if least else 0)
        name, project = f"w{len(running)}", draw(st.sampled_from(("p0", "p1")))
        age_s = -60.0 * draw(st.integers(1, 100))
        running.append((Workload(name, project, (group,), group.min, age_s), tuple(places)))
    budgets: dict[str, tuple[int, int]] = {}
    for node_index in range(draw(st.integers(1, 3))):
        allowed = draw(st.sampled_from((0, 0, 1, 2)))
        budgets[f"b{node_index}"] = allowed, allowed + draw(st.sampled_from((0, 1, 1, 2)))
    members = {
        PodKey(workload.name, 0, index): (draw(st.sampled_from(sorted(budgets))),)
        for workload, places in running
        for index in range(len(places))
        if draw(st.booleans())
    }
    size, count = draw(st.sampled_from(((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2))))
    owner = Workload("asks", "owner", (PodGroup("0", Request(devices=size), count, count),), count, -1.0)
    world = World(nodes, queues, (), draw(st.sampled_from(POLICIES)))
    return Protected(world, tuple(running), budgets, members, owner)


class Refusing(Running):
    """A world that refuses to stop a pod where its budgets, as they really are, allow none."""

    def __init__(self, case: Protected) -> None:
        super().__init__(case.world)
        self.allowed = {name: allowed for name, (allowed, _) in case.budgets.items()}
        self.members = case.members
        self.refusals = 0
        used: dict[int, int] = {}
        for workload, places in case.running:
            self.tell(WorkloadSubmitted(workload, workload.submitted_s))
            for index, node_index in enumerate(places):
                first, size = used.get(node_index, 0), workload.groups[0].request.devices
                used[node_index] = first + size
                devices = tuple(range(first, first + size))
                self.tell(
                    PodAssigned(
                        Placement(PodKey(workload.name, 0, index), f"n{node_index}", devices),
                        workload.submitted_s,
                    )
                )
        for name, (_, reported) in case.budgets.items():
            self.tell(BudgetSet(DisruptionBudget(name, reported)))
        for key, names in case.members.items():
            self.tell(PodProtected(key, names))

    def carry_out(self, plan: Plan) -> None:
        """Do what a plan says; evictions that a budget doesn't allow are refused once all are ordered."""
        super().carry_out(plan)
        for eviction in plan.evictions:
            pod = self.cluster.jobs[eviction.pod.workload].pods[eviction.pod.group][eviction.pod.index]
            names = self.members.get(eviction.pod, ())
            if all(self.allowed[name] > 0 for name in names):
                for name in names:
                    self.allowed[name] -= 1
            elif pod.phase is Phase.STOPPING:
                self._refuse(eviction.pod, eviction.cause.by)

    def _refuse(self, key: PodKey, by: str | None) -> None:
        del self.going[key]
        self.refusals += 1
        for name in dict.fromkeys((key.workload, by)):
            if name is not None and name in self.cluster.nominated:
                self.tell(NominationReleased(name))
        self.tell(StopRefused(key, self.now_s, "Cannot evict pod.", by))
        for name in self.members.get(key, ()):
            self.tell(BudgetSet(DisruptionBudget(name, self.allowed[name])))

    def has_its_gpus(self, name: str, *, running: bool = False) -> bool:
        """Return True if all pods of a workload run, or else have GPUs promised that are being freed."""
        pods = pods_of(self.cluster.jobs[name])
        return all(pod.phase is Phase.RUNNING or (pod.nomination and not running) for pod in pods)


@examples(133)
@given(protected())
def test_owner_has_its_gpus_whenever_allowed_victims_suffice(case: Protected) -> None:
    running = Refusing(_slow(case))
    running.before(lambda plan: _breaks_no_budget(running.cluster, plan))
    running.tell(WorkloadSubmitted(case.owner, running.now_s))
    since = refusals = 0
    possible = _allowed_victims_suffice(running, case.owner)
    for _ in range(12):
        running.cycle()
        since += 1
        if running.refusals != refusals:
            refusals, since = running.refusals, 0
            possible = _allowed_victims_suffice(running, case.owner)
        assert since < CYCLES or not possible or running.has_its_gpus("asks")
    assert not possible or running.has_its_gpus("asks", running=True)


def _slow(case: Protected) -> Protected:
    """Return the case with stops that are answered in the cycle that ordered them."""
    world = World(case.world.nodes, case.world.queues, (), case.world.policy, stops_after=(2,))
    return Protected(world, case.running, case.budgets, case.members, case.owner)


def _breaks_no_budget(cluster: Cluster, plan: Plan) -> None:
    used: dict[str, int] = {}
    for eviction in plan.evictions:
        if eviction.cause.rule is EvictionRule.GANG_BROKEN:
            continue
        pod = cluster.jobs[eviction.pod.workload].pods[eviction.pod.group][eviction.pod.index]
        for budget in pod.budgets:
            used[budget.name] = used.get(budget.name, 0) + 1
    assert all(cluster.budgets[name].allowed >= number for name, number in used.items())


# The exhaustive answer


def _allowed_victims_suffice(running: Refusing, owner: Workload) -> bool:
    """Return True if some set of victims that quotas and budgets allow frees capacity for the owner."""
    cluster = running.cluster
    wanted = [owner.groups[0].request] * owner.groups[0].count
    victims = [
        job
        for job in cluster.jobs.values()
        if job.running_pods() and job.name != owner.name and not job.stopping and not job.is_below()
    ]
    for choice in product(*(list(_options(job)) for job in victims)):
        going = [pod for pods in choice for pod in pods]
        if _in_budget(running, going) and _in_order(cluster, list(zip(victims, choice, strict=True))):
            free = floors(cluster)
            for pod in going:
                free[pod.node].take(pod.shape.request, pod.devices, -1)
            for pod in chain.from_iterable(map(pods_of, cluster.jobs.values())):
                if pod.phase is Phase.STOPPING:
                    free[pod.node].take(pod.shape.request, pod.devices, -1)
            if fits(cluster, wanted, free):
                return True
    return False


def _options(job: Job) -> Iterator[tuple[Pod, ...]]:
    """Yield what may go of a workload: nothing, elastic pods, or all of it."""
    pods = job.running_pods()
    spare = len(pods) - sum(job.needed)
    for count in range(max(0, spare) + 1):
        yield from combinations(pods, count)
    if spare < len(pods):
        yield tuple(pods)


def _in_budget(running: Refusing, going: Sequence[Pod]) -> bool:
    used: dict[str, int] = {}
    for pod in going:
        for name in running.members.get(key_of(pod), ()):
            used[name] = used.get(name, 0) + 1
    return all(running.allowed[name] >= number for name, number in used.items())


def _in_order(cluster: Cluster, choice: Sequence[tuple[Job, tuple[Pod, ...]]]) -> bool:
    """Return True if each project is over its quota before each of its victims goes."""
    by_project: dict[int, list[int]] = {}
    for job, pods in choice:
        needed = sum(job.needed)
        whole = len(pods) == len(job.running_pods()) and needed
        elastic = [pod.gpu_milli() for pod in pods[: len(pods) - needed if whole else len(pods)]]
        rest = sum(pod.gpu_milli() for pod in pods[len(pods) - needed :]) if whole else 0
        by_project.setdefault(job.project, []).extend([*elastic, *([rest] if rest else [])])
    for project, sizes in by_project.items():
        ledger = cluster.ledger
        over = ledger.allocated[project][0] - ledger.quota[project][0]
        if sizes and sum(sizes) - max(sizes) >= over:
            return False
    return True
