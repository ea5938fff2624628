"""Bounded threads for work whose size a request chooses: the event loop never does it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from weir.service.blocking_calls import BlockingCalls

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
        self._looks = BlockingCalls(LOOKERS)

    async def parse(self, size: int, fn: Callable[[], Result]) -> Result:
        """Return `fn` of a body of this size, off the event loop unless the body is small.

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

        def look() -> bool:
            try:
                return Path(path).is_dir()
            except (OSError, ValueError):
                return False

        try:
            return await asyncio.wait_for(self._looks.run(look), self._look_s_max)
        except TimeoutError:
            return None
        except OSError:
            return True

    def close(self) -> None:
        """Accept no more work."""
        self._parsers.shutdown(wait=False, cancel_futures=True)
