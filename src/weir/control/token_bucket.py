"""Token buckets: rates with a burst."""

from collections import OrderedDict
from typing import NamedTuple


class TokenRate(NamedTuple):
    """A burst of `at_once` units, and the rate at which they are restored."""

    at_once: float
    per_s: float


class TokenBucket:
    """Token bucket: units are restored with time, up to a maximum."""

    __slots__ = ("_at_s", "_left", "_rate")

    def __init__(self, rate: TokenRate, now_s: float) -> None:
        self._rate = rate
        self._left = rate.at_once
        self._at_s = now_s

    def take(self, now_s: float, cost: float = 1.0) -> float:
        """Take units; return 0, or the seconds until there are enough."""
        at_once, per_s = self._rate
        self._left = min(at_once, self._left + (now_s - self._at_s) * per_s)
        self._at_s = now_s
        if self._left >= cost:
            self._left -= cost
            return 0.0
        return (cost - self._left) / per_s

    def give_back(self, cost: float = 1.0) -> None:
        """Return units that were taken."""
        self._left = min(self._rate.at_once, self._left + cost)


class TokenBuckets:
    """Buckets of one rate by key. Beyond `keys_max` the one whose last use is the oldest is dropped."""

    def __init__(self, rate: TokenRate, keys_max: int) -> None:
        self._rate = rate
        self._keys_max = keys_max
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, key: str, now_s: float, cost: float = 1.0) -> float:
        """Take units from the bucket of a key; return 0, or the seconds until there are enough."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, now_s)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._keys_max:
            self._buckets.popitem(last=False)
        return bucket.take(now_s, cost)

    def give_back(self, key: str) -> None:
        """Return a unit that was taken."""
        if (bucket := self._buckets.get(key)) is not None:
            bucket.give_back()
