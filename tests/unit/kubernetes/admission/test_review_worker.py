"""Reviews that share one thread: their number, their time, and the turns of namespaces."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from weir.kubernetes.admission.review_worker import (
    LARGE_RECEIVING_MAX,
    RECEIVING_MAX,
    SMALL_BYTES,
    ReviewsBusy,
    ReviewWorker,
    namespace_of_review,
)

NEVER = asyncio.Event
LARGE = SMALL_BYTES + 1


async def receive() -> bytes:
    return b"x"


async def test_the_number_of_reviews_and_their_time_are_bounded() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def held(body: bytes) -> bytes:
        begun.set()
        assert go_on.wait(60)
        return body

    worker = ReviewWorker(receiving_max=1, waiting_max=1, answer_s=0.05)
    try:
        while not begun.is_set():  # a review is dropped if the thread hasn't begun with it in time
            with pytest.raises(ReviewsBusy, match="no answer within"):
                await worker.answer(receive, held)
            await asyncio.sleep(0.01)
        # The thread is held, though the caller has left.
        with pytest.raises(ReviewsBusy, match="no answer within"):
            await worker.answer(NEVER().wait, held)  # a body that never comes
        first = asyncio.create_task(worker.answer(NEVER().wait, held))
        await asyncio.sleep(0)
        with pytest.raises(ReviewsBusy, match="1 reviews are being received"):
            await worker.answer(receive, held)
        with pytest.raises(ReviewsBusy, match="no answer within"):
            await first
        waiting = asyncio.create_task(worker.answer(receive, held))
        await asyncio.sleep(0)
        with pytest.raises(ReviewsBusy, match="1 reviews wait"):
            await worker.answer(receive, held)
        with pytest.raises(ReviewsBusy, match="no answer within"):
            await waiting
    finally:
        go_on.set()
        worker.close()


async def test_a_review_that_fails_or_is_given_up_leaves_its_place() -> None:
    def fail(_body: bytes) -> bytes:
        raise ZeroDivisionError

    worker = ReviewWorker(receiving_max=1, waiting_max=1)
    try:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await worker.answer(receive, fail)
            await asyncio.sleep(0)
            given_up = asyncio.create_task(worker.answer(NEVER().wait, fail))
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
        assert await worker.answer(receive, bytes.upper) == b"X"
    finally:
        worker.close()


class Reviews:
    """Reviews of a worker whose thread is held by the first one; the order in which the others are worked out."""

    def __init__(self, waiting_max: int) -> None:
        self.worker = ReviewWorker(waiting_max=waiting_max, answer_s=60.0)
        self.go_on = threading.Event()
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def add(self, namespace: str, count: int = 1) -> None:
        async def receive() -> bytes:
            return json.dumps({"request": {"namespace": namespace, "object": {"spec": {}}}}).encode()

        def work(_body: bytes) -> None:
            assert self.go_on.wait(60)
            self.order.append(namespace)

        self.tasks += [asyncio.create_task(self.worker.answer(receive, work)) for _ in range(count)]
        for _ in range(5):
            await asyncio.sleep(0)

    async def finish(self) -> list[Any]:
        """Return the outcomes of all reviews."""
        self.go_on.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def reviews(waiting_max: int) -> AsyncIterator[Reviews]:
    made = Reviews(waiting_max)
    try:
        await made.add("flood")
        yield made
    finally:
        made.go_on.set()
        made.worker.close()


async def test_namespaces_take_turns() -> None:
    async with reviews(waiting_max=10) as held:
        await held.add("flood", 5)
        await held.add("other")
        await held.add("third")
        assert await held.finish() == [None] * 8
    assert held.order[:5] == ["flood", "flood", "other", "third", "flood"]


async def test_a_flood_of_one_namespace_leaves_places_for_another() -> None:
    async with reviews(waiting_max=4) as held:
        await held.add("flood", 8)
        await held.add("other")
        found = await held.finish()
    refused = [isinstance(each, ReviewsBusy) for each in found]
    assert refused == [False, True, *[False] * 3, *[True] * 4, False]
    assert sorted(held.order) == [*["flood"] * 4, "other"]


async def test_large_bodies_leave_places_for_small_ones() -> None:
    worker = ReviewWorker()
    large = [
        asyncio.create_task(worker.answer(NEVER().wait, bytes.upper, length=length))
        for length in [LARGE] * RECEIVING_MAX + [None]
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(each.done() for each in large) == len(large) - LARGE_RECEIVING_MAX
    assert await worker.answer(receive, bytes.upper, length=SMALL_BYTES) == b"X"
    for each in large:
        each.cancel()
    await asyncio.gather(*large, return_exceptions=True)
    worker.close()


async def test_a_worker_that_is_closed_drops_the_reviews_that_wait() -> None:
    async with reviews(waiting_max=4) as held:
        await held.add("other", 2)
        held.worker.close()
        found = await held.finish()
    assert [type(each) for each in found[1:]] == [asyncio.CancelledError] * 2
    assert "other" not in held.order


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"request":{}}', b'{"request":{"namespace":1}}', b'{"request":{"x":' + b"[" * 100_000],
)
def test_a_review_that_cannot_be_read_has_no_namespace(body: bytes) -> None:
    assert namespace_of_review(body) == ""
