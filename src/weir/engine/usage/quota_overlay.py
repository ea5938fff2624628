"""Quota overlay: the order among queues, by the usage of one cycle."""

from weir.engine.usage.usage_overlay import UsageOverlay
from weir.state.quota_usage import Amounts

INFINITE = float("inf")


class QuotaOverlay(UsageOverlay):
    """Sort keys by the usage of one cycle."""

    def dominant(self, queue: int, request: Amounts = ()) -> tuple[float, int]:
        """Return the largest (allocated + request) ÷ share; for a share of 0 infinite and the amount."""
        without = self._dominant.get(queue)
        if without is None:
            if request:
                return self._largest(queue, request)
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
