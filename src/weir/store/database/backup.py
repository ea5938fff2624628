"""Backups of a pool's SQLite database: one consistent file, made with or without a running server.

A copy of `weir.db` alone misses the content of `weir.db-wal` beside it; SQLite's own backup doesn't.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from sqlalchemy import URL

from weir.store.database.database import own
from weir.store.database.dialects import address_of
from weir.store.database.identity import PoolIdentity, mark_home, mark_of_home, numbered
from weir.store.database.schema import FIRST, HEAD, made_by
from weir.store.errors import StoreFailed

_PARTS = ("", "-wal", "-shm")
"""Suffixes of the files that make up a database in use."""
_COPIES_MAX = 5
"""Tries to copy files that may change meanwhile."""
_POSTGRES = (
    "The database is PostgreSQL, which has its own tools: `pg_dump --format=custom` makes a backup, "
    "`pg_restore --clean` brings it back while the server is stopped."
)


@dataclass(frozen=True, slots=True)
class BackupContents:
    """Contents of a backup, in numbers."""

    id: str
    opened: int
    workloads: int
    live: int
    tokens: int


def backup(home: Path, url: str | None, file: Path) -> BackupContents:
    """Write a backup of a pool's database to a new file, readable by its owner only.

    Raises:
        StoreFailed: there is no database, it can't be read, or the file exists already.
    """
    source = _file_of(address_of(url, home))
    if not source.is_file():
        raise StoreFailed(f"There is no database at {source}: name the pool's home with WEIR_HOME.")
    if file.exists():
        raise StoreFailed(f"{file} is there already: name another file, or delete that one.")
    beside = file.with_name(f"{file.name}.new")
    try:
        with _copying(source, beside):
            contents = inspect(beside)
        os.link(beside, file)  # unlike a rename, this replaces nothing
    except FileExistsError:
        raise StoreFailed(f"{file} is there already: name another file, or delete that one.") from None
    except (OSError, sqlite3.Error) as error:
        raise _failed(f"{source} can't be backed up to {file}", error) from error
    finally:
        for part in _PARTS:
            with suppress(OSError):
                beside.with_name(beside.name + part).unlink()
    return contents


def restore(home: Path, url: str | None, file: Path) -> tuple[BackupContents, Path | None]:
    """Replace a pool's database by a backup; the old database is kept beside it.

    Numbers of workloads go on above the highest directory of the home. The second value is the file that
    was replaced.

    Raises:
        StoreFailed: a server runs, the file is no sound backup, or it is a backup of another pool.
    """
    address = address_of(url, home)
    target = _file_of(address)
    if not file.is_file():
        raise StoreFailed(f"There is no file {file}: name one that `weir backup` has written.")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = own(home, address)
    try:
        return _restore(home, target, file)
    except (OSError, sqlite3.Error) as error:
        raise _failed(f"{file} can't be restored", error) from error
    finally:
        for lock_file in files:
            lock_file.close()


def _restore(home: Path, target: Path, file: Path) -> tuple[BackupContents, Path | None]:
    homes = _mark(home)
    beside = target.with_name(f"{target.name}.new")
    with _copying(file, beside):
        contents = inspect(beside)
        if homes is not None and homes.opened and homes.id != contents.id:
            raise StoreFailed(
                f"{file} is a backup of pool {contents.id[:8]}, {home} is the home of pool {homes.id[:8]}: "
                "name the home of that pool, or an empty directory, with WEIR_HOME."
            )
        opened = max(contents.opened, homes.opened if homes is not None else 0)
        _go_on(beside, opened, numbered(home).highest)
    replaced = _put_aside(target)
    mark_home(home, PoolIdentity(contents.id, opened))
    beside.rename(target)
    return contents, replaced


def _mark(home: Path) -> PoolIdentity | None:
    """Return the identity of a home; None if it can't be read, since a restore writes it again."""
    try:
        return mark_of_home(home)
    except StoreFailed:
        return None


def inspect(file: Path) -> BackupContents:
    """Check a backup completely, and return its contents.

    Raises:
        StoreFailed: the file is no backup, is damaged, or has a version that this one can't use.
    """
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        try:
            damage = connection.execute("PRAGMA integrity_check").fetchall()
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        except sqlite3.DatabaseError as error:
            raise StoreFailed(f"It is not a valid database: {error}.") from None
        if damage != [("ok",)]:
            raise StoreFailed(f"It is damaged: {str(damage[0][0])[:200]}.")
        if not {"alembic_version", "pool", "workloads", "tokens"} <= tables:
            raise StoreFailed("It is not a backup of a pool: name a file that `weir backup` has written.")
        version = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        if version is None:
            raise StoreFailed("It carries no version: name a file that `weir backup` has written.")
        if not FIRST <= version[0] <= HEAD:
            raise StoreFailed(f"It {made_by(version[0])}: use that version.")
        mark = connection.execute("SELECT id, opened FROM pool").fetchone()
        if mark is None:
            raise StoreFailed("It carries no pool's id: name a file that `weir backup` has written.")
        counts = (
            "SELECT count(*) FROM workloads",
            "SELECT count(*) FROM workloads WHERE state = 'live'",
            "SELECT count(*) FROM tokens",
        )
        return BackupContents(
            mark[0], mark[1], *(connection.execute(query).fetchone()[0] for query in counts)
        )


@contextmanager
def _copying(source: Path, beside: Path) -> Iterator[None]:
    """Create a private, consistent copy of a database; delete it after a failure."""
    for part in _PARTS:
        beside.with_name(beside.name + part).unlink(missing_ok=True)
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        is_read_only = bool(os.statvfs(source).f_flag & os.ST_RDONLY)
        if is_read_only:
            _copy_files(source, beside)
        with closing(sqlite3.connect(beside)) as written:
            if not is_read_only:
                with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as read:
                    read.backup(written)
            written.execute("PRAGMA journal_mode = DELETE")  # a single file, without a WAL file beside it
        _sync(beside)
        yield
        _sync(beside)
    except BaseException:
        for part in _PARTS:
            with suppress(OSError):
                beside.with_name(beside.name + part).unlink()
        raise


def _copy_files(source: Path, beside: Path) -> None:
    """Copy a database with its WAL file from a read-only disk: SQLite opens none there.

    Another mount of the same disk may be writable, so a server may change the files meanwhile.

    Raises:
        StoreFailed: the files changed at each try.
    """
    for _ in range(_COPIES_MAX):
        before = _versions(source)
        for part in _PARTS[:2]:
            with suppress(FileNotFoundError):
                shutil.copyfile(source.with_name(source.name + part), beside.with_name(beside.name + part))
        if _versions(source) == before:
            return
        beside.with_name(beside.name + "-wal").unlink(missing_ok=True)
    raise StoreFailed(
        f"{source} is on a read-only mount, and a server changes it: back it up where that server runs."
    )


def _versions(source: Path) -> list[tuple[int, int, int] | None]:
    """Return the inode, size and time of change of a database and of its WAL file; None for a missing one."""
    versions: list[tuple[int, int, int] | None] = []
    for part in _PARTS[:2]:
        try:
            status = source.with_name(source.name + part).stat()
        except FileNotFoundError:
            versions.append(None)
        else:
            versions.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return versions


def _go_on(file: Path, opened: int, highest: int) -> None:
    """Raise the copy's count of openings to the home's, and its next number above all used ones."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE pool SET opened = ?, has_leftovers = 1", (opened,))
        changed = connection.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'workloads'", (highest,)
        )
        if not changed.rowcount:
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('workloads', ?)", (highest,))


def _put_aside(target: Path) -> Path | None:
    """Keep the replaced database with all its files, beside those of earlier restores.

    The answer is None if there was none.
    """
    if not target.exists():
        for part in _PARTS[1:]:  # left by a deleted database, and would be applied to the new one
            target.with_name(target.name + part).unlink(missing_ok=True)
        return None
    names = (f"{target.name}.replaced{f'-{number}' if number > 1 else ''}" for number in count(1))
    replaced = next(path for path in map(target.with_name, names) if not os.path.lexists(path))
    for part in _PARTS:  # left by a deleted one
        replaced.with_name(replaced.name + part).unlink(missing_ok=True)
    for part in reversed(_PARTS):  # the database last: with it, the replaced one is whole
        with suppress(FileNotFoundError):
            os.link(target.with_name(target.name + part), replaced.with_name(replaced.name + part))
    for part in _PARTS:  # the database first: without it, no server starts meanwhile
        target.with_name(target.name + part).unlink(missing_ok=True)
    return replaced


def _file_of(address: URL) -> Path:
    if address.get_backend_name() == "postgresql":
        raise StoreFailed(_POSTGRES)
    if address.get_backend_name() != "sqlite" or not address.database:
        raise StoreFailed("Only the SQLite database of a home is backed up here: leave the address out.")
    return Path(address.database)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(problem: str, error: Exception) -> StoreFailed:
    if isinstance(error, StoreFailed):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StoreFailed(f"{problem}: {reason}.")
