"""What SQLite and PostgreSQL say differently. The one module that knows either of them."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, func, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from weir.store.failures import StoreFailed

READERS_MOST = 8
BUSY_MS_MOST = 10_000
WAL_BYTES_KEPT = 64 << 20
WRITES = "weir_writes"
"""Execution option of the writer's connection."""

_FULL = {sqlite3.SQLITE_FULL}
_BROKEN = "The database can't be used: {}."
_DISK_FULL = "The disk that holds the database is full: nothing was changed. Free some room and ask again."


def open_engine(url: str | None, home: Path) -> Engine:
    """The engine for a URL, or for SQLite in the home directory."""
    if url is None:
        file = home / "weir.db"
        file.touch(mode=0o600)
        address = URL.create("sqlite", database=str(file))
    else:
        address = make_url(url)
    if address.get_backend_name() == "postgresql":
        try:
            return create_engine(address, pool_size=READERS_MOST, pool_pre_ping=True)
        except ModuleNotFoundError:
            raise StoreFailed("PostgreSQL needs its driver: pip install 'psycopg[binary]'.") from None
    if address.get_backend_name() != "sqlite":
        known = "sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
        raise StoreFailed(f"{address.get_backend_name()} isn't a database Weir knows: write {known}.")
    engine = create_engine(address, pool_size=READERS_MOST, max_overflow=READERS_MOST)
    event.listen(engine, "connect", _sqlite_connected)
    event.listen(engine, "begin", _sqlite_begins)
    return engine


def _sqlite_connected(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        f"busy_timeout = {BUSY_MS_MOST}",
        f"journal_size_limit = {WAL_BYTES_KEPT}",
        "temp_store = MEMORY",
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
        """Call it before the transaction begins: SQLite can't change this in one."""
        if self._is_sqlite and durable != self._waits:
            raw = self._connection.connection.driver_connection
            assert raw is not None
            raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}").close()
            self._waits = durable

    def within(self, durable: bool) -> None:
        """Call it in the transaction: PostgreSQL knows it by transaction."""
        if not self._is_sqlite and not durable:
            self._connection.exec_driver_sql("SET LOCAL synchronous_commit TO OFF")


def add_up(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    most: Sequence[str] = (),
) -> None:
    """Insert rows; where there is one of the same key, add to it, or keep the larger of columns in `most`."""
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


def put(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row, or set that of the same key."""
    insert: Any = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table).values(row)
    keys = [column.name for column in table.primary_key]
    rest = {name: insert.excluded[name] for name in row if name not in keys}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=rest))


def failure(error: Exception) -> StoreFailed:
    """What a database's own complaint means for those who asked."""
    if isinstance(error, StoreFailed):
        return error
    said = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = getattr(said, "sqlite_errorcode", None)
    full = (code is not None and code & 0xFF in _FULL) or getattr(said, "sqlstate", None) == "53100"
    if full:
        return StoreFailed(_DISK_FULL, is_full=True)
    return StoreFailed(_BROKEN.format(str(said).strip().rstrip(".") or type(said).__name__))
