"""Reasons of pending workloads: no workload that fits waits, and no owner waits beside its victims."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.explanation.ineligible_victims import RunningHoldings
from weir.engine.explanation.pending_reasons import pending_reason
from weir.engine.plan import Plan
from weir.engine.refusals.refusals import RefusalSentences
from weir.engine.refusals.shortage_refusals import IneligibleVictims, ShortageRefusal
from weir.model.nodes import Outage
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI, PodGroup, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet
from weir.state.jobs import Job, Pod

from .budget import examples
from .exhaustive import fits, floors, in_quota, next_steps, passes_gates
from .invariants import held
from .random_cluster import POLICIES, QUIET, Does, World, nodes, plain_worlds, requests, trees, worlds
from .running import Running, settled

PLAIN = tuple(
    policy.model_copy(update={"reserve_after": 1e9}) for policy in POLICIES if policy.reserve_fraction < 0.01
)
"""Policies that keep no capacity of a small cluster free for anyone."""


def waiting(cluster: Cluster) -> list[Job]:
    """Return all pending jobs."""
    return [job for queued in cluster.waiting.values() for _, _, job in queued.members]


@examples(32)
@given(worlds(policies=PLAIN, happens=(Does.CYCLE, Does.SUBMIT, Does.END), steps_max=12))
def test_no_workload_waits_that_fits_free_capacity(world: World) -> None:
    running = settled(world, 60)
    cluster = running.cluster
    for job in waiting(cluster):
        for wanted in next_steps(job):
            if len(wanted) <= 5 and passes_gates(cluster, job, wanted):
                assert not fits(cluster, wanted, floors(cluster)), f"{job.spec.name} waits and fits"


def elastic_milli(job: Job) -> int:
    """Whole devices its elastic pods hold, in thousandths."""
    return sum(
        max(0, have - need) * group.request.devices * WHOLE_MILLI
        for have, need, group in zip(job.placed, job.needed, job.spec.groups, strict=True)
    )


@examples(40)
@given(plain_worlds(PLAIN[0]) | plain_worlds(PLAIN[1]))
def test_no_owner_waits_beside_one_borrower_whose_place_it_could_use(world: World) -> None:
    running = settled(world, 80)
    cluster = running.cluster
    amounts = held(cluster, fixed=False)
    quota = {queue.name: queue.quota for queue in world.queues}
    for job in waiting(cluster):
        (wanted,) = next_steps(job)
        claims = wanted
        if world.policy.oldest_first_in_quota:  # the quota has to cover the claims of older work, too
            others = [other for other in waiting(cluster) if other.project == job.project]
            claims = [request for other in others for request in next_steps(other)[0]]
        if len(wanted) > 4 or not in_quota(cluster, job, claims) or not passes_gates(cluster, job, wanted):
            continue
        for project, jobs in cluster.running.items():
            name = cluster.ledger.queues[project].name
            if name == job.spec.project or not any(request.devices for request in wanted):
                continue
            for victim in jobs.values():
                # Elastic pods go one at a time, and with them gone their queue may be over its quota no more.
                left = amounts[name, "gpu"] - elastic_milli(victim)
                over = left > quota[name].get("gpu", 1 << 62)
                if over and victim.spec.preemptible and victim.spec.name not in job.stopped_for:
                    fits_now = fits(cluster, wanted, floors(cluster, without=[victim]))
                    assert not fits_now, f"{job.spec.name} waits beside {victim.spec.name} of {name}"


@examples(24)
@given(worlds(happens=(*QUIET, Does.HOLD, Does.RELEASE), topology=True))
def test_every_pending_workload_has_a_reason(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        pass
    running.cycle()
    for name, job in running.cluster.jobs.items():
        complete = all(pod.phase.name == "RUNNING" for group in job.pods for pod in group)
        given_ = pending_reason(running.cluster, world.policy, job, running.now_s)
        assert (given_ is None) is complete, f"{name}: {given_}"
        if given_ is not None:
            assert given_.sentence, f"{name} is told {given_.why} and no more"


@st.composite
def gangs(draw: st.DrawFn) -> World:
    """An empty cluster and one gang of several groups, which fits if it is arranged well."""
    drawn = draw(nodes(most=3, models=False))
    groups = tuple(
        PodGroup(str(index), request, count, count)
        for index, (request, count) in enumerate(
            draw(st.lists(st.tuples(requests(models=False), st.sampled_from((1, 2))), min_size=2, max_size=4))
        )
    )
    queues = trees(projects_max=1, deep=False, limits=False)
    gang = Workload("gang", "p0", groups, sum(group.min for group in groups), -60.0)
    return World(drawn, draw(queues), (gang,), Policy(search_steps=50_000))


@examples(48)
@given(gangs())
def test_a_gang_that_can_be_arranged_is(world: World) -> None:
    running = Running(world)
    running.submit()
    job = running.cluster.jobs["gang"]
    (wanted,) = next_steps(job)
    fits_now = fits(running.cluster, wanted, floors(running.cluster))
    running.cycle()
    assert (job.started_s is not None) is fits_now


@examples(40)
@given(worlds(happens=QUIET, steps_max=12), st.sampled_from((None, 30.0, 5000.0)))
def test_kept_reasons_equal_new_ones_also_when_only_time_passes(world: World, outage_s: float | None) -> None:
    running, cache = Running(world), EngineCache()
    if outage_s is not None:
        outage = Outage(from_s=outage_s, until_s=outage_s + 200.0)
        running.tell(NodeSet(replace(world.nodes[0], outages=(outage,))))
    for _ in running.run():
        cluster, policy = running.cluster, world.policy
        for later_s in (0.0, 1.0, 4.0, 60.0, 700.0):
            now_s = running.now_s + later_s
            for job in waiting(cluster)[:3]:
                kept = pending_reason(cluster, policy, job, now_s, cache)
                assert kept == pending_reason(cluster, policy, job, now_s)


@examples(24)
@given(worlds(policies=POLICIES, happens=(*QUIET, Does.HOLD, Does.RELEASE), topology=True, rules=True))
def test_a_plan_carries_the_refusal_of_every_class_that_stays_pending(world: World) -> None:
    running = Running(world)

    def look(plan: Plan) -> None:
        cluster, policy, now_s = running.cluster, world.policy, running.now_s
        assert plan.refusals is not None
        assert plan.refusals.is_current
        for queued in cluster.waiting.values():
            refusal = plan.refusals.of_class(queued)
            if plan.acts or queued.first.name in cluster.nominated:
                continue  # what is carried out changes the state, and what is nominated has another reason
            if isinstance(refusal, ShortageRefusal) and isinstance(refusal.cause, IneligibleVictims):
                refusal = replace(refusal, cause=replace(refusal.cause, end=None))  # only a search knows that
            reason = RefusalSentences(cluster, now_s).reason_of(refusal)
            assert reason == pending_reason(cluster, policy, queued.first, now_s)

    running.before(look)
    for _ in running.run():
        pass


@examples(30)
@given(worlds(happens=(*QUIET, Does.HOLD, Does.RELEASE)))
def test_what_projects_hold_is_the_sum_of_their_running_pods(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        cluster, policy = running.cluster, world.policy
        holdings = RunningHoldings(cluster, policy, running.now_s)
        for row in range(len(cluster.rows)):
            for project, usage in holdings.by_project(row).items():
                jobs = cluster.running[project].values()
                pods = [(job.preemptible, pod) for job in jobs for pod in job.running_pods()]
                assert sum(usage.fixed.units.values()) == _sum(
                    row, [pod for preemptible, pod in pods if not preemptible]
                )
                assert sum(usage.preemptible.units.values()) == _sum(
                    row, [pod for preemptible, pod in pods if preemptible]
                )


@examples(30)
@given(worlds(happens=QUIET), st.integers(0, 255))
def test_what_projects_hold_on_some_nodes_is_the_sum_of_their_pods_there(world: World, chosen: int) -> None:
    running = Running(world)
    for _ in running.run():
        cluster, policy = running.cluster, world.policy
        counts = np.array([chosen >> index & 1 for index in range(cluster.capacity.shape[1])], np.bool_)
        holdings = RunningHoldings(cluster, policy, running.now_s, counts)
        for row in range(len(cluster.rows)):
            for project, usage in holdings.by_project(row).items():
                jobs = cluster.running[project].values()
                pods = [pod for job in jobs for pod in job.running_pods() if counts[pod.node]]
                kinds = (usage.fixed, usage.preemptible)
                assert sum(sum(kind.units.values()) for kind in kinds) == _sum(row, pods)


def _sum(row: int, pods: list[Pod]) -> int:
    return sum(amount for pod in pods for resource, amount in pod.amounts if resource == row)
