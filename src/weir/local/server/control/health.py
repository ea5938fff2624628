"""Readiness: every part of the server that has to make progress, and a sentence for each that doesn't.

Threads report from memory. Writes to disk and database have a thread of their own. A disk that doesn't
answer blocks only that thread, and a request is answered after PROBE_S_MAX.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from weir.local.files.disk_reserve import is_full
from weir.model.resources import span

PROBE_S_MAX = 5.0
"""Time after which a probe counts as hanging."""
PROBE_KEPT_S = 2.0
"""A request within this time of a probe gets its outcome."""
THREADS_S_MAX = 2.0
PROBE_FILE = "probe"
_PROBE = b"weir\n" * 800  # one disk block: some file systems have spare bytes on a full disk

Trouble = str | None


class Probe:
    """Writes to the disk and the database, one probe at a time."""

    def __init__(self, home: Path, store: Callable[[], None]) -> None:
        """Create a probe. `store` writes to the database and returns once committed, or raises OSError."""
        self._home = home
        self._store = store
        self._threads = ThreadPoolExecutor(1, "weir-probe")
        self._running: Future[dict[str, Trouble]] | None = None
        self._began_s = 0.0
        self._stage = "disk"

    async def troubles(self) -> dict[str, Trouble]:
        """Return the problems of the disk and the database, from a new probe if the last one is old."""
        running = self._running
        if running is None or (running.done() and time.monotonic() - self._began_s > PROBE_KEPT_S):
            self._began_s = time.monotonic()
            running = self._running = self._threads.submit(self._write)
        with suppress(TimeoutError):
            left_s = max(0.0, self._began_s + PROBE_S_MAX - time.monotonic())
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(running)), left_s)
        age_s = time.monotonic() - self._began_s
        return {self._stage: f"A write to the {self._stage} hasn't come back for {span(age_s)}."}

    def close(self) -> None:
        """Probe no more; a probe that hangs is left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _write(self) -> dict[str, Trouble]:
        self._stage = "disk"
        troubles: dict[str, Trouble] = {"disk": _why(lambda: _write_file(self._home / PROBE_FILE))}
        self._stage = "database"
        troubles["database"] = _why(self._store)
        return troubles


def _why(write: Callable[[], None]) -> Trouble:
    """Return why a write fails; None if it succeeds."""
    try:
        write()
    except OSError as error:
        if is_full(error):
            return "The disk is full."
        return str(error) if error.strerror is None else f"The disk can't be written: {error.strerror}."
    return None


def _write_file(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        written = 0
        while written < len(_PROBE):
            written += os.write(fd, _PROBE[written:])
        os.fsync(fd)
    finally:
        os.close(fd)
        with suppress(OSError):
            path.unlink()


class Health:
    """The checks of a server, each by the name of its part."""

    def __init__(self, threads: Mapping[str, Callable[[], Trouble]], probe: Probe) -> None:
        """Create the checks. The event loop calls `threads`, functions that answer from memory."""
        self._threads = threads
        self._probe = probe

    async def troubles(self) -> dict[str, str]:
        """Return a sentence for each part that makes no progress; empty if all do."""
        troubles: dict[str, Trouble] = {name: ask() for name, ask in self._threads.items()}
        probed, troubles["requests"] = await asyncio.gather(self._probe.troubles(), _requests())
        return {name: why for name, why in {**troubles, **probed}.items() if why is not None}

    async def unwritten(self) -> Trouble:
        """Return why the disk or the database can't be written; None if both can."""
        troubles = await self._probe.troubles()
        return " ".join(dict.fromkeys(why for why in troubles.values() if why is not None)) or None

    def close(self) -> None:
        """Check nothing any more."""
        self._probe.close()


async def _requests() -> Trouble:
    """Return why requests that read files or the database get no answer; None if they do."""
    try:
        await asyncio.wait_for(asyncio.to_thread(_nothing), THREADS_S_MAX)
    except TimeoutError:
        return "All threads that answer requests are busy."
    return None


def _nothing() -> None:
    """Answer from a worker thread, which shows that one is free."""
