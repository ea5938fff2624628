"""A thread for reviews, so that the event loop can renew the lease.

The size of a review bounds its work. This module bounds the number of open reviews, and the time that a
caller waits. The API server answers a review itself when Weir doesn't (`failurePolicy: Ignore`), so a review
that is late is dropped unless its work has begun.

Namespaces take turns, and a namespace with few reviews takes the place of one with many. Otherwise large
objects of one tenant would keep the pods of others from being reviewed, and another scheduler would place
them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from weir.control.fair_queue import FairQueue

RECEIVING_MAX, LARGE_RECEIVING_MAX = 32, 16
"""Reviews whose bodies are being received, and large ones among them."""
SMALL_BYTES = 1 << 16
"""Bytes of a body that arrives at once; a larger one is large."""
WAITING_MAX = 32
"""Reviews that wait for the thread."""
ANSWER_S = 4.0
"""From the arrival of a review to its answer; shorter than the API server's patience with a webhook."""
T = TypeVar("T")


class ReviewsBusy(Exception):
    """The review is refused: too many reviews are open, or its deadline has passed."""


@dataclass(slots=True, eq=False)
class _WaitingReview:
    """A review that waits for the thread."""

    namespace: str
    work: Callable[[], Any]
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ReviewWorker:
    """Works out reviews in one thread, with a bounded number pending. Belongs to the event loop."""

    def __init__(
        self,
        *,
        receiving_max: int = RECEIVING_MAX,
        large_receiving_max: int = LARGE_RECEIVING_MAX,
        waiting_max: int = WAITING_MAX,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weir-reviews")
        self._receiving_max = {False: receiving_max, True: large_receiving_max}
        self._receiving = {False: 0, True: 0}  # by whether they are large
        self._waiting_max = waiting_max
        self._answer_s = answer_s
        self._waiting: FairQueue[_WaitingReview] = FairQueue()
        self._is_working = False  # True: the thread has a review, even one whose caller has left

    def close(self) -> None:
        """Drop the reviews that wait."""
        while (dropped := self._waiting.take()) is not None:
            dropped.result.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(
        self,
        receive: Callable[[], Awaitable[bytes]],
        work: Callable[[bytes], T],
        *,
        length: int | None = 0,
    ) -> T:
        """Receive a body of this length on the event loop, and return the result of its work in the thread.

        Raises:
            ReviewsBusy: too many reviews are open, or this one is late.
        """
        try:
            async with asyncio.timeout(self._answer_s):
                body = await self._received(receive, is_large=length is None or length > SMALL_BYTES)
                result: T = await self._worked(_WaitingReview(namespace_of_review(body), partial(work, body)))
                return result
        except TimeoutError:
            raise ReviewsBusy(f"there was no answer within {self._answer_s:g} s") from None

    async def _received(self, receive: Callable[[], Awaitable[bytes]], *, is_large: bool) -> bytes:
        count = self._receiving[True] if is_large else sum(self._receiving.values())
        if (
            count >= self._receiving_max[is_large]
            or sum(self._receiving.values()) >= self._receiving_max[False]
        ):
            raise ReviewsBusy(f"{count} reviews are being received")
        self._receiving[is_large] += 1
        try:
            return await receive()
        finally:
            self._receiving[is_large] -= 1

    async def _worked(self, review: _WaitingReview) -> Any:
        if len(self._waiting) >= self._waiting_max:
            self._make_place(review.namespace)
        self._waiting.add(review.namespace, review)
        self._begin()
        try:
            return await review.result
        finally:
            self._waiting.remove(review.namespace, review)  # its caller may have left

    def _make_place(self, namespace: str) -> None:
        """Refuse the oldest review of the namespace with the most.

        Raises:
            ReviewsBusy: that is the namespace of the new review.
        """
        shortened = self._waiting.to_shorten(namespace)
        refusal = ReviewsBusy(f"{len(self._waiting)} reviews wait")
        if shortened == namespace:
            raise refusal
        displaced = self._waiting.take_oldest(shortened)
        if not displaced.result.done():
            displaced.result.set_exception(refusal)

    def _begin(self) -> None:
        """Pass the next review to the thread, if it is idle."""
        if self._is_working or (review := self._waiting.take()) is None:
            return
        self._is_working = True
        loop = asyncio.get_running_loop()
        worked = self._thread.submit(review.work)
        worked.add_done_callback(lambda worked: _soon(loop, partial(self._ended, review, worked)))

    def _ended(self, review: _WaitingReview, worked: "Future[Any]") -> None:
        self._is_working = False
        self._begin()
        if review.result.done():
            return
        if worked.cancelled():
            review.result.cancel()
        elif (error := worked.exception()) is not None:
            review.result.set_exception(error)
        else:
            review.result.set_result(worked.result())


class _ReviewedRequest(Struct):
    namespace: str = ""


class _NamespaceOfReview(Struct):
    request: _ReviewedRequest


_DECODER = Decoder(_NamespaceOfReview)


def namespace_of_review(body: bytes) -> str:
    """Return the namespace of a review; empty for an object of the cluster, or if it can't be read."""
    try:
        return _DECODER.decode(body).request.namespace
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _soon(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended: there is nothing left to count
        loop.call_soon_threadsafe(act)
