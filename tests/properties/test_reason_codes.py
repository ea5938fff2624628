"""The code of a pending reason is that of an exhaustive diagnosis, which asks neither bounds nor caches."""

from collections import Counter

from hypothesis import given

from weir.engine.cache import EngineCache
from weir.engine.explanation.pending_reasons import pending_reason
from weir.engine.explanation.pending_refusals import PendingRefusals
from weir.engine.refusals.holder_phrases import Protection
from weir.engine.refusals.shortage_refusals import IneligibleVictims, ShortageRefusal
from weir.model.policy import Policy
from weir.model.reasons import ReasonCode
from weir.model.workloads import Request
from weir.state.cluster import Cluster
from weir.state.jobs import Job

from .budget import examples
from .diagnosis import Cause, Diagnosis
from .exhaustive import Floor, fits, floors, in_quota, next_steps, over_limit, over_quota
from .random_cluster import POLICIES, Does, World, worlds
from .running import settled

PODS_MAX = 4
AGED = (*POLICIES, Policy(aging=600.0), Policy(preset="fair", aging=600.0))
CAUSES = {
    Protection.FIXED: Cause.FIXED,
    Protection.PRIORITY: Cause.PRIORITY,
    Protection.CLAIM: Cause.CLAIM,
    Protection.QUEUE: Cause.WITHIN,
    Protection.CYCLE: Cause.CYCLE,
    Protection.MIN_RUNTIME: Cause.YOUNG,
}


def possible_codes(
    cluster: Cluster, policy: Policy, job: Job, wanted: list[Request], now_s: float
) -> frozenset[ReasonCode]:
    """Return the codes that say why these pods of a workload don't start."""
    empty = floors(cluster, without=list(cluster.jobs.values()))
    each_fits_empty = all(fits(cluster, [request], empty) for request in wanted)
    over = {ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA} if over_quota(cluster, job, wanted) else set()
    if not each_fits_empty:
        return frozenset((ReasonCode.NO_NODE_MATCHES, *over))
    if over:
        return frozenset(over)
    never = set() if fits(cluster, wanted, empty) else {ReasonCode.NO_NODE_MATCHES}
    if over_limit(cluster, job, wanted):
        return frozenset((ReasonCode.OVER_LIMIT, *never))
    free = floors(cluster)
    if fits(cluster, wanted, free):
        return frozenset((ReasonCode.CAPACITY_RESERVED, ReasonCode.OVER_LIMIT))
    if all(fits(cluster, [request] * count, free) for request, count in Counter(wanted).items()):
        return frozenset((ReasonCode.GANG_INCOMPLETE, *never))
    return frozenset((*_short_codes(cluster, Diagnosis(cluster, policy, job, wanted, now_s), free), *never))


def _short_codes(cluster: Cluster, diagnosis: Diagnosis, free: dict[int, Floor]) -> frozenset[ReasonCode]:
    """Return the codes for a workload that is short of capacity: one, where victims decide it."""
    job, wanted, causes = diagnosis.job, diagnosis.wanted, diagnosis.causes()
    own = {cause for victim, cause in causes.items() if victim.project == job.project}
    some_fit = len(wanted) > 1 and any(fits(cluster, [request], free) for request in wanted)
    no_claim = ReasonCode.GANG_INCOMPLETE if some_fit else ReasonCode.INSUFFICIENT_CAPACITY
    if not job.can_preempt:
        return frozenset((no_claim,))
    if not diagnosis.any_claim and own <= {Cause.FIXED, Cause.PRIORITY}:
        is_older = diagnosis.is_behind and diagnosis.is_covered
        return frozenset((ReasonCode.OLDER_CLAIM if is_older else no_claim,))
    if not fits(cluster, wanted, floors(cluster, without=list(causes))):
        return frozenset((ReasonCode.NO_ELIGIBLE_VICTIMS, no_claim))  # its own pods are in the way
    eligible = [victim for victim, cause in causes.items() if cause is None]
    partners = [victim for victim, cause in causes.items() if cause is Cause.CYCLE]
    if partners and fits(cluster, wanted, floors(cluster, without=[*eligible, *partners])):
        if fits(cluster, wanted, floors(cluster, without=eligible)):
            return frozenset((ReasonCode.PREEMPTION_CYCLE, ReasonCode.NO_ELIGIBLE_VICTIMS))
        return frozenset((ReasonCode.PREEMPTION_CYCLE,))
    return frozenset((ReasonCode.NO_ELIGIBLE_VICTIMS,))


@examples(24)
@given(worlds(policies=AGED, happens=(Does.CYCLE, Does.SUBMIT, Does.END), steps_max=12))
def test_every_code_is_a_possible_diagnosis(world: World) -> None:
    running = settled(world, 60)
    cluster, policy = running.cluster, world.policy
    for job, wanted in _pending(cluster):
        reason = pending_reason(cluster, policy, job, running.now_s)
        assert reason is not None
        possible = possible_codes(cluster, policy, job, wanted, running.now_s)
        assert reason.why in possible, f"{job.name} says {reason.why}: {reason.sentence}"
        if reason.why is ReasonCode.OLDER_CLAIM:
            assert _claims_pass_quota(cluster, job, wanted, reason.numbers["older"])


@examples(24)
@given(worlds(policies=AGED, happens=(Does.CYCLE, Does.SUBMIT, Does.END), steps_max=12, models=False))
def test_reason_counts_each_victim_under_the_cause_that_protects_it(world: World) -> None:
    running = settled(world, 60)
    cluster, policy, now_s = running.cluster, world.policy, running.now_s
    refusals = PendingRefusals(cluster, policy, now_s, EngineCache())
    for job, wanted in _pending(cluster):
        queued = job.waiting
        assert queued is not None
        refusal = refusals.of_member(queued, queued.position_of(job))
        cause = refusal.cause if isinstance(refusal, ShortageRefusal) else None
        if not isinstance(cause, IneligibleVictims) or cause.resource != "gpu":
            continue
        row = cluster.rows.get("gpu")
        empty = floors(cluster, without=list(cluster.jobs.values())).items()
        usable = {
            index
            for index, floor in empty
            if any(fits(cluster, [request], {index: floor}) for request in wanted)
        }
        expected: Counter[Cause | None] = Counter()
        for victim, protection in Diagnosis(cluster, policy, job, wanted, now_s).causes().items():
            pods = [pod for pod in victim.running_pods() if pod.node in usable]
            expected[protection] += sum(dict(pod.amounts).get(row, 0) for pod in pods)
        counted: Counter[Cause | None] = Counter({None: cause.eligible})
        for (protection, _), units in cause.holders.items():
            counted[CAUSES[protection]] += units
        assert +counted == +expected, f"{job.name}: {cause}"


def _pending(cluster: Cluster) -> list[tuple[Job, list[Request]]]:
    """Return the pending workloads with what they ask for next, if few pods decide it."""
    jobs = []
    for queued in cluster.waiting.values():
        for _, _, job in queued.members:
            steps = next_steps(job)
            if len(steps) == 1 and len(steps[0]) <= PODS_MAX and not job.held and job.is_ready:
                jobs.append((job, steps[0]))
    return jobs


def _claims_pass_quota(cluster: Cluster, job: Job, wanted: list[Request], older: object) -> bool:
    """Return True if the quota doesn't cover a workload beside the older ones of its project."""
    assert isinstance(older, list)
    first = [cluster.jobs[name] for name in older]
    assert first
    assert all(owner.project == job.project for owner in first)
    claimed = [request for owner in first for request in next_steps(owner)[0]]
    return not in_quota(cluster, job, [*wanted, *claimed])
