"""Delays between retries, and between requests of a rate."""

import asyncio
import time
from dataclasses import dataclass
from random import Random

from weir.control.token_bucket import TokenBucket, TokenRate


@dataclass(slots=True)
class Backoff:
    """Exponential backoff with jitter: each wait is random between half and all of its length."""

    first_s: float
    most_s: float
    chance: Random
    tries: int = 0

    def next_s(self) -> float:
        """Return the next delay in seconds."""
        whole_s: float = min(self.first_s * 2.0 ** min(self.tries, 30), self.most_s)
        self.tries += 1
        return whole_s * self.chance.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self.tries = 0


class RateLimiter:
    """Limit of a rate: `per_s`, and up to `burst` at once after a pause; 0 means no limit."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._bucket = TokenBucket(TokenRate(burst, per_s), time.monotonic()) if per_s else None

    async def wait(self) -> None:
        """Take one token; if none is left, wait for it."""
        while self._bucket is not None and (wait_s := self._bucket.take(time.monotonic())):  # noqa: ASYNC110
            await asyncio.sleep(wait_s)
