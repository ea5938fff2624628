"""Differences between SQLite and PostgreSQL, in this module only."""

import errno
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, func, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError

from weir.store.errors import StoreFailed

READERS_MAX = 8
BUSY_MS_MAX = 10_000
WAL_BYTES_KEPT = 64 << 20
WRITES = "weir_writes"
"""Execution option of the writer's connection."""

POSTGRES_LOCK = 0x57656972
"""First key of the advisory lock of a pool's server; the second is the hash of the schema's name."""
LOCK_WAIT_S, LOCK_PAUSE_S = 2.0, 0.1
_POSTGRES_SESSION = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_POSTGRES_KEEPALIVES = ("tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")
"""A lost connection is noticed by both ends within half a minute, and its lock is free again."""

_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""Codes of a full disk; the second one if the index of the journal finds no space."""
_DRIVER, _PLAIN = "postgresql+psycopg", ("postgresql", "postgres")
_NEAR = ("localhost", "127.0.0.1", "::1")
_KNOWN = "sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
_BROKEN = "The database can't be used: {}."
_DISK_FULL = "The disk that holds the database is full. Free some space and try again."


def address_of(url: str | None, home: Path | None) -> URL:
    """Return the address a URL means, or that of the SQLite file in the home directory.

    Raises:
        StoreFailed: the URL can't be read; the sentence doesn't repeat it, since it may hold a password.
    """
    if url is None:
        assert home is not None, "a history without a home has a URL"
        return URL.create("sqlite", database=str(home / "weir.db"))
    try:
        address = make_url(url)
    except ArgumentError:
        raise StoreFailed(f"The database's address isn't a URL: write {_KNOWN}.") from None
    return address.set(drivername=_DRIVER) if address.drivername in _PLAIN else address


def encrypted(address: URL) -> URL:
    """Return a database address that requires TLS, unless it has a TLS setting or names this machine."""
    is_near = address.host is None or address.host.startswith("/") or address.host in _NEAR
    if address.get_backend_name() != "postgresql" or is_near or "sslmode" in address.query:
        return address
    return address.update_query_dict({"sslmode": "require"})


def open_engine(address: URL) -> Engine:
    """Return the engine for an address."""
    if address.get_backend_name() == "postgresql":
        try:
            engine = create_engine(
                address, pool_size=READERS_MAX, pool_pre_ping=True, connect_args=_POSTGRES_SESSION
            )
        except ModuleNotFoundError:
            raise StoreFailed("PostgreSQL needs its driver: pip install 'weir[postgres]'.") from None
        event.listen(engine, "connect", _postgres_connected)
        return engine
    if address.get_backend_name() != "sqlite":
        raise StoreFailed(f"{address.get_backend_name()} isn't a database Weir knows: write {_KNOWN}.")
    if address.database:
        Path(address.database).touch(mode=0o600)
    engine = create_engine(address, pool_size=READERS_MAX, max_overflow=READERS_MAX)
    event.listen(engine, "connect", _sqlite_connected)
    event.listen(engine, "begin", _sqlite_begins)
    return engine


def limit_statements(engine: Engine, seconds: float) -> None:
    """Have PostgreSQL end statements that take longer. SQLite has no such limit."""

    def connected(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = {int(seconds * 1000)}")
        connection.commit()

    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", connected)


def _postgres_connected(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        for setting in _POSTGRES_KEEPALIVES:
            cursor.execute(f"SET {setting}")
    connection.commit()


def _sqlite_connected(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun explicitly
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        f"busy_timeout = {BUSY_MS_MAX}",
        f"journal_size_limit = {WAL_BYTES_KEPT}",
        "temp_store = MEMORY",
        "secure_delete = ON",  # deleted commands and environments leave no bytes in the file
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _sqlite_begins(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class Durability:
    """Says how long the commits of the writer's connection wait for the disk."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_sqlite = connection.dialect.name == "sqlite"
        self._waits = True

    def before(self, durable: bool) -> None:
        """Set the durability of the next transaction on SQLite, which can't change it inside of one."""
        if self._is_sqlite and durable != self._waits:
            raw = self._connection.connection.driver_connection
            assert raw is not None
            raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}").close()
            self._waits = durable

    def within(self, durable: bool) -> None:
        """Set the durability of the current transaction on PostgreSQL."""
        if not self._is_sqlite and not durable:
            self._connection.exec_driver_sql("SET LOCAL synchronous_commit TO OFF")


def exclude_others(connection: Connection) -> bool:
    """Take the lock that one server at a time holds on a PostgreSQL database; False if another one has it.

    The lock belongs to this connection's session, so commits happen under the lock. The session of a server
    that has just ended lasts for a moment more, which isn't refused.
    """
    if connection.dialect.name != "postgresql":
        return True
    ask = text("SELECT pg_try_advisory_lock(:key, hashtext(current_schema()))")
    end_s = monotonic() + LOCK_WAIT_S
    while True:
        with connection.begin():
            if connection.execute(ask, {"key": POSTGRES_LOCK}).scalar():
                return True
        if monotonic() > end_s:
            return False
        sleep(LOCK_PAUSE_S)


def highest_number(connection: Connection) -> int:
    """Return the highest workload number this database has ever given; 0 if none."""
    if connection.dialect.name == "sqlite":
        given = text("SELECT seq FROM sqlite_sequence WHERE name = 'workloads'")
        return int(connection.execute(given).scalar() or 0)
    last, is_called = connection.execute(text("SELECT last_value, is_called FROM workloads_uid_seq")).one()
    return int(last) if is_called else 0


def raise_numbers(connection: Connection, highest: int) -> None:
    """Raise the next workload numbers above this one."""
    if highest <= highest_number(connection):
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT setval('workloads_uid_seq', :highest)"), {"highest": highest})
        return
    changed = connection.execute(
        text("UPDATE sqlite_sequence SET seq = :highest WHERE name = 'workloads'"), {"highest": highest}
    )
    if not changed.rowcount:
        connection.execute(
            text("INSERT INTO sqlite_sequence (name, seq) VALUES ('workloads', :highest)"),
            {"highest": highest},
        )


def add_up(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    most: Sequence[str] = (),
) -> None:
    """Insert rows; add to existing rows of the same key, or keep the larger of columns in `most`."""
    if not rows:
        return
    is_sqlite = connection.dialect.name == "sqlite"
    insert: Any = sqlite.insert(table) if is_sqlite else postgresql.insert(table)
    larger = func.max if is_sqlite else func.greatest
    keys = [column.name for column in table.primary_key]
    values = {
        column.name: larger(column, insert.excluded[column.name])
        if column.name in most
        else column + insert.excluded[column.name]
        for column in table.columns
        if column.name not in keys
    }
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=values), list(rows))


def storable(text: str) -> str:
    """Return a text that both databases take: PostgreSQL has no NUL in a text."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def storable_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose texts both databases take."""
    return {name: storable(value) if isinstance(value, str) else value for name, value in row.items()}


def put(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row, or set that of the same key."""
    put_all(connection, table, [row])


def put_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of the same columns, or set those of the same keys."""
    if not rows:
        return
    insert: Any = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)
    keys = [column.name for column in table.primary_key]
    rest = {name: insert.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=rest), list(rows))


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; leave existing rows of the same key as they are."""
    if rows:
        insert: Any = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)
        connection.execute(insert.on_conflict_do_nothing(), list(rows))


def failure(error: Exception) -> StoreFailed:
    """Translate an error of the database for callers."""
    if isinstance(error, StoreFailed):
        return error
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = getattr(cause, "sqlite_errorcode", None)
    full = code in _FULL or getattr(cause, "sqlstate", None) == "53100"
    if full or getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return StoreFailed(_DISK_FULL, is_full=True)
    text = " ".join(str(cause).split())
    if isinstance(cause, OSError) and cause.strerror:
        text = f"{cause.filename}: {cause.strerror}" if isinstance(cause.filename, str) else cause.strerror
    return StoreFailed(_BROKEN.format(text.rstrip("?.") or type(cause).__name__))
