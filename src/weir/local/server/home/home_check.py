"""Check of a home before a server uses it: owners, modes and types of Weir's own files.

Another user with write access to the home, or to a file in it, could give the server another database. Its
token of the administrator would let them run commands as the server's user.
"""

import os
import stat
from pathlib import Path

from structlog import get_logger

from weir.user_names import user_name

_DIRECTORIES = ("pods", "jobs", "checkpoints", "secrets", "series")
_OF_ROOT = frozenset({"jobs", "checkpoints"})
"""Directories of an installed pool that the node process prepares."""
_FILES = ("weir.db", "weir.db-wal", "weir.db-shm", "weir.lock", "pool.lock", "pool.json", "token")
_REPLACED_IF_STRANGE = frozenset({"token"})
_LINK_ALLOWED = frozenset({"weir.db"})
"""The database may lie on another disk."""
_OTHERS_WRITE, _OTHERS = 0o022, 0o077
_LOG = get_logger(__name__)


class HomeRefused(Exception):
    """The home isn't safe to use; the text names the file and the remedy."""


def check_home(home: Path, *, installed: bool) -> None:
    """Check a home that exists, and take the rights of others away from its files.

    `installed`: the node process, which is root, has prepared the home and the directories of users.

    Raises:
        HomeRefused: something in it could be another user's, or isn't of the right type.
        OSError: it can't be read.
    """
    if not installed:
        _check_directory(home, home)
    for name in _DIRECTORIES:
        if not (installed and name in _OF_ROOT):
            _check_directory(home / name, home)
    for name in _FILES:
        _check_file(home / name, name)


def _check_directory(path: Path, home: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise HomeRefused(f"{path} is a link to a directory that doesn't exist") from None
        return
    if not stat.S_ISDIR(status.st_mode):
        raise HomeRefused(f"{path} isn't a directory: move it away")
    _check_owner(path, status, home=path == home)
    if status.st_mode & _OTHERS_WRITE:
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        raise HomeRefused(
            f"other users can write to {path} (mode {mode}), and so run commands as "
            f"{user_name(os.geteuid())}: chmod go-w {path}"
        )


def _check_file(path: Path, name: str) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    _check_owner(path, status)
    if stat.S_ISLNK(status.st_mode) and name in _LINK_ALLOWED:
        try:
            status = path.stat()
        except FileNotFoundError:
            raise HomeRefused(
                f"{path} is a link to a file that doesn't exist: mount its disk, or remove the link"
            ) from None
        _check_owner(path.resolve(), status)
    if not stat.S_ISREG(status.st_mode):
        if name in _REPLACED_IF_STRANGE:
            return
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        raise HomeRefused(f"{path} is {kind}: move it away")
    if status.st_mode & _OTHERS or not status.st_mode & stat.S_IWUSR:
        path.chmod(0o600)
        _LOG.warning("file_made_private", file=str(path), mode=f"{stat.S_IMODE(status.st_mode):o}")


def _check_owner(path: Path, status: os.stat_result, *, home: bool = False) -> None:
    """Refuse a file of another user."""
    if status.st_uid == os.geteuid():
        return
    own = user_name(os.geteuid())
    elsewhere = ", or name another home with WEIR_HOME" if home else ""
    owner = user_name(status.st_uid)
    raise HomeRefused(f"{path} belongs to {owner} and not to {own}: chown {own} {path}{elsewhere}")
