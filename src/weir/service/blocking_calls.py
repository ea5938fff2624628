"""Calls that may hang, such as a question to a database, each in a daemon thread that nothing waits for."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


class BlockingCalls:
    """A bounded number of threads. A call that hangs keeps its thread, and its caller can give up on it."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    async def run(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call.

        Raises:
            OSError: too many calls hang. Errors of the call itself are raised too.
        """
        if not self._free.acquire(blocking=False):
            raise OSError("too many calls hang")
        result: Future[Result] = Future()
        result.set_running_or_notify_cancel()

        def work() -> None:
            try:
                tell = partial(result.set_result, call())
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                tell = partial(result.set_exception, error)
            self._free.release()  # before the caller gets the result, because it may call again at once
            tell()

        threading.Thread(target=work, name="weir-blocking-call", daemon=True).start()
        return await asyncio.wrap_future(result)
