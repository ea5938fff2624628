"""Limits by person: requests a second, open requests, live streams.

Everything here belongs to the event loop. A person is a user name, whichever of their tokens they use.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from urllib.parse import parse_qsl

from weir.control.token_bucket import TokenBuckets, TokenRate
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.server_limits import ServerLimits

PERSONS_MAX = 10_000
"""Number of persons whose rate is remembered."""
ROWS_A_UNIT = 100
SUGGESTIONS_PER_PERSON_MAX = 2
SUGGESTIONS_MAX = 16
_COST_OF = {
    **dict.fromkeys(("/why", "/decision", "/preview", "/previews", "/snapshot", "/trace", "/what-if"), 50),
    **dict.fromkeys(("/usage", "/history", "/metrics"), 20),
}
_COST_TO_CHANGE = 2


class RequestLimiter:
    """Admits requests. Administrators have no rate limit; limits of open requests apply to them too."""

    def __init__(self, limits: ServerLimits, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._rates = TokenBuckets(TokenRate(limits.requests_burst, limits.requests_per_s), PERSONS_MAX)
        self._open: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    @contextmanager
    def admitted(self, person: Person, method: str, path: str, query: bytes) -> Iterator[None]:
        """Count an open request of a person while the block runs.

        Raises:
            RequestRefused: the person has reached a limit; the answer says when to try again.
        """
        if not may(person, Action.EXCEED_LIMITS):
            self._take(person.user, cost_of(method, path, query))
        is_stream = is_streaming(path, query)
        counts = self._streams if is_stream else self._open
        if is_stream:
            self._check_streams(person.user)
        elif counts[person.user] >= self._limits.requests_open_max:
            most = self._limits.requests_open_max
            sentence = f"You have {most} open requests, the maximum for one person: wait for their answers."
            raise RequestRefused(429, sentence, retry_after_s=1.0)
        counts[person.user] += 1
        try:
            yield
        finally:
            counts[person.user] -= 1
            if not counts[person.user]:
                del counts[person.user]

    def _take(self, user: str, cost: int) -> None:
        wait_s = self._rates.take(user, self._clock(), cost)
        if wait_s:
            raise RequestRefused(
                429,
                f"You exceed the limit of {self._limits.requests_per_s:g} requests a second: "
                f"try again in {wait_s:.1f} s.",
                retry_after_s=wait_s,
            )

    def _check_streams(self, user: str) -> None:
        most = self._limits.streams_per_person_max
        if self._streams[user] >= most:
            sentence = f"You have {most} open streams, the maximum for one person: close one."
            raise RequestRefused(429, sentence, retry_after_s=5.0)
        if self._streams.total() >= self._limits.streams_max:
            sentence = f"All {self._limits.streams_max} streams of this server are taken: try again later."
            raise RequestRefused(503, sentence, retry_after_s=5.0)


class SuggestionQueue:
    """Queue of requests for suggestions, which cost a second of processor time each: one runs at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._waiting: Counter[str] = Counter()

    def alone(self) -> asyncio.Semaphore:
        """Return the lock of requests that are limited elsewhere, and tried one at a time with the rest."""
        return self._turn

    @asynccontextmanager
    async def turn(self, person: Person) -> AsyncIterator[None]:
        """Wait for a turn.

        Raises:
            RequestRefused: the person, or all persons together, have too many requests waiting.
        """
        user = person.user
        if self._waiting[user] >= SUGGESTIONS_PER_PERSON_MAX:
            sentence = f"{self._waiting[user]} of your suggestions are being computed: try again in a moment."
            raise RequestRefused(429, sentence, retry_after_s=2.0)
        if self._waiting.total() >= SUGGESTIONS_MAX:
            raise RequestRefused(
                503, "The server computes many suggestions now: try again in a moment.", retry_after_s=3.0
            )
        self._waiting[user] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting[user] -= 1


def cost_of(method: str, path: str, query: bytes) -> int:
    """Return the units of a request: 1 for most, more for expensive ones."""
    end = path[path.rfind("/") :]
    cost = _COST_OF.get(end, 1)
    if method != "GET":
        cost = max(cost, _COST_TO_CHANGE)
    if query:
        cost += _number(query, "limit") // ROWS_A_UNIT
    return cost


def is_streaming(path: str, query: bytes) -> bool:
    """Return True if the answer continues until its reader leaves."""
    return path in ("/api/v1/stream", "/api/v1/dashboard/stream") or (
        path.endswith("/logs") and b"follow" in query
    )


def _number(query: bytes, name: str) -> int:
    """Return the largest value of a parameter; 0 without one."""
    values = [value for key, value in parse_qsl(query.decode("latin-1")) if key == name]
    return max(
        (int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 6), default=0
    )
