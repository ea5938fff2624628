"""Token buckets: rates with a burst."""


class TokenBucket:
    """Token bucket: units are restored with time, up to a maximum."""

    __slots__ = ("_at_s", "_left")

    def __init__(self, burst: float, now_s: float) -> None:
        self._left = burst
        self._at_s = now_s

    def take(self, cost: float, per_s: float, burst: float, now_s: float) -> float:
        """Take units; return 0, or the seconds until there are enough."""
        self._left = min(burst, self._left + (now_s - self._at_s) * per_s)
        self._at_s = now_s
        if self._left >= cost:
            self._left -= cost
            return 0.0
        return (cost - self._left) / per_s

    def give_back(self, cost: float, burst: float) -> None:
        """Put units back that were taken."""
        self._left = min(burst, self._left + cost)

    def is_full(self, per_s: float, burst: float, now_s: float) -> bool:
        """Return True if the bucket is full, so that it can be dropped."""
        return self._left + (now_s - self._at_s) * per_s >= burst
