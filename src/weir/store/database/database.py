"""Database: its engine, its durability, and its only writing thread.

SQLite in WAL mode: readers never wait for the writer. One file holds everything, and each commit chooses
its durability: FULL where a caller was promised it, NORMAL for events and samples only. Two files would not
be cheaper: a NORMAL commit doesn't wait for the disk anyway. They could not put the end of a workload and its
event in one transaction.

All writes go through one thread. Requests queued during a commit share the next one. With disk flushes of
some milliseconds, that makes some thousand submissions a second instead of a hundred.
"""

import fcntl
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import IO, Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Select, text
from sqlalchemy.exc import SQLAlchemyError

from weir.store.database.dialects import (
    WRITES,
    Durability,
    address_of,
    encrypted,
    exclude_others,
    failure,
    open_engine,
)
from weir.store.database.identity import (
    PoolIdentity,
    identity_of_pool,
    mark_of_database,
    open_cluster,
    open_pool,
)
from weir.store.database.schema import bring_up_to_date
from weir.store.errors import StoreFailed, StoreRefusal

TOGETHER_MAX = 512
"""Pieces of work in one commit."""
QUEUED_MAX = 20_000
"""Size of the writer's queue; callers wait when it is full."""
ASK_S_MAX = 30.0
"""Time that callers wait before they are refused."""

GUARD_S = 2.0
"""Time between two checks of the connection to a database server."""
GUARD_S_MAX = 10.0
"""Time that a check may take before the database counts as lost."""

_DISK_FULL = "The disk that holds the database is full: free some space."
Result = TypeVar("Result")
Work = Callable[[Connection], Result]


@dataclass(frozen=True, slots=True)
class _WriteRequest:
    """A piece of work that waits for the writer."""

    work: Work[Any]
    durable: bool
    done: "Future[Any]" = field(default_factory=Future)


class WriteListener:
    """Follows the writer; all calls come from its thread."""

    def on_begin(self) -> None:
        """Begin a transaction; discard the results of one that wasn't committed."""

    def committed(self) -> None:
        """Handle a commit."""


class ReadableDatabase:
    """An engine for readers."""

    engine: Engine | None = None

    def read(self, work: Work[Result]) -> Result:
        """Do this on a reader's connection, now."""
        if self.engine is None:
            raise StoreFailed("The database is closed.")
        try:
            with self.engine.connect() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise failure(error) from error

    def rows(self, query: Select[Any]) -> Sequence[Any]:
        """Return the rows of a query."""
        return self.read(lambda connection: connection.execute(query).all())

    def row(self, query: Select[Any]) -> Any:
        """Return the only row of a query; None without one."""
        return self.read(lambda connection: connection.execute(query).one_or_none())

    def values(self, query: Select[Any]) -> list[Any]:
        """Return the first column of a query."""
        return self.read(lambda connection: list(connection.execute(query).scalars()))

    def value(self, query: Select[Any]) -> Any:
        """Return the first column of the first row of a query; None without a row."""
        return self.read(lambda connection: connection.execute(query).scalar())


class Database(ReadableDatabase):
    """An engine for readers and a thread that writes.

    A pool has a home. The history of a cluster has none, and is known by the identity of the cluster.
    """

    def __init__(
        self, url: str | None, home: Path | None, *, begin_again: bool = False, cluster: str = ""
    ) -> None:
        if home is not None:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = address_of(url, home) if home is not None else encrypted(address_of(url, None))
        self._own = own(home, address)
        self._connection: Connection | None = None
        self._opened: PoolIdentity | None = None
        self.lost: str | None = None  # cause why another server may have the lock of the pool
        try:
            self.engine = open_engine(address)
            bring_up_to_date(self._writer())
            if home is None:
                self._opened = open_cluster(self._writer(), cluster)
            else:
                self._opened = self._open_pool(home, begin_again=begin_again)
        except (SQLAlchemyError, OSError) as error:
            self._drop_connection()
            self._release()
            raise failure(error) from error
        self.listeners: list[WriteListener] = []
        self._requests: Queue[_WriteRequest | None] = Queue(QUEUED_MAX)
        self._closing = Lock()
        self._closed = False
        self.failure: StoreFailed | None = None  # error of the last commit
        self._thread = Thread(target=self._run, name="weir-store", daemon=True)
        self._thread.start()
        self._ended = Event()
        if self.engine.dialect.name == "postgresql":
            Thread(target=self._guard, name="weir-store-guard", daemon=True).start()

    def _open_pool(self, home: Path, *, begin_again: bool) -> PoolIdentity:
        """Open the database of a home. On a full disk an opening that changes nothing isn't counted.

        The server has to start there: often a job fills the disk, and only the server can stop that job.
        """
        try:
            return open_pool(self._writer(), home, begin_again=begin_again)
        except (SQLAlchemyError, OSError) as error:
            full = failure(error)
            if not full.is_full or begin_again:
                raise
            self._drop_connection()
        opened = identity_of_pool(self._writer(), home)
        if opened is None:
            raise full
        return opened

    @property
    def opened(self) -> PoolIdentity:
        """Identity of the pool at the opening of the database."""
        assert self._opened is not None
        return self._opened

    def write(self, work: Work[Result], *, durable: bool = True) -> "Future[Result]":
        """Run `work` in a transaction of the writer; the future is done after the commit.

        `work` must raise a Refusal before its first change: the other writes of the same commit go on. After
        a failed commit, `work` is called again.
        """
        asked = _WriteRequest(work, durable)
        with self._closing:
            refused = "The database is closed." if self._closed else self._put(asked)
        if refused:
            asked.done.set_exception(StoreFailed(refused))
        return asked.done

    def _put(self, asked: _WriteRequest) -> str:
        try:
            self._requests.put(asked, timeout=ASK_S_MAX)
        except Full:
            return "The database is overloaded: try again later."
        return ""

    @property
    def trouble(self) -> str | None:
        """Return why writes fail now; None if they succeed, as far as is known."""
        if not self._thread.is_alive():
            return "The thread that writes the database has ended."
        failure = self.failure
        if self.lost or failure is None:
            return self.lost
        return _DISK_FULL if failure.is_full else str(failure)

    def close(self) -> None:
        """Finish queued work, and close."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._ended.set()
            self._requests.put(None)  # marks the end: later requests are refused
        self._thread.join()
        self._release()

    def _release(self) -> None:
        if self.engine is not None:
            self.engine.dispose()
            self.engine = None
        for file in self._own:
            file.close()

    def _guard(self) -> None:
        """Look after the session that holds the lock: without it, another server may be the pool's."""
        while not self._ended.wait(GUARD_S):
            try:
                looked = self.write(lambda connection: connection.execute(text("SELECT 1")), durable=False)
                looked.result(GUARD_S_MAX)
                self.lost = None
            except TimeoutError:
                self.lost = "The database doesn't answer."
            except Exception as error:  # noqa: BLE001 - whatever it was, nothing may be decided meanwhile
                self.lost = str(error)

    # The writer thread

    def _run(self) -> None:
        closing = False
        while not closing:
            together = [self._requests.get()]
            while len(together) < TOGETHER_MAX and together[-1] is not None:
                try:
                    together.append(self._requests.get_nowait())
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

    def _do(self, together: list[_WriteRequest]) -> None:
        """Carry out these writes in one commit; if it fails, each in a commit of its own."""
        try:
            outcomes = self._commit(together)
        except BaseException as error:  # noqa: BLE001 - whatever it was, a caller waits for the answer
            self._drop_connection()
            self.failure = failure(error) if isinstance(error, SQLAlchemyError | OSError) else None
            refusal = failure(error) if isinstance(error, SQLAlchemyError | OSError) else error
            if len(together) == 1 or (isinstance(refusal, StoreFailed) and refusal.is_full):
                outcomes = [refusal] * len(together)
            else:
                for asked in together:
                    self._do([asked])
                return
        else:
            self.failure = None
        for asked, outcome in zip(together, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                asked.done.set_exception(outcome)
            else:
                asked.done.set_result(outcome)

    def _commit(self, together: list[_WriteRequest]) -> list[Any]:
        connection = self._writer()
        durable = any(asked.durable for asked in together)
        self._durability.before(durable)
        for hearer in self.listeners:
            hearer.on_begin()
        outcomes: list[Any] = []
        with connection.begin():
            self._durability.within(durable)
            for asked in together:
                try:
                    outcomes.append(asked.work(connection))
                except StoreRefusal as refused:
                    outcomes.append(refused)
        for hearer in self.listeners:
            hearer.committed()
        return outcomes

    def _writer(self) -> Connection:
        if self._connection is None:
            assert self.engine is not None
            connection = self.engine.connect().execution_options(**{WRITES: True})
            self._connection = connection
            if not exclude_others(connection):
                raise StoreFailed("Another server has this database open: stop it first.")
            self._check_unchanged(connection)
            self._durability = Durability(connection)
        return self._connection

    def _check_unchanged(self, connection: Connection) -> None:
        """Refuse a database that another server opened while this one had lost its connection."""
        if self._opened is None:
            return
        with connection.begin():
            mark = mark_of_database(connection)
        if mark is None or (mark.id, mark.opened) != (self._opened.id, self._opened.opened):
            raise StoreFailed("Another server has opened this database meanwhile: start this one again.")

    def _drop_connection(self) -> None:
        """Drop a connection on which something failed."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:
                pass  # the connection is broken and replaced


def own(home: Path | None, address: URL) -> list[IO[bytes]]:
    """Make sure that only this process has this home and this database open.

    Record locks, not `flock`: processes that are forked don't inherit them.

    Raises:
        StoreFailed: another process has one of them open.
    """
    locks = [] if home is None else [home / "weir.lock"]
    if address.get_backend_name() == "sqlite" and address.database:
        database = Path(address.database).absolute()
        # A database elsewhere may be shared by several homes
        if home is None or database != (home / "weir.db").absolute():
            locks.append(database.with_name(f"{database.name}.lock"))
    files: list[IO[bytes]] = []
    for path in locks:
        file = path.open("ab")
        files.append(file)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for lock_file in files:
                lock_file.close()
            raise StoreFailed(
                f"Another server has the database in {path.parent} open: stop it first."
            ) from None
    return files
