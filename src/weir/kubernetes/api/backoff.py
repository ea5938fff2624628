"""Delays between retries, and between requests of a rate."""

import asyncio
import time
from dataclasses import dataclass
from random import Random


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


@dataclass(slots=True)
class RateLimiter:
    """Limit of a rate: `per_second`, and up to `burst` at once after a pause; 0 means no limit."""

    per_s: float
    burst: float
    _left: float = 0.0
    _at_s: float = 0.0

    async def wait(self) -> None:
        """Take one token, and wait for it if there is none. For one caller at a time."""
        if not self.per_s:
            return
        self._refill()
        if self._left < 1.0:
            await asyncio.sleep((1.0 - self._left) / self.per_s)
            self._refill()
        self._left -= 1.0

    def _refill(self) -> None:
        now_s = time.monotonic()
        self._left = min(self.burst, self._left + (now_s - self._at_s) * self.per_s)
        self._at_s = now_s
