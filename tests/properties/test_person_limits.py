"""Limits of persons hold in every state, whatever happens, and withhold nothing without need."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.queues import PersonLimits
from weir.model.reasons import ReasonCode
from weir.model.workloads import WorkloadType
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.person_admission import whole_milli

from .budget import examples
from .cluster_view import differs, picture
from .random_cluster import CHANGING, World, worlds
from .running import Running
from .test_state import rebuilt

USERS = ("mia", "ben")
LIMITS = st.builds(
    PersonLimits,
    gpus_milli=st.sampled_from((None, 0, 500, 1000, 2000, 4000)),
    running=st.sampled_from((None, 0, 1, 2, 3)),
    sessions=st.sampled_from((None, 0, 1)),
)


@st.composite
def limited_worlds(draw: st.DrawFn) -> World:
    """Draw a world whose projects limit two users."""
    world = draw(worlds(happens=CHANGING))
    queues = tuple(
        replace(queue, person_limits=draw(LIMITS), person_limits_of={"ben": draw(LIMITS)})
        if queue.is_project
        else queue
        for queue in world.queues
    )
    workloads = tuple(
        replace(workload, user=USERS[index % 2], type=WorkloadType.BUILD if index % 4 < 2 else workload.type)
        for index, workload in enumerate(world.workloads)
    )
    return replace(world, queues=queues, workloads=workloads)


def is_in_use(job: Job) -> bool:
    return any(job.placed) or bool(job.stopping)


def used(cluster: Cluster, project: str, user: str) -> Counter[str]:
    """Count what a person uses, from the workloads alone."""
    counts: Counter[str] = Counter()
    for job in cluster.jobs.values():
        if (job.spec.project, job.spec.user) == (project, user) and is_in_use(job):
            counts["gpus_milli"] += whole_milli(job)
            counts["running"] += 1
            counts["sessions"] += job.type is WorkloadType.BUILD
    return counts


@examples(40)
@given(limited_worlds())
def test_running_work_stays_within_the_limits(world: World) -> None:
    """It may pass them only by growing itself, or where it ran before: nothing starts beyond them."""
    running, before = Running(world), {}
    for _ in running.run():
        cluster, now = running.cluster, {}
        assert not cluster.admission.changed
        for queue in cluster.ledger.queues:
            for user in USERS if queue.is_project else ():
                limits, counts = queue.limits_of(user), used(cluster, queue.name, user)
                allocated = {
                    name: whole_milli(job)
                    for name, job in cluster.jobs.items()
                    if (job.spec.project, job.spec.user) == (queue.name, user) and is_in_use(job)
                }
                grew = any(name in before and milli > before[name] for name, milli in allocated.items())
                now |= allocated
                for limit in ("gpus_milli", "running", "sessions"):
                    most = getattr(limits, limit)
                    assert not most or counts[limit] <= most or grew or set(allocated) <= set(before), limit
        before = now


@examples(30)
@given(limited_worlds())
def test_withheld_workloads_are_those_of_the_same_facts_given_at_once(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        fresh = rebuilt(running)
        withheld = {name for name, job in running.cluster.jobs.items() if job.withheld}
        assert withheld == {name for name, job in fresh.jobs.items() if job.withheld}
        assert not differs(picture(running.cluster, history=False), picture(fresh, history=False))


@examples(30)
@given(limited_worlds())
def test_withheld_workload_says_which_limit(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        cluster = running.cluster
        for job in cluster.jobs.values():
            if not job.withheld:
                continue
            assert job.waiting is None, "the engine doesn't see it"
            reason = pending_reason(cluster, world.policy, job, cluster.now_s)
            assert reason is not None
            if job.held or not job.is_ready:
                continue
            assert reason.why is ReasonCode.PERSON_LIMIT
            usage = cluster.admission.usage_of(job)
            assert usage is not None
            most = getattr(
                usage.limits,
                {"gpus": "gpus_milli"}.get(str(reason.numbers["limit"]), str(reason.numbers["limit"])),
            )
            assert reason.numbers["most"] == most


@examples(20)
@given(limited_worlds())
def test_nothing_is_withheld_once_the_limits_are_gone(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        pass
    from weir.state.events import QueuesSet

    free = tuple(replace(queue, person_limits=PersonLimits(), person_limits_of={}) for queue in world.queues)
    running.tell(QueuesSet(free))
    cluster = running.cluster
    assert not any(job.withheld for job in cluster.jobs.values())
    admission = cluster.admission
    assert (admission.persons, admission.person_of, admission.changed) == ({}, {}, {})
