"""Pending reasons, as data and as one sentence, by the quota checks and capacity of the cycle.

They are computed on demand: a cycle over many pending workloads would otherwise spend its time on sentences
that are never read. What workloads have in common is computed once.
"""

from dataclasses import replace

from weir.engine.budget_protection import with_budgets
from weir.engine.cache import EngineCache
from weir.engine.ineligible_victims import names_phrase
from weir.engine.infeasible import NodeRefusals, sentence_of
from weir.engine.infeasible_gang import group_phrase, infeasible_gang
from weir.engine.outage_reasons import outage_reason
from weir.engine.person_limit_reasons import person_limit_reason
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import QuotaRefusal
from weir.engine.reason_context import ReasonContext
from weir.engine.shortage_reasons import shortage_reason
from weir.engine.topology_levels import missing_topology
from weir.engine.withheld_reasons import withheld_reason
from weir.model.policy import Policy
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import plain_amount, written
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase

_ENDED_BY_NODES = (
    ReasonCode.NO_NODE_MATCHES,
    ReasonCode.INSUFFICIENT_CAPACITY,
    ReasonCode.OLDER_CLAIM,
    ReasonCode.NO_ELIGIBLE_VICTIMS,
    ReasonCode.GANG_INCOMPLETE,
    ReasonCode.PREEMPTION_CYCLE,
)


def pending_reason(
    cluster: Cluster, policy: Policy, job: Job, now_s: float, cache: EngineCache | None = None
) -> Reason | None:
    """Return the reason for which some pods of one workload don't run; None if all of them do."""
    return PendingReasonFinder(cluster, policy, now_s, cache or EngineCache()).find(job)


class PendingReasonFinder:
    """Finds the reasons of the workloads of one state."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> None:
        self._cluster = cluster
        self._context = ReasonContext(cluster, policy, now_s, cache)

    def find(self, job: Job) -> Reason | None:
        """Return the reason for which some pods of a workload don't run; None if all of them do."""
        if job.is_ready and all(
            pod.phase is Phase.RUNNING or (pod.phase is Phase.ABSENT and pod.nomination is None)
            for group in job.pods
            for pod in group
        ):
            return None
        reason = self._of_work_not_ready(job)
        if reason is not None:
            return reason
        assert job.waiting is not None
        candidate = Candidate(job.waiting, job.waiting.position_of(job))
        reason = self._of_candidate(candidate)
        if reason.why in _ENDED_BY_NODES and not self._in_quota(candidate, reason):
            return replace(reason, numbers={**reason.numbers, "over_quota": True})
        return reason

    def _in_quota(self, candidate: Candidate, reason: Reason) -> bool:
        """Return True if quotas cover a workload; one that no node could take has no claim to compare."""
        if reason.why is ReasonCode.NO_NODE_MATCHES:
            return self._context.overlay.covers(candidate.job.path, candidate.request)
        return self._context.checks.in_quota(candidate)

    def _of_candidate(self, candidate: Candidate) -> Reason:
        """Return the first refusal: quota, nodes, limit, capacity, then what withholds free capacity."""
        refusal = self._context.overlay.refusal(candidate.job, candidate.request)
        if refusal is not None and refusal.why is ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA:
            return with_budgets(candidate.job, self._refused(refusal, "quota for non-preemptible work"))
        unmatched = self._unmatched(candidate)
        if unmatched is not None:
            return unmatched
        if refusal is not None:
            return self._refused(refusal, "limit")
        numbers: dict[str, object] = {}
        short = shortage_reason(self._context, candidate, numbers)
        outage = outage_reason(self._context, candidate, fits=short is None)
        return outage or short or withheld_reason(self._context, candidate, numbers)

    # Work that isn't ready, or whose capacity becomes free

    def _of_work_not_ready(self, job: Job) -> Reason | None:
        if job.held:
            numbers: dict[str, object] = {"suspended": job.held_why}
            if job.held_until_s is not None:
                numbers["until_s"] = job.held_until_s
            return Reason(ReasonCode.SUSPENDED, f"it is suspended: {job.held_why or 'suspended'}", numbers)
        usage = self._cluster.admission.usage_of(job) if job.withheld else None
        if usage is not None:
            return person_limit_reason(job, usage)
        if job.name in self._cluster.nominated:
            return self._nominated(job)
        if not job.is_ready:
            return _not_ready(job)
        if job.waiting is None:
            return Reason(
                ReasonCode.WAITING_FOR_EVICTION,
                f"{job.stopping} of its own pods are still being stopped",
                {"stopping": job.stopping},
            )
        return None

    def _nominated(self, job: Job) -> Reason:
        waiting_for = sorted(
            {
                pod.job.name
                for group in job.pods
                for own in group
                if own.nomination is not None
                for pod in self._cluster.pods_on[own.nomination[0]]
                if pod.phase is Phase.STOPPING
            }
        )
        absent = sum(
            own.phase is Phase.ABSENT and own.nomination is not None for group in job.pods for own in group
        )
        if absent and not waiting_for:
            those = "a pod of it" if absent == 1 else f"{absent} pods of it"
            return Reason(
                ReasonCode.NOT_READY,
                f"capacity is kept for {those}, which doesn't exist yet"
                if absent == 1
                else f"capacity is kept for {those}, which don't exist yet",
                {"absent": absent},
            )
        named = names_phrase(waiting_for or list(job.nomination_freed_by))
        sentence = (
            f"capacity is being freed for it by {named}"
            if named
            else "its capacity is free and it is about to start"
        )
        return Reason(ReasonCode.WAITING_FOR_EVICTION, sentence, {"freed_by": tuple(waiting_for)})

    # Quotas and nodes

    def _refused(self, refusal: QuotaRefusal, what: str) -> Reason:
        queue, resource = self._cluster.ledger.queues[refusal.queue], self._cluster.rows.names[refusal.row]
        have, want, most = (
            written(resource, amount) for amount in (refusal.have, refusal.want, refusal.most)
        )
        kind = "project" if queue.is_project else "department"
        return Reason(
            refusal.why,
            f"{kind} {queue.name} would pass its {what}: it holds {have} of {most} {resource} and "
            f"this asks for {want} more",
            {
                "queue": queue.name,
                "resource": resource,
                "have": plain_amount(resource, refusal.have),
                "want": plain_amount(resource, refusal.want),
                "most": plain_amount(resource, refusal.most),
            },
        )

    def _unmatched(self, candidate: Candidate) -> Reason | None:
        """Return why the nodes could never take it, however idle; None if they may."""
        job, topology = candidate.job, candidate.job.topology
        if (
            topology is not None
            and (what := missing_topology(self._cluster.topologies, topology)) is not None
        ):
            numbers: dict[str, object] = {
                "topology": topology.name,
                "known": sorted(self._cluster.topologies),
            }
            return Reason(
                ReasonCode.NO_NODE_MATCHES,
                f"it has to share one domain by {what}, which doesn't exist",
                numbers,
            )
        feasibility = self._context.feasibility
        names = tuple([group.name for group in job.spec.groups])
        key = (candidate.of.gang, tuple(candidate.lacks), names, topology, feasibility.affinity(job))
        if key not in feasibility.infeasible:
            feasibility.infeasible[key] = self._infeasible(candidate)
        return feasibility.infeasible[key]

    def _infeasible(self, candidate: Candidate) -> Reason | None:
        context, nodes = self._context, self._cluster.nodes
        affinity = context.feasibility.affinity(candidate.job)
        for group, shape, _ in context.lacking(candidate):
            refusals = NodeRefusals.of(nodes, shape.request, affinity)
            if not refusals.able:
                sentence = sentence_of(refusals, nodes, shape.request)
                by = {"group": group, "refused_by": dict(refusals.by)}
                return Reason(ReasonCode.NO_NODE_MATCHES, sentence, by)
        return infeasible_gang(self._cluster, context.policy, context.cache, candidate.job, affinity)


def _not_ready(job: Job) -> Reason:
    """Return the reason of a gang with too few pods; of one group, if it is that one's."""
    named = ""
    there = [group.count - absent for group, absent in zip(job.spec.groups, job.absent, strict=True)]
    have, need = sum(there), sum(job.needed)
    if have >= need:
        at = next(at for at, exist in enumerate(there) if exist < job.needed[at])
        have, need, named = there[at], job.needed[at], group_phrase(job, job.spec.groups[at].name)
    return Reason(
        ReasonCode.NOT_READY, f"{have} of {need} pods{named} exist", {"exist": have, "needed": need}
    )
