"""Pending reasons, as data and as one sentence, by the quota checks and capacity of the cycle.

It is worked out when somebody asks: a cycle over many waiting workloads would else spend its time on
sentences nobody reads.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir.engine.allocate import Allocator
from weir.engine.budget_protection import MAX_BUDGETS, BudgetProtection, with_budgets
from weir.engine.cache import EngineCache
from weir.engine.capacity import Capacity
from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.infeasible import NodeRefusals, amount_phrase, sentence_of
from weir.engine.infeasible_gang import best_domain, domain_name, group_phrase, infeasible_gang
from weir.engine.preemption_rules import PreemptionRules, divergence_level, is_past_min_runtime
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import QuotaOverlay, QuotaRefusal, usage_of
from weir.engine.quota_shortfall import quota_shortfall
from weir.engine.topology_levels import missing_topology
from weir.engine.unschedulable import UnschedulableNodes
from weir.model.policy import AffinityPolicy, Policy
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import GPU, span, written
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase
from weir.state.shapes import RequestShape

_NAMED_MOST = 4
_ENDED_BY_NODES = (
    ReasonCode.NO_NODE_MATCHES,
    ReasonCode.INSUFFICIENT_CAPACITY,
    ReasonCode.NO_ELIGIBLE_VICTIMS,
    ReasonCode.GANG_INCOMPLETE,
    ReasonCode.PREEMPTION_CYCLE,
)


def pending_reason(
    cluster: Cluster, policy: Policy, job: Job, now_s: float, cache: EngineCache | None = None
) -> Reason | None:
    """Return the reason for which some pods of a workload don't run; None if all of them do."""
    if job.is_ready and all(
        pod.phase is Phase.RUNNING or (pod.phase is Phase.ABSENT and pod.promise is None)
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
        self._overlay = QuotaOverlay(cluster, policy, usage, excess=lambda: cache.excess(cluster))
        self._affinity: tuple[AffinityPolicy, ...] = self._cache.affinity(cluster, job)

    def reason(self) -> Reason:  # noqa: PLR0911 - one return for each answer
        job = self._job
        if job.held:
            numbers: dict[str, object] = {"suspended": job.held_why}
            if job.held_until_s is not None:
                numbers["until_s"] = job.held_until_s
            return Reason(ReasonCode.SUSPENDED, f"it is suspended: {job.held_why or 'suspended'}", numbers)
        if job.name in self._cluster.promised:
            return self._promised()
        if not job.is_ready:
            return self._not_ready()
        if job.waiting is None:
            return Reason(
                ReasonCode.WAITING_FOR_EVICTION,
                f"{job.stopping} of its own pods are still being stopped",
                {"stopping": job.stopping},
            )
        at = next(at for at, member in enumerate(job.waiting.members) if member[2] is job)
        candidate = Candidate(job.waiting, at)
        if not job.preemptible:
            refusal = self._overlay.fixed_over_quota(job.path, candidate.asks)
            if refusal is not None:
                return with_budgets(job, self._gate(refusal, "quota for non-preemptible work"))
        unmatched = self._unmatched(candidate)
        if unmatched is not None:
            return unmatched
        refusal = self._overlay.over_limit(job.path, candidate.asks)
        if refusal is not None:
            return self._gate(refusal, "limit")
        return self._short(candidate)

    # Room that comes

    def _promised(self) -> Reason:
        job = self._job
        waiting_for = sorted(
            {
                pod.job.name
                for group in job.pods
                for own in group
                if own.promise is not None
                for pod in self._cluster.pods_on[own.promise[0]]
                if pod.phase is Phase.STOPPING
            }
        )
        absent = sum(
            own.phase is Phase.ABSENT and own.promise is not None for group in job.pods for own in group
        )
        if absent and not waiting_for:
            those = "a pod of it" if absent == 1 else f"{absent} pods of it"
            return Reason(
                ReasonCode.NOT_READY,
                f"room is kept for {those} that should exist and don't yet",
                {"absent": absent},
            )
        named = _named(waiting_for or list(job.promised_by))
        sentence = (
            f"room is being freed for it by {named}" if named else "its room is free and it is about to start"
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

    # Gates

    def _gate(self, refusal: QuotaRefusal, what: str) -> Reason:
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
                ReasonCode.NO_NODE_MATCHES, f"it is to be together by {what}, which there isn't", numbers
            )
        for group, shape, _ in self._lacking(candidate):
            nodes = self._cluster.nodes
            refusals = NodeRefusals.of(nodes, shape.request, self._affinity)
            if not refusals.able:
                sentence = sentence_of(refusals, nodes, shape.request)
                by = {"group": group, "refused_by": dict(refusals.by)}
                return Reason(ReasonCode.NO_NODE_MATCHES, sentence, by)
        return infeasible_gang(self._cluster, self._policy, self._cache, self._job, self._affinity)

    # Room that is short

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
            return self._kept_from(candidate, numbers)
        where += self._together()
        if full and not helped:  # whatever is evicted for its capacity, this remains
            return self._left_out(candidate, fitting, where, numbers)
        partners = self._partners(candidate)
        if partners:
            numbers["partners"] = partners
            until_s = max(partners.values()) - self._now_s
            sentence = (
                f"it could stop {_named(sorted(partners))}, for which it was stopped itself: "
                f"left as it is for up to {span(until_s)} more, so that they don't stop one another in turn"
            )
            return Reason(ReasonCode.PREEMPTION_CYCLE, sentence, numbers)
        resource = helped[0] if helped else GPU
        holders = self._holders(candidate, resource, numbers)
        if holders:
            numbers["held_by"], numbers["resource"] = holders, resource
            sentence = f"{where}; no eligible victims: {_sentence_of(resource, holders)}"
            return Reason(ReasonCode.NO_ELIGIBLE_VICTIMS, sentence, numbers)
        if self._has_claim(candidate):
            sentence = f"{where}; eligible victims don't hold enough"
            return Reason(ReasonCode.NO_ELIGIBLE_VICTIMS, sentence, numbers)
        return self._left_out(candidate, fitting, where, numbers)

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
        claim = quota_shortfall(self._cluster, self._policy, self._preemption_rules(candidate), numbers)
        meek = "" if self._job.can_preempt else "it may not preempt"
        rest = "".join(f"; {each}" for each in (meek, claim) if each)
        if sum(candidate.lacks) > 1 and any(have for have, _ in fitting.values()):
            parts = ", ".join(
                f"{have} of {lack} pods{group_phrase(self._job, group)}"
                for group, (have, lack) in fitting.items()
            )
            return Reason(ReasonCode.GANG_INCOMPLETE, f"only {parts} fit now: {where}{rest}", numbers)
        return Reason(ReasonCode.INSUFFICIENT_CAPACITY, f"insufficient capacity: {where}{rest}", numbers)

    def _kept_from(self, candidate: Candidate, numbers: dict[str, object]) -> Reason:
        """Return the reason of a workload that fits, but may not use the capacity, or not at once."""
        allocator = Allocator(
            self._cluster, self._policy, self._overlay, self._cache, self._capacity, self._now_s
        )
        shut = allocator.models_shut(candidate)
        if shut:
            models = ", ".join(sorted(shut))
            fixed = not self._job.preemptible
            why = ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA if fixed else ReasonCode.OVER_LIMIT
            what = "quota for non-preemptible work" if fixed else "limit"
            numbers["models"] = sorted(shut)
            return Reason(
                why, f"the room left is on {models}, of which its queues are at their {what}", numbers
            )
        if allocator.open_to(candidate) is not None:
            return Reason(
                ReasonCode.CAPACITY_RESERVED,
                "the free capacity is reserved for work that has waited longer",
                numbers,
            )
        free = self._capacity.free_gpu_milli()
        if not allocator.keeps_headroom(candidate, free):
            keep = allocator.headroom_milli
            numbers.update(free=free, kept=keep, want=candidate.of.step.gpu_milli)
            sentence = (
                f"it would go over quota, and of {written('gpu', free)} free GPUs "
                f"{written('gpu', keep)} are kept for owners"
            )
            return Reason(ReasonCode.CAPACITY_RESERVED, sentence, numbers)
        asked = self._job.topology
        scattered = allocator.may_scatter(self._job, candidate.lacks)
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
        claim = quota_shortfall(self._cluster, self._policy, self._preemption_rules(candidate), numbers)
        rest = f"; {claim}" if claim else ""
        if asked is None or asked.required is None:
            return Reason(
                ReasonCode.GANG_INCOMPLETE,
                f"each of its pods fits, but not all of them at once{rest}",
                numbers,
            )
        depth = self._cluster.topologies[asked.name].levels.index(asked.required)
        level = self._cache.levels(self._cluster, asked.name)[depth]
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
        return of is not None and not self._overlay.entitled(self._job.path, of.step.asks)

    def _has_claim(self, candidate: Candidate) -> bool:
        """Return True if it may reclaim and has an eligible victim."""
        preemption_rules = self._preemption_rules(candidate)
        if not preemption_rules.any_reclaim or not self._job.can_preempt:
            return False
        for project, running in self._cluster.running.items():
            path = self._cluster.ledger.path[project]
            level = divergence_level(preemption_rules.path, path)
            if (
                running
                and level < len(preemption_rules.path)
                and preemption_rules.rule_from(level, path[level]) is not None
            ):
                return True
        return False

    def _partners(self, candidate: Candidate) -> dict[str, float]:
        """Return victims excluded because it was stopped for them, with the time the exclusion ends."""
        preemption_rules = self._preemption_rules(candidate)
        found: dict[str, float] = {}
        for name, at_s in self._job.stopped_for.items() if self._job.can_preempt else ():
            other, until_s = self._cluster.jobs.get(name), at_s + self._policy.reserve_after
            if (
                other is not None
                and until_s > self._now_s
                and other.running_pods()
                and other.preemptible
                and is_past_min_runtime(other, self._policy, self._now_s)
                and (other.project == self._job.project or preemption_rules.any_reclaim)
                and preemption_rules.rule_for(other) is not None
            ):
                found[name] = until_s
        return found

    def _preemption_rules(self, candidate: Candidate) -> PreemptionRules:
        entitled = self._overlay.entitled(self._job.path, candidate.asks)
        return PreemptionRules(self._overlay, self._policy, candidate, entitled, self._now_s)

    def _holders(self, candidate: Candidate, resource: str, numbers: dict[str, object]) -> dict[str, int]:
        """Return how much of a resource ineligible victims hold, by why they are; empty without a claim."""
        preemption_rules, row = self._preemption_rules(candidate), self._cluster.rows.known(resource)
        if not preemption_rules.any_reclaim or row is None or not self._job.can_preempt:
            return {}
        held: Counter[str] = Counter()
        protected = BudgetProtection(DisruptionAllowances(self._cluster, self._policy, self._now_s), row)
        for project, running in self._cluster.running.items():
            path = self._cluster.ledger.path[project]
            level = divergence_level(preemption_rules.path, path)
            name = self._cluster.ledger.queues[project].name
            for other in running.values():
                units = sum(amount for pod in other.running_pods() for at, amount in pod.amounts if at == row)
                why = self._why_not(preemption_rules, other, project, level, path, name)
                if not why or (not other.preemptible and other.spec.project != self._job.spec.project):
                    units -= protected.add(other)
                held[why] += units
        if protected.names:
            numbers["budgets"] = protected.names[:MAX_BUDGETS]
        return {why: units for why, units in (*protected.holders().items(), *held.items()) if units and why}

    def _why_not(
        self,
        preemption_rules: PreemptionRules,
        other: Job,
        project: int,
        level: int,
        path: Sequence[int],
        name: str,
    ) -> str:
        if not other.preemptible:
            return f"non-preemptible work of {name}"
        if project == self._job.project:
            return "" if other.priority < self._job.priority else "its own project at no lower priority"
        if preemption_rules.rule_from(level, path[level]) is None:
            return f"{name}, which is not over what it may hold"
        if not is_past_min_runtime(other, self._policy, self._now_s):
            return f"work of {name} within its minimum run time"
        return ""

    def _lacking(self, candidate: Candidate) -> list[tuple[str, RequestShape, int]]:
        return [
            (self._job.spec.groups[at].name, self._job.shapes[at], lack)
            for at, lack in enumerate(candidate.lacks)
            if lack
        ]


def _sentence_of(resource: str, holders: Mapping[str, int]) -> str:
    ordered = sorted(holders.items(), key=lambda kv: (-kv[1], kv[0]))
    return "; ".join(
        f"{amount_phrase(resource, units)} {'is' if units == WHOLE_MILLI else 'are'} held by {why}"
        if resource == GPU
        else f"{amount_phrase(resource, units)} held by {why}"
        for why, units in ordered[:_NAMED_MOST]
    )


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MOST
    return ", ".join(names[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")
