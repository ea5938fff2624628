"""A thread for reviews, so that the event loop can renew the lease.

The size of a review bounds its work. This module bounds the number of reviews under way, and the time that a
caller waits. The API server answers a review itself when Weir doesn't (`failurePolicy: Ignore`), so a review
that is late is dropped unless its work has begun.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

UNDER_WAY_MAX = 32
"""Reviews that are being received, wait for the thread, or have its attention."""
ANSWER_S = 4.0
"""From the arrival of a review to its answer; shorter than the API server's patience with a webhook."""
T = TypeVar("T")


class ReviewsBusy(Exception):
    """The review is refused: too many are under way, or its deadline has passed."""


class ReviewWorker:
    """Works out reviews in one thread, with a bounded number pending."""

    def __init__(self, *, under_way_max: int = UNDER_WAY_MAX, answer_s: float = ANSWER_S) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weir-reviews")
        self._under_way_max = under_way_max
        self._answer_s = answer_s
        self._under_way = 0

    def close(self) -> None:
        """Drop the reviews that wait."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, receive: Callable[[], Awaitable[bytes]], work: Callable[[bytes], T]) -> T:
        """Receive a body on the event loop, and return the result of its work in the thread.

        Raises:
            Busy: too many reviews are under way, or this one is late.
        """
        if self._under_way >= self._under_way_max:
            raise ReviewsBusy(f"{self._under_way} reviews are under way")
        loop = asyncio.get_running_loop()
        self._under_way += 1
        try:
            async with asyncio.timeout(self._answer_s):
                try:
                    body = await receive()
                    worked = self._thread.submit(work, body)
                except BaseException:
                    self._leave()
                    raise
                # A review counts until its thread ends, even after the caller has left.
                worked.add_done_callback(lambda _worked: _soon(loop, self._leave))
                return await asyncio.wrap_future(worked)
        except TimeoutError:
            raise ReviewsBusy(f"there was no answer within {self._answer_s:g} s") from None

    def _leave(self) -> None:
        self._under_way -= 1


def _soon(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended: there is nothing left to count
        loop.call_soon_threadsafe(act)
