"""The code of a pending reason is that of an exhaustive diagnosis, which asks neither bounds nor caches."""

from hypothesis import given

from weir.engine.pending_reasons import pending_reason
from weir.model.policy import Policy
from weir.model.reasons import ReasonCode
from weir.model.workloads import Request
from weir.state.cluster import Cluster
from weir.state.jobs import Job

from .budget import examples
from .exhaustive import fits, floors, in_quota, next_steps, over_limit, over_quota
from .random_cluster import POLICIES, Does, World, worlds
from .running import settled

PODS_MOST = 4
SHORT = frozenset(
    (
        ReasonCode.INSUFFICIENT_CAPACITY,
        ReasonCode.NO_ELIGIBLE_VICTIMS,
        ReasonCode.GANG_INCOMPLETE,
        ReasonCode.OLDER_CLAIM,
        ReasonCode.PREEMPTION_CYCLE,
    )
)


def possible_codes(
    cluster: Cluster, policy: Policy, job: Job, wanted: list[Request]
) -> frozenset[ReasonCode]:
    """Return the codes that say why these pods of a workload don't start."""
    empty = floors(cluster, without=list(cluster.jobs.values()))
    each_fits_empty = all(fits(cluster, [request], empty) for request in wanted)
    over = {ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA} if over_quota(cluster, job, wanted) else set()
    if not each_fits_empty:
        return frozenset((ReasonCode.NO_NODE_MATCHES, *over))
    if over:
        return frozenset(over)
    found = set(SHORT)
    if not fits(cluster, wanted, empty):
        found.add(ReasonCode.NO_NODE_MATCHES)
    if over_limit(cluster, job, wanted):
        return frozenset((ReasonCode.OVER_LIMIT, *(found & {ReasonCode.NO_NODE_MATCHES})))
    if fits(cluster, wanted, floors(cluster)):
        return frozenset((ReasonCode.CAPACITY_RESERVED, ReasonCode.OVER_LIMIT))
    if not (policy.oldest_first_in_quota and in_quota(cluster, job, wanted)):
        found.remove(ReasonCode.OLDER_CLAIM)
    if len(wanted) == 1:
        found.remove(ReasonCode.GANG_INCOMPLETE)
    return frozenset(found)


@examples(24)
@given(worlds(policies=POLICIES, happens=(Does.CYCLE, Does.SUBMIT, Does.END), steps_most=12))
def test_every_code_is_a_possible_diagnosis(world: World) -> None:
    running = settled(world, 60)
    cluster, policy = running.cluster, world.policy
    for of in cluster.waiting.values():
        for _, name, job in of.members:
            steps = next_steps(job)
            if len(steps) > 1 or len(steps[0]) > PODS_MOST or job.held or not job.is_ready:
                continue
            reason = pending_reason(cluster, policy, job, running.now_s)
            assert reason is not None
            possible = possible_codes(cluster, policy, job, steps[0])
            assert reason.why in possible, f"{name} says {reason.why}: {reason.sentence}"
            if reason.why is ReasonCode.OLDER_CLAIM:
                assert _claims_pass_quota(cluster, job, steps[0], reason.numbers["older"])


def _claims_pass_quota(cluster: Cluster, job: Job, wanted: list[Request], older: object) -> bool:
    """Return True if the quota doesn't cover a workload beside the older ones of its project."""
    assert isinstance(older, list)
    first = [cluster.jobs[name] for name in older]
    assert first
    assert all(each.project == job.project for each in first)
    claimed = [request for each in first for request in next_steps(each)[0]]
    return not in_quota(cluster, job, [*wanted, *claimed])
