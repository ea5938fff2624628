"""A thread in which samplers choose parameters, while control and the event loop need the processor, too.

Namespaces take turns. A sampler with many earlier trials takes seconds, and those of one namespace would
delay the sweeps of the others.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from weir.control.fair_queue import FairQueue

T = TypeVar("T")


class SamplerThread:
    """Runs one sampler at a time. Belongs to the event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weir-samplers")
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()  # each is done when its turn comes
        self._is_taken = False

    async def run(self, namespace: str, work: Callable[[], T]) -> T:
        """Return the result of work for a sweep of this namespace, or raise its exception."""
        if self._is_taken:
            await self._turn(namespace)
        self._is_taken = True
        working = asyncio.get_running_loop().run_in_executor(self._thread, work)
        working.add_done_callback(self._ended)
        return await working

    async def _turn(self, namespace: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(namespace, turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(namespace, turn)
            if not turn.cancelled():  # it had come
                self._next()
            raise

    def _ended(self, _working: "asyncio.Future[Any]") -> None:
        self._next()

    def _next(self) -> None:
        """Let the next one have the thread."""
        turn = self._waiting.take()
        while turn is not None and turn.cancelled():
            turn = self._waiting.take()
        self._is_taken = turn is not None
        if turn is not None:
            turn.set_result(None)
