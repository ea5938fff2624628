"""Pending reasons, as data and as one sentence, by the quota checks and capacity of the cycle.

They are computed on demand: a cycle over many pending workloads would otherwise spend its time on sentences
that are never read.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from weir.engine.allocate import Allocator
from weir.engine.budget_protection import with_budgets
from weir.engine.cache import EngineCache
from weir.engine.capacity import Capacity
from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.ineligible_victims import IneligibleVictims, amounts_phrase, names_phrase
from weir.engine.infeasible import NodeRefusals, sentence_of
from weir.engine.infeasible_gang import best_domain, domain_name, group_phrase, infeasible_gang
from weir.engine.older_claims import older_claims, older_claims_phrase
from weir.engine.preemption_rules import PreemptionRules, lowest_priority
from weir.engine.queue_order import Candidate
from weir.engine.quota_checks import QuotaChecks
from weir.engine.quota_overlay import QuotaOverlay, QuotaRefusal, usage_of
from weir.engine.quota_shortfall import quota_shortfall
from weir.engine.topology_levels import missing_topology
from weir.engine.transaction import Accounting, Transaction
from weir.engine.unschedulable import UnschedulableNodes
from weir.model.policy import AffinityPolicy, Policy
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import GPU, span, written
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase
from weir.state.shapes import RequestShape

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
    """Return the reason for which some pods of a workload don't run; None if all of them do."""
    if job.is_ready and all(
        pod.phase is Phase.RUNNING or (pod.phase is Phase.ABSENT and pod.nomination is None)
        for group in job.pods
        for pod in group
    ):
        return None
    builder = _PendingReasonBuilder(cluster, policy, job, now_s, cache or EngineCache())
    found = builder.reason()
    if found.why in _ENDED_BY_NODES and builder.is_over_quota():
        return replace(found, numbers={**found.numbers, "over_quota": True})
    return found


class _PendingReasonBuilder:
    def __init__(self, cluster: Cluster, policy: Policy, job: Job, now_s: float, cache: EngineCache) -> None:
        self._cluster = cluster
        self._policy = policy
        self._job = job
        self._now_s = now_s
        self._cache = cache
        self._capacity: Capacity = cache.sync(cluster, policy)
        usage = usage_of(cluster, policy, now_s)
        self._overlay = QuotaOverlay(cluster, policy, usage, excess=cache.feasibility.excess)
        self._checks = QuotaChecks(policy, self._overlay, cache.feasibility)
        self._affinity: tuple[AffinityPolicy, ...] = cache.feasibility.affinity(job)

    def reason(self) -> Reason:  # noqa: PLR0911 - one return for each answer
        job = self._job
        if job.held:
            numbers: dict[str, object] = {"suspended": job.held_why}
            if job.held_until_s is not None:
                numbers["until_s"] = job.held_until_s
            return Reason(ReasonCode.SUSPENDED, f"it is suspended: {job.held_why or 'suspended'}", numbers)
        if job.name in self._cluster.nominated:
            return self._nominated()
        if not job.is_ready:
            return self._not_ready()
        if job.waiting is None:
            return Reason(
                ReasonCode.WAITING_FOR_EVICTION,
                f"{job.stopping} of its own pods are still being stopped",
                {"stopping": job.stopping},
            )
        candidate = Candidate(job.waiting, job.waiting.position_of(job))
        refusal = self._overlay.refusal(job, candidate.asks)
        if refusal is not None and refusal.why is ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA:
            return with_budgets(job, self._refused(refusal, "quota for non-preemptible work"))
        unmatched = self._unmatched(candidate)
        if unmatched is not None:
            return unmatched
        if refusal is not None:
            return self._refused(refusal, "limit")
        return self._short(candidate)

    # Capacity that becomes free

    def _nominated(self) -> Reason:
        job = self._job
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

    def _not_ready(self) -> Reason:
        """Return the reason of a gang with too few pods; of one group, if it is that one's."""
        job, named = self._job, ""
        there = [group.count - absent for group, absent in zip(job.spec.groups, job.absent, strict=True)]
        have, need = sum(there), sum(job.needed)
        if have >= need:
            at = next(at for at, exist in enumerate(there) if exist < job.needed[at])
            have, need, named = there[at], job.needed[at], group_phrase(job, job.spec.groups[at].name)
        return Reason(
            ReasonCode.NOT_READY, f"{have} of {need} pods{named} exist", {"exist": have, "needed": need}
        )

    # Quotas

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
                "have": refusal.have,
                "want": refusal.want,
                "most": refusal.most,
            },
        )

    def _unmatched(self, candidate: Candidate) -> Reason | None:
        """Return why the nodes could never take it, however idle; None if they may."""
        asked = self._job.topology
        if asked is not None and (what := missing_topology(self._cluster.topologies, asked)) is not None:
            numbers: dict[str, object] = {"topology": asked.name, "known": sorted(self._cluster.topologies)}
            return Reason(
                ReasonCode.NO_NODE_MATCHES,
                f"it has to share one domain by {what}, which doesn't exist",
                numbers,
            )
        for group, shape, _ in self._lacking(candidate):
            nodes = self._cluster.nodes
            refusals = NodeRefusals.of(nodes, shape.request, self._affinity)
            if not refusals.able:
                sentence = sentence_of(refusals, nodes, shape.request)
                by = {"group": group, "refused_by": dict(refusals.by)}
                return Reason(ReasonCode.NO_NODE_MATCHES, sentence, by)
        return infeasible_gang(self._cluster, self._policy, self._cache, self._job, self._affinity)

    # Capacity that is short

    def _short(self, candidate: Candidate) -> Reason:
        numbers: dict[str, object] = {}
        fitting: dict[str, tuple[int, int]] = {}
        short: Counter[str] = Counter()
        full: list[tuple[RequestShape, int]] = []
        self._capacity.begin()
        shortage = UnschedulableNodes(
            self._cluster, self._policy, self._cache, self._capacity, self._affinity, self._job
        )
        for group, shape, lack in self._lacking(candidate):
            fitting[group] = (shortage.fitting(shape, lack), lack)
            for node, what in shortage.nodes(shape):
                short[what] += 1
                full.append((shape, node))
        numbers["short"] = dict(short)
        numbers["fitting"] = {group: have for group, (have, _) in fitting.items()}
        numbers["needed"] = {group: lack for group, (_, lack) in fitting.items()}
        pods = sum(candidate.lacks)
        placed = sum(have for have, _ in fitting.values())
        helped = [what for what, _ in short.most_common() if shortage.helped_by_eviction(what)]
        where = shortage.among(short, full)
        self._capacity.rollback()
        if placed == pods:
            return self._withheld(candidate, numbers)
        where += self._together()
        if full and not helped:  # whatever is evicted for its capacity, this remains
            return self._left_out(candidate, fitting, where, numbers)
        return self._no_victims(candidate, where, helped[0] if helped else GPU, numbers) or self._left_out(
            candidate, fitting, where, numbers
        )

    def _no_victims(
        self, candidate: Candidate, where: str, resource: str, numbers: dict[str, object]
    ) -> Reason | None:
        """Return why it can't evict what holds the resource; None without a claim on it."""
        rules = self._rules(candidate)
        if older := self._older_claims(candidate, rules):
            claims = older_claims_phrase(self._cluster, candidate, older, numbers)
            return Reason(ReasonCode.OLDER_CLAIM, f"{where}; {claims}", numbers)
        victims = IneligibleVictims(self._cluster, self._policy, rules, self._now_s)
        partners = victims.of_preemption_cycle()
        if partners:
            numbers["partners"] = partners
            until_s = max(partners.values()) - self._now_s
            sentence = (
                f"it could stop {names_phrase(sorted(partners))}, for which it was stopped itself: "
                f"left as it is for up to {span(until_s)} more, so that they don't stop one another in turn"
            )
            return Reason(ReasonCode.PREEMPTION_CYCLE, sentence, numbers)
        holders = victims.amounts(resource, numbers)
        if holders:
            numbers["held_by"], numbers["resource"] = holders, resource
            sentence = f"{where}; no eligible victims: {amounts_phrase(resource, holders)}"
            return Reason(ReasonCode.NO_ELIGIBLE_VICTIMS, sentence, numbers)
        if victims.any_eligible():
            sentence = f"{where}; eligible victims don't hold enough"
            return Reason(ReasonCode.NO_ELIGIBLE_VICTIMS, sentence, numbers)
        return None

    def _together(self) -> str:
        """Return the topology domain that all of it has to share, as the end of a sentence."""
        asked = self._job.topology
        if asked is None or asked.required is None:
            return ""
        return f"; all of its pods have to share one {asked.required}"

    def _left_out(
        self,
        candidate: Candidate,
        fitting: Mapping[str, tuple[int, int]],
        where: str,
        numbers: dict[str, object],
    ) -> Reason:
        """Return the reason of work without a claim on what others hold, or that evictions wouldn't help."""
        claim = quota_shortfall(self._cluster, self._policy, self._rules(candidate), numbers)
        meek = "" if self._job.can_preempt else "it may not preempt"
        rest = "".join(f"; {each}" for each in (meek, claim) if each)
        if sum(candidate.lacks) > 1 and any(have for have, _ in fitting.values()):
            parts = ", ".join(
                f"{have} of {lack} pods{group_phrase(self._job, group)}"
                for group, (have, lack) in fitting.items()
            )
            return Reason(ReasonCode.GANG_INCOMPLETE, f"only {parts} fit now: {where}{rest}", numbers)
        return Reason(ReasonCode.INSUFFICIENT_CAPACITY, f"insufficient capacity: {where}{rest}", numbers)

    def _withheld(self, candidate: Candidate, numbers: dict[str, object]) -> Reason:
        """Return the reason of a workload that fits, but may not use the capacity, or not at once."""
        disruptions = DisruptionAllowances(self._cluster, self._policy, self._now_s)
        accounting = Accounting(self._cluster, self._overlay, disruptions)
        transaction = Transaction(self._capacity, accounting)
        allocator = Allocator(self._cluster, self._policy, transaction, self._cache, self._now_s)
        placement, checks = allocator.placement, allocator.checks
        shut = placement.models_shut(candidate)
        if shut:
            models = ", ".join(sorted(shut))
            fixed = not self._job.preemptible
            why = ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA if fixed else ReasonCode.OVER_LIMIT
            what = "quota for non-preemptible work" if fixed else "limit"
            numbers["models"] = sorted(shut)
            return Reason(
                why,
                f"the free GPUs are {models}, and its queues are at their {what} for these models",
                numbers,
            )
        if placement.open_to(candidate) is not None:
            return Reason(
                ReasonCode.CAPACITY_RESERVED,
                "the free capacity is reserved for work that has waited longer",
                numbers,
            )
        refusal = checks.refusal(candidate, self._capacity)
        if refusal is not None:
            numbers.update(free=refusal.have, kept=refusal.most, want=refusal.want)
            sentence = (
                f"it would go over quota, and of {written('gpu', refusal.have)} free GPUs "
                f"{written('gpu', refusal.most)} are kept for owners"
            )
            return Reason(ReasonCode.CAPACITY_RESERVED, sentence, numbers)
        asked = self._job.topology
        scattered = placement.may_scatter(self._job, candidate.lacks)
        if asked is not None and asked.preferred is not None and not scattered:
            until_s = self._policy.topology.patience - (self._now_s - self._job.waits_since_s)
            sentence = (
                f"it would fit only scattered and waits up to {span(until_s)} more for one {asked.preferred}"
            )
            return Reason(ReasonCode.CAPACITY_RESERVED, sentence, numbers)
        return self._not_together(candidate, numbers)

    def _not_together(self, candidate: Candidate, numbers: dict[str, object]) -> Reason:
        """Return the reason of a gang each of whose pods fits now, but not all of them at once."""
        asked, job = self._job.topology, self._job
        claim = quota_shortfall(self._cluster, self._policy, self._rules(candidate), numbers)
        rest = f"; {claim}" if claim else ""
        if asked is None or asked.required is None:
            return Reason(
                ReasonCode.GANG_INCOMPLETE,
                f"each of its pods fits, but not all of them at once{rest}",
                numbers,
            )
        depth = self._cluster.topologies[asked.name].levels.index(asked.required)
        level = self._cache.feasibility.levels(asked.name)[depth]
        runs_in = {int(level.of[pod.node]) for pod in job.running_pods()} - {-1}
        needs = self._lacking(candidate)
        pods = sum(lack for _, _, lack in needs)
        numbers.update(level=asked.required, pods=pods)
        if runs_in:
            names = " and ".join(domain_name(self._cluster, level, domain) for domain in sorted(runs_in))
            those = "one more pod" if pods == 1 else f"{pods} more pods"
            sentence = f"its pods share one {asked.required} and run in {names}, which can't take {those}"
            return Reason(ReasonCode.GANG_INCOMPLETE, f"{sentence}{rest}", numbers)
        best = best_domain(self._cluster, self._cache, self._capacity, level, needs, self._affinity)
        numbers.update(best=best.name, fitting_there=best.pods)
        sentence = (
            f"no {asked.required} has capacity for all {pods} pods that have to share one: "
            f"the best, {best.name}, takes {best.pods} now"
        )
        return Reason(ReasonCode.GANG_INCOMPLETE, f"{sentence}{rest}", numbers)

    def is_over_quota(self) -> bool:
        """Return True if its next step passes a quota above it, so that it only uses what others leave."""
        of = self._job.waiting
        return of is not None and not self._checks.in_quota(Candidate(of, of.position_of(self._job)))

    def _rules(self, candidate: Candidate) -> PreemptionRules:
        owner = self._checks.is_owner(candidate.of, candidate.at)
        return PreemptionRules(self._overlay, self._policy, candidate, owner, self._now_s)

    def _older_claims(self, candidate: Candidate, rules: PreemptionRules) -> list[Job]:
        """Return the older workloads whose claims alone keep it from evicting others."""
        job = self._job
        has_lower = lowest_priority(self._cluster, self._policy, job.project) < job.priority
        if rules.any_reclaim or not job.can_preempt or has_lower:
            return []
        if not self._overlay.covers(job.path, candidate.asks):
            return []
        return older_claims(self._cache.feasibility, candidate)

    def _lacking(self, candidate: Candidate) -> list[tuple[str, RequestShape, int]]:
        return [
            (self._job.spec.groups[at].name, self._job.shapes[at], lack)
            for at, lack in enumerate(candidate.lacks)
            if lack
        ]
