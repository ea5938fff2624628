"""The database itself: its engine, what it promises to the disk, and the one thread that writes.

SQLite in WAL mode: readers never wait for the writer. One file holds everything, and how much a commit
waits for the disk is chosen for each commit: FULL where somebody was promised that it is durable, NORMAL
where only events and samples are in it. Two files would not be cheaper (a NORMAL commit doesn't wait for
the disk anyway) and could not put the end of a workload and its event in one transaction.

All writes go through one thread. What is queued while it commits shares the next commit: with one disk
flush of some milliseconds that is the difference between a hundred and some thousand submissions a second.
"""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine

Result = TypeVar("Result")
Work = Callable[[Connection], Result]


class Database:
    """An engine for readers and a thread that writes."""

    engine: Engine

    def __init__(self, url: str | None, home: Path) -> None:
        raise NotImplementedError

    def write(self, work: Work[Result], *, durable: bool = True) -> "Future[Result]":
        """Have the writer do this in a transaction; the future is done once it is committed.

        A Refusal must be raised before `work` changes anything: then the others of its commit aren't
        disturbed. `work` may be called again if the commit it was part of was broken off.
        """
        raise NotImplementedError

    def read(self, work: Work[Result]) -> Result:
        """Do this on a reader's connection, now."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish what is queued, and close."""
        raise NotImplementedError
