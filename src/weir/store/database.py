"""The database itself: its engine, what it promises to the disk, and the one thread that writes.

SQLite in WAL mode: readers never wait for the writer. One file holds everything, and how much a commit
waits for the disk is chosen for each commit: FULL where somebody was promised that it is durable, NORMAL
where only events and samples are in it. Two files would not be cheaper (a NORMAL commit doesn't wait for
the disk anyway) and could not put the end of a workload and its event in one transaction.

All writes go through one thread. What is queued while it commits shares the next commit: with one disk
flush of some milliseconds that is the difference between a hundred and some thousand submissions a second.
"""

import fcntl
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Lock, Thread
from typing import IO, Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from weir.store.dialects import WRITES, Durability, failure, open_engine
from weir.store.failures import Refusal, StoreFailed
from weir.store.schema import bring_up_to_date

TOGETHER_MOST = 512
"""Pieces of work in one commit."""
QUEUED_MOST = 20_000
"""Pieces of work that may wait for the writer; then those who ask wait, too."""
ASK_S_MOST = 30.0
"""How long they wait before they are refused."""

Result = TypeVar("Result")
Work = Callable[[Connection], Result]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A piece of work that waits for the writer."""

    work: Work[Any]
    durable: bool
    done: "Future[Any]" = field(default_factory=Future)


class Hearer:
    """Follows what the writer does; all calls come from its thread."""

    def begins(self) -> None:
        """A transaction begins; what was done in one that wasn't committed never happened."""

    def committed(self) -> None:
        """It is committed."""


class Database:
    """An engine for readers and a thread that writes."""

    def __init__(self, url: str | None, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._own = _own(home)
        self.engine: Engine | None = None
        try:
            self.engine = open_engine(url, home)
            self._connection: Connection | None = None
            bring_up_to_date(self._writer())
        except (SQLAlchemyError, OSError) as error:
            self._release()
            raise failure(error) from error
        self.hearers: list[Hearer] = []
        self._asked: Queue[_Asked | None] = Queue(QUEUED_MOST)
        self._closing = Lock()
        self._closed = False
        self._thread = Thread(target=self._run, name="weir-store", daemon=True)
        self._thread.start()

    def write(self, work: Work[Result], *, durable: bool = True) -> "Future[Result]":
        """Have the writer do this in a transaction; the future is done once it is committed.

        A Refusal must be raised before `work` changes anything: then the others of its commit aren't
        disturbed. `work` may be called again if the commit it was part of was broken off.
        """
        asked = _Asked(work, durable)
        with self._closing:
            refused = "The database is closed." if self._closed else self._put(asked)
        if refused:
            asked.done.set_exception(StoreFailed(refused))
        return asked.done

    def _put(self, asked: _Asked) -> str:
        try:
            self._asked.put(asked, timeout=ASK_S_MOST)
        except Full:
            return "The database can't keep up with what is asked of it: ask again later."
        return ""

    def read(self, work: Work[Result]) -> Result:
        """Do this on a reader's connection, now."""
        if self.engine is None:
            raise StoreFailed("The database is closed.")
        try:
            with self.engine.connect() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise failure(error) from error

    def close(self) -> None:
        """Finish what is queued, and close."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._asked.put(None)  # the last: whoever asks from now on is refused
        self._thread.join()
        self._release()

    def _release(self) -> None:
        if self.engine is not None:
            self.engine.dispose()
            self.engine = None
        self._own.close()

    # The writer

    def _run(self) -> None:
        closing = False
        while not closing:
            together = [self._asked.get()]
            while len(together) < TOGETHER_MOST and together[-1] is not None:
                try:
                    together.append(self._asked.get_nowait())
                except Empty:
                    break
            closing = together[-1] is None
            work = [
                asked for asked in together if asked is not None and asked.done.set_running_or_notify_cancel()
            ]
            if work:
                self._do(work)
        if self._connection is not None:
            self._connection.close()

    def _do(self, together: list[_Asked]) -> None:
        """Do it all in one commit; if one piece breaks that, each in its own."""
        try:
            outcomes = self._commit(together)
        except BaseException as error:  # noqa: BLE001 - whatever it was, somebody waits for the answer
            self._start_anew()
            told = failure(error) if isinstance(error, SQLAlchemyError | OSError) else error
            if len(together) == 1 or (isinstance(told, StoreFailed) and told.is_full):
                outcomes = [told] * len(together)
            else:
                for asked in together:
                    self._do([asked])
                return
        for asked, outcome in zip(together, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                asked.done.set_exception(outcome)
            else:
                asked.done.set_result(outcome)

    def _commit(self, together: list[_Asked]) -> list[Any]:
        connection = self._writer()
        durable = any(asked.durable for asked in together)
        self._durability.before(durable)
        for hearer in self.hearers:
            hearer.begins()
        outcomes: list[Any] = []
        with connection.begin():
            self._durability.within(durable)
            for asked in together:
                try:
                    outcomes.append(asked.work(connection))
                except Refusal as refused:
                    outcomes.append(refused)
        for hearer in self.hearers:
            hearer.committed()
        return outcomes

    def _writer(self) -> Connection:
        if self._connection is None:
            assert self.engine is not None
            self._connection = self.engine.connect().execution_options(**{WRITES: True})
            self._durability = Durability(self._connection)
        return self._connection

    def _start_anew(self) -> None:
        """Let go of a connection on which something failed."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:
                pass  # it was broken; the next one is a new one


def _own(home: Path) -> IO[bytes]:
    """Make sure that this process is the only one with this database open.

    A record lock, not `flock`: processes that are forked don't inherit it.
    """
    file = (home / "weir.lock").open("ab")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StoreFailed(f"Another server has the database in {home} open: stop it first.") from None
    return file
