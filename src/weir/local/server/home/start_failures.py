"""Failures that end the start of the server, as sentences.

A full disk mustn't keep the server from starting: often a job fills it, and only the server can stop that
job. So a start on a full disk gets a part of the reserve. Without a reserve the server ends: it would decide
things that the next one doesn't know. Supervisors keep jobs running meanwhile.
"""

import os
from pathlib import Path

from weir.local.files.disk_reserve import is_full
from weir.local.server.http.listening import reason
from weir.model.resources import MEMORY, written
from weir.store.database.dialects import address_of
from weir.store.errors import StoreFailed

START_BYTES = 1 << 20
"""A start writes less than this: a page of the database, its journal's growth, and some small files."""


def start_failure(error: Exception, home: Path, database: str | None) -> str:
    """Return the sentence for people about a failure that ended the start."""
    if isinstance(error, OSError) and is_full(error):
        directory = home if not isinstance(error, StoreFailed) else _directory_of(database, home)
        if directory is not None:
            return f"Can't start: {full_disk(directory)}"
    if isinstance(error, OSError) and not isinstance(error, StoreFailed):
        problem = f"Can't keep state in {error.filename or home}: {reason(error)}"
        return f"{problem}. Name another home with WEIR_HOME."
    return f"Can't start: {str(error).rstrip('.')}."


def full_disk(directory: Path) -> str:
    """Return the sentence about a full file system: its mount point, and the space that a start lacks."""
    mount = _mount_point(directory)
    named = f"the file system at {mount}" + ("" if mount == directory else f", which holds {directory},")
    status = os.statvfs(mount)
    if status.f_files and not status.f_favail:
        return f"{named} has no inodes left: delete some files of it."
    free = status.f_bavail * status.f_frsize
    if free >= START_BYTES:
        return f"{named} takes no more data, perhaps because of a quota: free some space of it."
    missing = written(MEMORY, START_BYTES - free)
    return f"{named} is full: free {missing} or more. Running jobs continue meanwhile."


def _directory_of(database: str | None, home: Path) -> Path | None:
    """Return the directory of the database's file; None if it is on a database server."""
    address = address_of(database, home)
    if address.get_backend_name() != "sqlite" or not address.database:
        return None
    return Path(address.database).absolute().parent


def _mount_point(directory: Path) -> Path:
    """Return the mount point of the file system of a directory, or of the nearest one above that exists."""
    while not directory.exists():
        directory = directory.parent
    while not directory.is_mount():
        directory = directory.parent
    return directory
