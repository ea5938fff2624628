"""Answers that many requests share."""

import asyncio

import pytest

from weir.kubernetes.query.shared_answer import SharedAnswer


class Maker:
    """Makes answers one by one, each when it is let."""

    def __init__(self) -> None:
        self.begun = self.now = self.most = 0
        self.go_on = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def make(self) -> int:
        self.begun += 1
        number = self.begun
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.go_on.acquire()
            if self.error is not None:
                raise self.error
            return number
        finally:
            self.now -= 1


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_requests_share_the_answer_that_begins_after_they_came() -> None:
    maker = Maker()
    shared = SharedAnswer(maker.make)
    first = [asyncio.create_task(shared.get()) for _ in range(5)]
    await turns()
    later = [asyncio.create_task(shared.get()) for _ in range(50)]
    await turns()
    assert maker.begun == 1
    maker.go_on.release()
    assert await asyncio.gather(*first) == [1] * 5
    await turns()
    last = asyncio.create_task(shared.get())
    await turns()
    for _ in range(2):
        maker.go_on.release()
    assert await asyncio.gather(*later) == [2] * 50
    assert await last == 3
    assert (maker.begun, maker.most) == (3, 1)


async def test_a_request_that_is_given_up_ends_none_of_the_others() -> None:
    maker = Maker()
    shared = SharedAnswer(maker.make)
    requests = [asyncio.create_task(shared.get()) for _ in range(3)]
    await turns()
    requests[0].cancel()
    maker.go_on.release()
    with pytest.raises(asyncio.CancelledError):
        await requests[0]
    assert await asyncio.gather(*requests[1:]) == [1, 1]


async def test_an_error_is_that_of_its_requests_and_the_next_ones_go_on() -> None:
    maker = Maker()
    maker.error = ValueError("no")
    shared = SharedAnswer(maker.make)
    for _ in range(2):
        maker.go_on.release()
        with pytest.raises(ValueError, match="no"):
            await shared.get()
    maker.error = None
    maker.go_on.release()
    assert await shared.get() == 3
