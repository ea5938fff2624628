"""Thread that watches file descriptors and timers, and sleeps otherwise."""

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from weir.model.resources import span

STUCK_AFTER_S = 30.0
"""A thread without progress for this long counts as stuck."""
_log = logging.getLogger(__name__)


class FdWatcher:
    """Runs callbacks one after another, in a thread of its own."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._calls: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._closing = False
        self._busy_since_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="weir-watch", daemon=True)
        self._thread.start()

    def add(self, fd: int, call: Callable[[], None]) -> None:
        """Call a function whenever the descriptor is readable."""
        with self._lock:
            self._calls[fd] = call
        self._epoll.register(fd, select.EPOLLIN)

    def drop(self, fd: int) -> None:
        """Stop watching a descriptor."""
        with self._lock:
            call = self._calls.pop(fd, None)
        if call is not None:
            self._epoll.unregister(fd)

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        """Call this once, after a while."""
        with self._lock:
            heappush(self._later, (time.monotonic() + after_s, next(self._numbers), call))
        os.eventfd_write(self._woken, 1)

    @property
    def trouble(self) -> str | None:
        """Return why the thread notices nothing now; None if it works."""
        since_s, now_s = self._busy_since_s, time.monotonic()
        if not self._thread.is_alive():
            return "The thread that watches pods has ended."
        if since_s is not None and now_s - since_s > STUCK_AFTER_S:
            return f"The thread that watches pods has been in one step for {span(now_s - since_s)}."
        with self._lock:
            late_s = now_s - self._later[0][0] if self._later else 0.0
        if late_s > STUCK_AFTER_S:
            return f"The thread that watches pods is late by {span(late_s)}."
        return None

    def close(self) -> None:
        """End the thread; nothing is called after this."""
        self._closing = True
        os.eventfd_write(self._woken, 1)
        self._thread.join()
        self._calls.clear()
        self._epoll.close()
        os.close(self._woken)

    def _run(self) -> None:
        while not self._closing:
            for fd, _ in self._epoll.poll(self._pause_s()):
                if fd == self._woken:
                    os.eventfd_read(fd)
                elif (call := self._calls.get(fd)) is not None and not self._closing:
                    self._guarded(call)
            while (due := self._due()) is not None:
                self._guarded(due)

    def _pause_s(self) -> float:
        with self._lock:
            return max(0.0, self._later[0][0] - time.monotonic()) if self._later else -1.0

    def _due(self) -> Callable[[], None] | None:
        with self._lock:
            if self._closing or not self._later or self._later[0][0] > time.monotonic():
                return None
            return heappop(self._later)[2]

    def _guarded(self, call: Callable[[], None]) -> None:
        """Call this. A call that fails must not end the watch."""
        self._busy_since_s = time.monotonic()
        try:
            call()
        except Exception:  # noqa: BLE001 - whatever it was
            _log.exception("a callback of the watcher failed")
        finally:
            self._busy_since_s = None
