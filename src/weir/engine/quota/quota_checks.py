"""Quota checks of one cycle: the only place that says whether quotas and limits allow a request."""

from weir.engine.order.queue_order import Candidate
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.quota.usage_bounds import UsageBounds
from weir.engine.refusals.refusals import QuotaRefusal, RefusalKind
from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, devices_of_charge
from weir.state.quota_usage import Amounts
from weir.state.shapes import GPU_ROW

_NO_QUEUE = -1


class QuotaChecks(UsageBounds):
    """Checks for allocation, preemption, swap, repack and explanation.

    `headroom_milli` thousandths of devices stay free of workloads over quota.
    """

    def __init__(
        self, cluster: Cluster, policy: Policy, overlay: QuotaOverlay, feasibility: FeasibilityCache
    ) -> None:
        super().__init__(cluster, overlay, feasibility)
        self._policy = policy
        self._oldest_first = policy.oldest_first_in_quota
        self.headroom_milli = feasibility.headroom_milli

    def refusal(
        self, candidate: Candidate, capacity: Capacity, in_quota: bool | None = None
    ) -> QuotaRefusal | None:
        """Return the first check that refuses the candidate: quota, limit, then headroom.

        Args:
            candidate: the pending workload.
            capacity: the free capacity.
            in_quota: the result of `in_quota`, if it is known.
        """
        refusal = self.quota_refusal(candidate.job, candidate.request)
        if refusal is not None or not self.headroom_milli:
            return refusal
        if self.in_quota(candidate) if in_quota is None else in_quota:
            return None
        return self.headroom_refusal(candidate.gpu_milli, capacity)

    def move_refusal(self, job: Job, request: Amounts, capacity: Capacity) -> QuotaRefusal | None:
        """Return the refusal of a move of running pods, which keep their charges; None if it is allowed."""
        refusal = self.quota_refusal(job, request)
        if refusal is not None or not self.headroom_milli or self._overlay.covers(job.path, request):
            return refusal
        return self.headroom_refusal(devices_of_charge(job, dict(request).get(GPU_ROW, 0)), capacity)

    def leaves_headroom(self, want: int, capacity: Capacity) -> bool:
        """Return True if a request of these thousandths of devices, over quota, leaves the headroom free."""
        if not want or not self.headroom_milli:
            return True
        return capacity.totals.free_gpu_milli >= want + self.headroom_milli

    def headroom_refusal(self, want: int, capacity: Capacity) -> QuotaRefusal | None:
        """Return the headroom that keeps devices from work over quota; None if it stays free."""
        if self.leaves_headroom(want, capacity):
            return None
        have, most = capacity.totals.free_gpu_milli, self.headroom_milli
        return QuotaRefusal(
            RefusalKind.HEADROOM, queue=_NO_QUEUE, row=GPU_ROW, have=have, want=want, most=most
        )

    def in_quota(self, candidate: Candidate) -> bool:
        """Return True if the quotas of all queues above a workload cover it and the claims of older ones."""
        path, request = candidate.job.path, candidate.request
        if not self._oldest_first:
            return self._overlay.covers(path, request)
        owners = self._feasibility.owners(candidate.job.project)
        if candidate.again or candidate.choice:
            return not owners and self._overlay.covers(path, request)
        return candidate.at < owners.get(candidate.of, 0) and self._overlay.covers(path[:-1], request)

    def rules_of(self, candidate: Candidate, now_s: float) -> PreemptionRules:
        """Return the rights of a candidate to evict others."""
        entitled = self.is_owner(candidate.of, candidate.at)
        behind_owners = self._oldest_first and bool(self._feasibility.owners(candidate.of.project))
        return PreemptionRules(
            *(self._overlay, self._policy, candidate),
            entitled=entitled,
            behind_owners=behind_owners,
            now_s=now_s,
        )

    def is_owner(self, of: EquivalenceClass, at: int) -> bool:
        """Return True if its project's quota covers a workload, after older ones' claims.

        Reclaim compares the quotas of the queues above where the two paths diverge.
        """
        if self._oldest_first:
            return at < self._feasibility.owners(of.project).get(of, 0)
        return self._overlay.in_quota(of.project, of.step.request)
