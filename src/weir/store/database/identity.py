"""Identity of a pool: its home and its database carry the same random id, or the server refuses to start.

Directories of the home are named by the numbers of the database's workloads. A home with another database
would give one workload the output and checkpoints of another, and allocate its devices twice. Both sides
count openings, which reveals an older copy of the database.
"""

import json
import os
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, update

from weir.store.database.dialects import highest_number, raise_numbers
from weir.store.errors import StoreFailed
from weir.store.tables import pool, queues

FILE = "pool.json"
NUMBERED = ("pods", "checkpoints")
"""Directories of the home in which each workload's is named by its number."""
_BYTES_MAX = 1 << 16
_DIGITS_MAX = 15
"""Limit of digits of a number: no database gives longer ones, and numbers above them would soon run out."""
_WAY_OUT = (
    "bring the right one back with `weir restore FILE`, or begin a new pool over both with "
    "`weir up --begin-again`"
)

_OF_A_POOL = "The database is that of a machine's pool: name a database of its own for the cluster."


@dataclass(frozen=True, slots=True)
class PoolIdentity:
    """Identity as one of the two carries it. `opened` counts openings; 0 while the pool is being made.

    `has_leftovers`, of a pool that was opened: processes of workloads it doesn't know may still run.
    """

    id: str
    opened: int
    has_leftovers: bool = False


@dataclass(frozen=True, slots=True)
class NumberedDirectories:
    """Directories of a home that are named by workloads: how many, and the highest number with its path."""

    count: int
    highest: int
    path: Path


def numbered(home: Path) -> NumberedDirectories:
    """Return the numbered directories of a home: those that hold a directory for each workload."""
    pairs = [pair for directory in NUMBERED for pair in _numbers(home / directory)]
    highest, path = max(pairs, default=(0, home))
    return NumberedDirectories(len(pairs), highest, path)


def _numbers(directory: Path) -> list[tuple[int, Path]]:
    """Return the directories named by a number; links, other files and other names are of no workload."""
    try:
        with os.scandir(directory) as entries:
            return [
                (int(entry.name), Path(entry.path))
                for entry in entries
                if _is_number(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= _DIGITS_MAX


def mark_of_home(home: Path) -> PoolIdentity | None:
    """Return the identity a home carries; None if it carries none.

    Raises:
        StoreFailed: the identity file can't be read.
    """
    file = home / FILE
    try:
        written = json.loads(_content(file))
        return PoolIdentity(str(written["id"]), int(written["opened"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, OverflowError):
        raise StoreFailed(f"{file} can't be read, so the pool of this home is unknown: {_WAY_OUT}.") from None


def _content(file: Path) -> bytes:
    """Return the content of a small file; nothing of a FIFO, which is opened without waiting."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(_BYTES_MAX)


def mark_home(home: Path, mark: PoolIdentity) -> None:
    """Write the identity into a home, whole or not at all."""
    file, beside = home / FILE, home / f"{FILE}.new"
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC  # through no link
    descriptor = os.open(beside, flags, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        written.write(json.dumps({"id": mark.id, "opened": mark.opened}) + "\n")
        written.flush()
        os.fsync(written.fileno())
    beside.replace(file)


def new_id() -> str:
    """Return a random id."""
    return secrets.token_hex(16)


def mark_of_database(connection: Connection) -> PoolIdentity | None:
    """Return the identity a database carries; None if it carries none."""
    row = connection.execute(select(pool.c.id, pool.c.opened)).first()
    return None if row is None else PoolIdentity(row.id, int(row.opened))


def open_pool(connection: Connection, home: Path, *, begin_again: bool) -> PoolIdentity:
    """Check that home and database belong together, and count this opening in both.

    With `begin_again`, a home and a database that don't belong together become one new pool. Its numbers of
    workloads begin above the highest directory of the home.

    Raises:
        StoreFailed: they don't belong together; the sentence names the way out.
    """
    in_home = numbered(home)
    with connection.begin():
        database_mark = mark_of_database(connection)
        highest = highest_number(connection)
        is_new = (
            database_mark is None
            and not highest
            and connection.execute(select(queues.c.name)).first() is None
        )
        try:
            homes = mark_of_home(home)
            refused = _mismatch(home, homes, database_mark, in_home, highest, is_new=is_new)
        except StoreFailed as unreadable:
            homes, refused = None, str(unreadable)
        if refused and not begin_again:
            raise StoreFailed(refused)
        mark = PoolIdentity(new_id(), 0) if refused else database_mark or homes or PoolIdentity(new_id(), 0)
        if homes is None and not refused and is_new:
            mark_home(home, mark)  # before the commit: if that fails, the next start continues here
        opened = PoolIdentity(mark.id, mark.opened + 1)
        has_leftovers = _write(connection, opened, database_mark, has_leftovers=bool(refused))
        if refused:
            raise_numbers(connection, in_home.highest)
    mark_home(home, opened)
    return replace(opened, has_leftovers=has_leftovers)


def identity_of_pool(connection: Connection, home: Path) -> PoolIdentity | None:
    """Return the identity that a home and its database share, without counting this opening.

    The answer is None if one of them carries none, or if they don't belong together.
    """
    with connection.begin():
        mark, homes = mark_of_database(connection), mark_of_home(home)
        if mark is None or homes is None:
            return None
        highest = highest_number(connection)
        if _mismatch(home, homes, mark, numbered(home), highest, is_new=False) is not None:
            return None
        return replace(mark, has_leftovers=bool(connection.execute(select(pool.c.has_leftovers)).scalar()))


def cluster_id(uid: str) -> str:
    """Return the identity of the history of a cluster, which has the uid of its first namespace."""
    return f"cluster-{uid}"


def open_cluster(connection: Connection, uid: str) -> PoolIdentity:
    """Check that a database is the history of this cluster, or is new, and count this opening.

    Raises:
        StoreFailed: the database belongs to a machine's pool, or to another cluster.
    """
    mark = cluster_id(uid)
    with connection.begin():
        database_mark = mark_of_database(connection)
        if database_mark is None and connection.execute(select(queues.c.name)).first() is not None:
            raise StoreFailed(_OF_A_POOL)
        check_cluster(database_mark, uid)
        opened = PoolIdentity(mark, (0 if database_mark is None else database_mark.opened) + 1)
        _write(connection, opened, database_mark, has_leftovers=False)
    return opened


def check_cluster(mark: PoolIdentity | None, uid: str) -> None:
    """Check that a database has this identity of a cluster's history.

    Raises:
        StoreFailed: the database has another identity.
    """
    if mark is None or mark.id == cluster_id(uid):
        return
    if mark.id.startswith(cluster_id("")):
        raise StoreFailed("The database has the history of another cluster: name a database of its own.")
    raise StoreFailed(_OF_A_POOL)


def _write(
    connection: Connection, mark: PoolIdentity, before: PoolIdentity | None, *, has_leftovers: bool
) -> bool:
    """Store the identity in the database; return True if it may have leftovers."""
    if before is not None and before.id == mark.id:
        connection.execute(update(pool).values(opened=mark.opened))
        return bool(connection.execute(select(pool.c.has_leftovers)).scalar())
    connection.execute(delete(pool))
    row = {"id": mark.id, "created_s": time.time(), "opened": mark.opened, "has_leftovers": has_leftovers}
    connection.execute(insert(pool), row)
    return has_leftovers


def _mismatch(  # noqa: PLR0911 - one for each way in which they differ
    home: Path,
    homes: PoolIdentity | None,
    mark: PoolIdentity | None,
    in_home: NumberedDirectories,
    highest: int,
    *,
    is_new: bool,
) -> str | None:
    """Return why home and database don't belong together; None if they do."""
    if is_new:
        if homes is not None and homes.opened:
            return f"{home} is the home of a pool, but its database is new and empty: {_WAY_OUT}."
        if in_home.count:
            return (
                f"{home} holds {in_home.count} directories of workloads, but its database is new and empty: "
                f"{_WAY_OUT}, whose numbers begin above {in_home.highest}."
            )
        return None
    if mark is not None and homes is None:
        return (
            f"The database is of another pool, {mark.id[:8]}, and {home} is not its home: name its home with "
            "WEIR_HOME, or make one pool of the two with `weir up --begin-again`."
        )
    if homes is not None and (mark is None or mark.id != homes.id):
        other = "an unknown pool" if mark is None else f"pool {mark.id[:8]}"
        return f"The database is of {other}, {home} is the home of pool {homes.id[:8]}: {_WAY_OUT}."
    if in_home.highest > highest:
        return (
            f"The database is an older copy, or weir.db-wal beside it is missing: its highest "
            f"workload number is {highest}, but {in_home.path} has a higher one: move that away if no pool "
            f"made it; else {_WAY_OUT}."
        )
    if homes is not None and mark is not None and mark.opened < homes.opened:
        return (
            f"The database is an older copy, opened {mark.opened} times where {home} was opened "
            f"{homes.opened} times: {_WAY_OUT}."
        )
    return None
