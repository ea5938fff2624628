"""Quota checks of one cycle: the only place that says whether quotas and limits allow a request.

A bound of one GPU model binds work that names no model, too. Before a placement it excludes nodes. Where the
nodes are given, or are chosen by capacity, the usage there is checked.
"""

from collections.abc import Iterable, Sequence

from weir.engine.order.queue_order import Candidate
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.refusals.refusals import QuotaRefusal, RefusalKind
from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.model.policy import Policy
from weir.model.resources import GPU_MODEL_PREFIX, UNLIMITED
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Pod, devices_of_charge
from weir.state.quota_usage import Amounts
from weir.state.reduce import usage_on
from weir.state.shapes import GPU_ROW

_Bounds = tuple[tuple[RefusalKind, list[list[int]], list[list[tuple[int, int]]]], ...]
"""Bounds of each kind, with used and maximum amounts by queue."""
_NO_QUEUE = -1


class UsageBounds:
    """Quotas and limits by the usage of one cycle.

    Quotas come before limits. They bind non-preemptible work, and work that its disruption budgets no longer
    protect.
    """

    def __init__(self, cluster: Cluster, overlay: QuotaOverlay, feasibility: FeasibilityCache) -> None:
        self._cluster = cluster
        self._overlay = overlay
        self._feasibility = feasibility
        ledger, limits = overlay.ledger, (RefusalKind.LIMIT, overlay.used, overlay.ledger.limited)
        self._of_preemptible: _Bounds = (limits,)
        self._of_lapsed: _Bounds = ((RefusalKind.QUOTA, overlay.used, ledger.bounded), limits)
        self._of_others: _Bounds = ((RefusalKind.QUOTA, overlay.fixed, ledger.bounded), limits)

    def quota_refusal(self, job: Job, request: Amounts) -> QuotaRefusal | None:
        """Return the first quota or limit on the path of a workload that a request would exceed.

        The answer is None without one.
        """
        return _first_over(self._bounds_of(job), job.path, request)

    def shortfall(self, job: Job, request: Amounts) -> QuotaRefusal | None:
        """Return the first quota from the project up that a request would exceed, also if it isn't bound."""
        quotas = (RefusalKind.QUOTA, self._overlay.used, self._overlay.ledger.bounded)
        return _first_over((quotas,), job.path[::-1], request)

    def placed_refusal(self, job: Job, placements: Iterable[NodePlacement]) -> QuotaRefusal | None:
        """Return the first quota or limit that pods of a workload on these nodes would exceed.

        The answer is None without one.
        """
        return self.quota_refusal(job, _sum([self._usage(placement) for placement in placements]))

    def moved_refusal(self, job: Job, placements: Sequence[NodePlacement]) -> QuotaRefusal | None:
        """Return the first quota or limit that running pods would exceed at a new place; None without one.

        Pods may be charged more there: the GPU model may be another one, and a request of GPU memory may be a
        larger fraction of a device.
        """
        usage = [self._usage(placement) for placement in placements]
        if all(
            placement.pod.amounts == amounts for placement, amounts in zip(placements, usage, strict=True)
        ):
            return None
        before = dict(held_by([placement.pod for placement in placements]))
        increased = tuple([(row, amount) for row, amount in _sum(usage) if amount > before.get(row, 0)])
        return self.quota_refusal(job, increased)

    def _bounds_of(self, job: Job) -> _Bounds:
        if not is_bound_by_quotas(job):
            return self._of_preemptible
        return self._of_lapsed if job.preemptible else self._of_others

    def _usage(self, placement: NodePlacement) -> Amounts:
        return usage_on(self._cluster, placement.pod.shape, placement.node)

    def models_left(self, job: Job, request: Amounts = ()) -> dict[str, int]:
        """Return the thousandths left of each limited GPU model, for a request without a model."""
        left: dict[str, int] = {}
        names = self._cluster.rows.names
        for _, used, bounds in self._bounds_of(job):
            for queue in job.path:
                for row, most in bounds[queue]:
                    if names[row].startswith(GPU_MODEL_PREFIX) and all(row != named for named, _ in request):
                        model = names[row].removeprefix(GPU_MODEL_PREFIX)
                        left[model] = min(left.get(model, UNLIMITED), most - used[queue][row])
        return left

    def models_shut(self, job: Job, request: Amounts) -> frozenset[str]:
        """Return the GPU models whose limits exclude a request without a model."""
        milli = sum([amount for row, amount in request if row == GPU_ROW])
        left = self.models_left(job, request) if milli else {}
        return frozenset([model for model, have in left.items() if have < milli])

    def open_nodes(self, job: Job, request: Amounts) -> Bools | None:
        """Return the nodes whose GPU model is open to a request; None for all nodes."""
        shut = self.models_shut(job, request)
        return self._feasibility.nodes_without(shut) if shut else None


def _first_over(bounds_by_kind: _Bounds, path: Sequence[int], request: Amounts) -> QuotaRefusal | None:
    """Return the first bound on a path that a request would exceed; None without one."""
    for kind, used, bounds in bounds_by_kind:
        for queue in path:
            if bounds[queue]:
                wanted = dict(request)
                for row, most in bounds[queue]:
                    want, have = wanted.get(row, 0), used[queue][row]
                    if want and have + want > most:
                        return QuotaRefusal(kind, queue=queue, row=row, have=have, want=want, most=most)
    return None


def is_bound_by_quotas(job: Job) -> bool:
    """Return True if the work may not exceed quotas: it is non-preemptible, or its budgets make it so."""
    return not job.preemptible or job.spec.lapsed


def held_by(pods: Iterable[Pod]) -> Amounts:
    """Return the charges of running pods, added up."""
    return _sum([pod.amounts for pod in pods])


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total: dict[int, int] = {}
    for some in amounts:
        for row, amount in some:
            total[row] = total.get(row, 0) + amount
    return tuple(total.items())


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
        return candidate.index < owners.get(candidate.queued, 0) and self._overlay.covers(path[:-1], request)

    def rules_of(self, candidate: Candidate, now_s: float) -> PreemptionRules:
        """Return the rights of a candidate to evict others."""
        entitled = self.is_owner(candidate.queued, candidate.index)
        behind_owners = self._oldest_first and bool(self._feasibility.owners(candidate.queued.project))
        return PreemptionRules(
            *(self._overlay, self._policy, candidate),
            entitled=entitled,
            behind_owners=behind_owners,
            now_s=now_s,
        )

    def is_owner(self, queued: EquivalenceClass, index: int) -> bool:
        """Return True if its project's quota covers a workload, after older ones' claims.

        Reclaim compares the quotas of the queues above where the two paths diverge.
        """
        if self._oldest_first:
            return index < self._feasibility.owners(queued.project).get(queued, 0)
        return self._overlay.in_quota(queued.project, queued.step.request)
