"""Turns of namespaces in the thread of samplers."""

import asyncio
import threading

import pytest
from tests.unit.kubernetes.writes.delivery.api_writing import until

from weir.kubernetes.sweeps.sampler_thread import SamplerThread


async def test_a_sampler_waits_for_one_of_another_namespace() -> None:
    thread, go_on, order = SamplerThread(), threading.Event(), list[str]()

    def first() -> None:
        go_on.wait(60)

    flood = [asyncio.create_task(thread.run("flood", first))]
    await asyncio.sleep(0)
    for name in ("flood", "flood", "flood", "other"):
        flood.append(asyncio.create_task(thread.run(name, lambda name=name: order.append(name))))  # type: ignore[misc]
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*flood)
    assert order == ["flood", "other", "flood", "flood"]


async def test_an_error_and_cancelled_passes_give_the_thread_back() -> None:
    thread, go_on = SamplerThread(), threading.Event()
    failing = asyncio.create_task(thread.run("a", lambda: go_on.wait(60) and 1 / 0))
    await asyncio.sleep(0)
    cancelled = [asyncio.create_task(thread.run("b", lambda: None)) for _ in range(3)]
    await asyncio.sleep(0)
    last = asyncio.create_task(thread.run("c", lambda: "done"))
    await asyncio.sleep(0)
    cancelled[0].cancel()
    go_on.set()
    with pytest.raises(ZeroDivisionError):
        await failing
    cancelled[1].cancel()  # in the moment in which its turn comes, or before
    cancelled[2].cancel()
    assert await asyncio.wait_for(last, 60) == "done"
    await until(lambda: all(each.done() for each in cancelled))
    assert await asyncio.wait_for(thread.run("d", lambda: "after"), 60) == "after"
