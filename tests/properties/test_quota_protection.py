"""Reclaim stops no work within its quota while work held over quota would do, wherever that runs."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import EvictionRule
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase

from .budget import examples
from .exhaustive import fits, floors, in_quota, passes_gates
from .invariants import held
from .random_cluster import Does, World, node
from .running import Running, pods_of

POLICIES = tuple(
    Policy.model_validate({"reserve_after": 1e9, **fields})
    for fields in (
        {},
        {"preset": "fair"},
        {"preset": "fair", "victim_policy": "lowest_cost"},
        {"preset": "fair", "consolidation": {"enabled": False}},
        {"preset": "fair", "victim_policy": "lowest_cost", "consolidation": {"budget": 1e9}},
    )
)
RECLAIM = (EvictionRule.RECLAIM_QUOTA, EvictionRule.RECLAIM_SHARE)
SETS_MAX = 400
"""Sets of victims tried for one asker."""


@st.composite
def over_committed(draw: st.DrawFn) -> World:
    """Return a world whose quotas exceed its devices, in which borrowers and owners run when others come."""
    department = draw(st.sampled_from((None, "d0", "d0", "d1")))
    queues = (
        _queue(draw, "d0", None, (4, 6)),
        _queue(draw, "d1", None, (1, 2, 4)),
        _queue(draw, "p0", draw(st.sampled_from((department, "d0", "d1"))), (0, 0, 1)),
        _queue(draw, "p1", draw(st.sampled_from((None, "d1"))), (2, 4)),
        _queue(draw, "p2", "d0", (2, 4, 6)),
        _queue(draw, "p3", department, (0, 1, 4)),
    )
    first = [_work(draw, index, ("p0", "p0", "p1", "p3")) for index in range(5)]
    then = [_work(draw, index, ("p2", "p2", "p2", "p3")) for index in range(5, 9)]
    return World(
        nodes=tuple(node(f"n{index}", draw(st.sampled_from((2, 3, 4)))) for index in range(2)),
        queues=queues,
        workloads=(*first, *then),
        policy=draw(st.sampled_from(POLICIES)),
        steps=((Does.SUBMIT, 4), (Does.CYCLE, 0), *((Does.SUBMIT, 0), (Does.CYCLE, 0), (Does.CYCLE, 0)) * 4),
    )


def _queue(draw: st.DrawFn, name: str, parent: str | None, quotas: tuple[int, ...]) -> Queue:
    quota = {"gpu": draw(st.sampled_from(quotas)) * WHOLE_MILLI}
    priority = draw(st.sampled_from((110, 200) if name == "d0" else (100, 100, 150)))
    return Queue(name, parent, name[0] == "p", quota, priority=priority, created_s=60.0 * int(name[1]))


def _work(draw: st.DrawFn, index: int, projects: tuple[str, ...]) -> Workload:
    size, count = draw(st.sampled_from(((1, 1), (1, 1), (2, 1), (2, 1), (0, 1), (1, 2))))
    request = Request(devices=size) if size else Request(devices=1, share_milli=500)
    group = PodGroup("0", request, count, count)
    return Workload(f"w{index}", draw(st.sampled_from(projects)), (group,), count, -60.0 * (20 - index))


@examples(24)
@given(over_committed())
def test_no_work_within_its_quota_is_stopped_while_work_over_quota_would_do(world: World) -> None:
    running = Running(world)
    running.before(lambda plan: _over_quota_goes_first(running.cluster, plan))
    for _ in running.run():
        pass
    running.settle(6)


def _over_quota_goes_first(cluster: Cluster, plan: Plan) -> None:
    """Ask it of the plans that stop others for one workload alone: there nothing else has changed before."""
    stopped = [
        eviction for eviction in plan.evictions if not eviction.moves and eviction.cause.rule in RECLAIM
    ]
    askers = {eviction.cause.by for eviction in stopped}
    if len(askers) != 1 or plan.binds or {nomination.workload for nomination in plan.nominations} != askers:
        return
    (name,) = askers
    assert name is not None
    asker = cluster.jobs[name]
    wanted = [
        pod.shape.request for promise in plan.nominations for place in promise.places
        for pod in pods_of(asker) if (pod.group, pod.index) == (place.pod.group, place.pod.index)
    ]  # fmt: skip
    protected = [
        eviction.pod
        for eviction in stopped
        if _is_protected(cluster, asker, cluster.jobs[eviction.pod.workload], wanted)
    ]
    if protected and in_quota(cluster, asker, wanted):
        for going in _over_quota(cluster, asker, wanted):
            does = passes_gates(cluster, asker, wanted, going)
            does = does and fits(cluster, wanted, floors(cluster, without=going))
            names = [job.name for job in going]
            assert not does, f"{protected} stopped for {name}, though {names} over quota would do"


def _levels(cluster: Cluster, asker: Job, victim: Job) -> list[str]:
    """Return the queues of a victim from where its path leaves that of the asker."""
    queues = cluster.ledger.queues
    return [queues[index].name for index in victim.path if index not in asker.path]


def _is_over(cluster: Cluster, queue: str, wanted: Sequence[Request], without: Sequence[Job] = ()) -> bool:
    """Return True if a queue holds more than its quota of something asked for."""
    quota = next(own_queue.quota for own_queue in cluster.ledger.queues if own_queue.name == queue)
    amounts = held(cluster, fixed=False, without=without)
    asked = {"cpu", "memory", "pods"} | ({"gpu"} if any(request.devices for request in wanted) else set())
    return any(amounts[queue, name] > most for name, most in quota.items() if name in asked)


def _is_protected(cluster: Cluster, asker: Job, victim: Job, wanted: Sequence[Request]) -> bool:
    return not all(_is_over(cluster, queue, wanted) for queue in _levels(cluster, asker, victim))


def _over_quota(cluster: Cluster, asker: Job, wanted: Sequence[Request]) -> Iterator[list[Job]]:
    """Yield sets of workloads, each of which begins to go while all its queues are over their quotas."""
    jobs = [
        job
        for job in cluster.jobs.values()
        if job.project != asker.project
        and job.preemptible
        and job.name not in asker.stopped_for
        and job.name not in cluster.nominated
        and all(pod.phase is Phase.RUNNING for pod in pods_of(job))
        and sum(job.needed) == job.spec.pods  # elastic pods would go one at a time
    ]
    seen: set[frozenset[str]] = set()
    front: list[list[Job]] = [[]]
    while front and len(seen) < SETS_MAX:
        going = front.pop(0)
        for job in jobs:
            levels = _levels(cluster, asker, job)
            chosen = [*going, job]
            key = frozenset(chosen_job.name for chosen_job in chosen)
            if (
                job not in going
                and key not in seen
                and all(_is_over(cluster, queue, wanted, going) for queue in levels)
            ):
                seen.add(key)
                front.append(chosen)
                yield chosen
