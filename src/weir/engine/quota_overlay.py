"""Quota overlay: quota checks on the path of a workload, and the order among queues."""

from collections.abc import Sequence

from weir.engine.refusals import QuotaRefusal, RefusalKind
from weir.engine.usage_overlay import UsageOverlay
from weir.model.resources import GPU_MODEL_PREFIX, UNLIMITED
from weir.state.jobs import Job
from weir.state.quota_usage import Amounts

INFINITE = float("inf")


class QuotaOverlay(UsageOverlay):
    """Quota checks and sort keys by the usage of one cycle."""

    def refusal(self, job: Job, request: Amounts) -> QuotaRefusal | None:
        """Return the first quota or limit that the request would exceed.

        Quotas come before limits. They apply to non-preemptible work, and to work that its disruption budgets
        no longer protect.
        """
        if not job.preemptible or job.spec.lapsed:
            kind, most = RefusalKind.QUOTA, self.ledger.bounded
            usage = self.used if job.preemptible else self.fixed
            if (found := _first_over(kind, job.path, request, usage, most)) is not None:
                return found
        limited = self.ledger.limited
        for queue in job.path:
            if limited[queue]:
                return _first_over(RefusalKind.LIMIT, job.path, request, self.used, limited)
        return None

    def models_left(self, path: Sequence[int], request: Amounts, fixed: bool) -> dict[str, int]:
        """Return the thousandths of each limited GPU model left to a path, for work that names none.

        By their limits, and for non-preemptible work by their quotas.
        """
        left: dict[str, int] = {}
        for queue in path:
            if limited := self.ledger.limited[queue]:
                self._note_models(left, self.used[queue], limited, request)
            if fixed:
                self._note_models(left, self.fixed[queue], self.ledger.bounded[queue], request)
        return left

    def _note_models(
        self, left: dict[str, int], used: Sequence[int], gate: Sequence[tuple[int, int]], request: Amounts
    ) -> None:
        names = self._cluster.rows.names
        for row, most in gate:
            if names[row].startswith(GPU_MODEL_PREFIX) and all(row != asked for asked, _ in request):
                model = names[row].removeprefix(GPU_MODEL_PREFIX)
                left[model] = min(left.get(model, UNLIMITED), most - used[row])

    def dominant(self, queue: int, request: Amounts = ()) -> tuple[float, int]:
        """Return the largest (allocated + request) ÷ share; for a share of 0 infinite and the amount."""
        without = self._dominant.get(queue)
        if without is None:
            without = self._dominant[queue] = self._largest(queue, ())
        return self._dominant_with(queue, request, without) if request else without

    def _largest(self, queue: int, request: Amounts) -> tuple[float, int]:
        share = self.share[queue]
        used = self.used[queue]
        if request:
            used = used.copy()
            for row, amount in request:
                used[row] += amount
        largest = 0.0
        for amount, most in zip(used, share, strict=True):
            if amount > 0:
                if most <= 0:
                    return INFINITE, amount
                ratio = amount / most
                if ratio > largest:
                    largest = ratio
        return largest, 0

    def key(self, queue: int, request: Amounts = ()) -> tuple[object, ...]:
        """Return the order among siblings, smaller first; without a request, by current usage alone."""
        without = self.dominant(queue)
        largest, beside = self._dominant_with(queue, request, without)
        created_s, at = self.ledger.age[queue]
        return (
            self.over_share(queue),
            not self.in_quota(queue, request) if request else not self.within_quota(queue),
            -self.ledger.priority[queue],
            largest,
            beside,
            *without,
            created_s,
            at,
        )

    def _dominant_with(self, queue: int, request: Amounts, without: tuple[float, int]) -> tuple[float, int]:
        """Return `dominant` with `request` more, from the value without it: only these resources grow."""
        if without[0] == INFINITE:
            return self._largest(queue, request)
        share, used = self.share[queue], self.used[queue]
        largest = without[0]
        for row, amount in request:
            if amount:
                if share[row] <= 0:
                    return self._largest(queue, request)
                ratio = (used[row] + amount) / share[row]
                if ratio > largest:
                    largest = ratio
        return largest, 0

    def giving_key(self, queue: int) -> tuple[object, ...]:
        """Return the order in which queues give, by current usage; smaller gives first."""
        dominant, beside = self.dominant(queue)
        created_s, at = self.ledger.age[queue]
        return (
            not self.over_share(queue),
            self.within_quota(queue),
            self.ledger.priority[queue],
            -dominant,
            -beside,
            -created_s,
            -at,
        )


def _first_over(
    kind: RefusalKind,
    path: Sequence[int],
    request: Amounts,
    used: Sequence[Sequence[int]],
    bounds: Sequence[Sequence[tuple[int, int]]],
) -> QuotaRefusal | None:
    """Return the first bound on a path that the request would exceed."""
    for queue in path:
        if bounds[queue]:
            wanted = dict(request)
            for row, most in bounds[queue]:
                want, have = wanted.get(row, 0), used[queue][row]
                if want and have + want > most:
                    return QuotaRefusal(kind, queue=queue, row=row, have=have, want=want, most=most)
    return None
