"""Bounded threads for work whose size a request chooses: the event loop never does it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
PARSERS = 2
LOOKERS = 4
SMALL_BYTES_MAX = 8192
LOOK_S_MAX = 2.0
"""A directory that doesn't answer in this time is on a file system that hangs."""


class Workers:
    """Threads of one server."""

    def __init__(self, *, look_s_max: float = LOOK_S_MAX) -> None:
        self._look_s_max = look_s_max
        self._parsers = ThreadPoolExecutor(PARSERS, "weir-parse")
        self._looking = threading.BoundedSemaphore(LOOKERS)

    async def parse(self, size: int, fn: Callable[[], Result]) -> Result:
        """Return `fn` of a body with this size, off the event loop unless it is small.

        A small body takes a few milliseconds at worst, and handing it over costs more than most do.
        """
        if size <= SMALL_BYTES_MAX:
            return fn()
        return await asyncio.get_running_loop().run_in_executor(self._parsers, fn)

    async def is_directory(self, path: str) -> bool | None:
        """Return True if a directory exists, and None if its file system doesn't answer in time.

        A file system that hangs keeps its thread for good. Threads are counted: when all of them hang, paths
        count as checked; a job whose directory is missing reports that when it starts.
        """
        if not self._looking.acquire(blocking=False):
            return True
        answer: Future[bool] = Future()
        answer.set_running_or_notify_cancel()

        def look() -> None:
            try:
                answer.set_result(Path(path).is_dir())
            except (OSError, ValueError):
                answer.set_result(False)
            finally:
                self._looking.release()

        threading.Thread(target=look, name="weir-look", daemon=True).start()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), self._look_s_max)
        except TimeoutError:
            return None

    def close(self) -> None:
        """Take no more work."""
        self._parsers.shutdown(wait=False, cancel_futures=True)
