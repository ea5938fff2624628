"""Backups of a pool by root: its home is read and written with the rights of its owner alone.

The server of an installed pool may make files in its home. Root would write through a link there, and the
server couldn't use the files that root makes. So a child process with the rights of the server's account does
the work. Files of the administrator are opened by root, and pass as open files.
"""

import json
import os
import pwd
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.store.database import backup as files
from weir.store.database.backup import BackupContents
from weir.store.errors import StoreFailed

_OF_THE_SERVER = ("pool.json", "weir.db", "weir.lock", "token")
"""Files that the server of a home makes, the surest first."""
_MESSAGE_BYTES_MAX = 1 << 16
Answer = tuple[dict[str, Any], list[int]]
"""Answer of a child: values, and open files."""


def owner_of(home: Path) -> pwd.struct_passwd | None:
    """Return the account of the server of a home if this process is root and the account isn't.

    Raises:
        StoreFailed: the account doesn't exist any more.
    """
    if os.geteuid() != 0:
        return None
    for name in _OF_THE_SERVER:
        with suppress(FileNotFoundError, NotADirectoryError):
            uid = os.lstat(home / name).st_uid
            if uid != 0:
                return _account(uid, home)
    with suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(home)
        if status.st_uid != 0:
            return _account(status.st_uid, home)
        if status.st_gid != 0 and status.st_mode & stat.S_ISVTX:  # of an installed pool that never ran
            accounts = [
                account
                for account in pwd.getpwall()
                if account.pw_gid == status.st_gid and account.pw_uid != 0
            ]
            return accounts[0] if len(accounts) == 1 else None
    return None


def _account(uid: int, home: Path) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise StoreFailed(
            f"The files of {home} belong to user id {uid}, which has no account: give them to the pool's."
        ) from None


def backup_as(owner: pwd.struct_passwd, home: Path, url: str | None, file: Path) -> BackupContents:
    """Write a backup, as `weir.store.database.backup` does, with the rights of the owner of the home.

    Raises:
        StoreFailed: it can't be written.
    """
    if file.exists():
        raise StoreFailed(f"{file} is there already: name another file, or delete that one.")

    def work() -> Answer:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=home) as private:
            copy = Path(private, file.name)
            contents = files.backup(home, url, copy)
            return asdict(contents), [os.open(copy, os.O_RDONLY | os.O_CLOEXEC)]

    values, (copy,) = _with_rights_of(owner, work)
    try:
        _write_new(copy, file)
    except FileExistsError:
        raise StoreFailed(f"{file} is there already: name another file, or delete that one.") from None
    except OSError as error:
        raise StoreFailed(f"{file} can't be written: {error.strerror}.") from error
    finally:
        os.close(copy)
    return BackupContents(**values)


def restore_as(
    owner: pwd.struct_passwd, home: Path, url: str | None, file: Path, done: Callable[[BackupContents], None]
) -> tuple[BackupContents, Path | None]:
    """Restore a backup, as `weir.store.database.backup` does, with the rights of the owner of the home.

    `done` is called with these rights.

    Raises:
        StoreFailed: it can't be restored; nothing is changed.
    """
    if not file.is_file():
        raise StoreFailed(f"There is no file {file}: name one that `weir backup` has written.")
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise StoreFailed(f"{file} can't be read: {error.strerror}.") from None

    def work() -> Answer:
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=home) as private:
            copy = Path(private, file.name)
            with os.fdopen(opened, "rb") as source, copy.open("xb") as target:
                shutil.copyfileobj(source, target)
            try:
                contents, replaced = files.restore(home, url, copy)
            except StoreFailed as error:
                raise StoreFailed(str(error).replace(str(copy), str(file))) from None
        done(contents)
        return {"contents": asdict(contents), "replaced": None if replaced is None else str(replaced)}, []

    try:
        values, _ = _with_rights_of(owner, work)
    finally:
        os.close(opened)
    replaced = values["replaced"]
    return BackupContents(**values["contents"]), None if replaced is None else Path(replaced)


def _write_new(copy: int, file: Path) -> None:
    """Write the content of an open file to a new one, whole or not at all."""
    beside = file.with_name(f"{file.name}.new")
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with (
            os.fdopen(os.open(beside, flags, 0o600), "wb") as target,
            os.fdopen(os.dup(copy), "rb") as source,
        ):
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        os.link(beside, file)  # unlike a rename, this replaces nothing
    finally:
        beside.unlink(missing_ok=True)


def _with_rights_of(owner: pwd.struct_passwd, work: Callable[[], Answer]) -> Answer:
    """Do work in a child process with the rights of an account alone, and return its answer.

    Raises:
        StoreFailed: the work has failed.
    """
    own_end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own_end.close()
            _become(owner)
            values, opened = _answer(work)
            socket.send_fds(theirs, [json.dumps(values).encode()], opened)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    try:
        message, opened, _, _ = socket.recv_fds(own_end, _MESSAGE_BYTES_MAX, 1)
    finally:
        own_end.close()
        os.waitpid(child, 0)
    values = json.loads(message) if message else {"error": f"It can't be done as {owner.pw_name}."}
    if "error" in values:
        raise StoreFailed(values["error"])
    return values, list(opened)


def _answer(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except StoreFailed as error:
        return {"error": str(error)}, []
    except OSError as error:
        return {"error": f"{error.filename or 'A file'} can't be used: {error.strerror}."}, []


def _become(owner: pwd.struct_passwd) -> None:
    os.setgroups([])
    os.setresgid(owner.pw_gid, owner.pw_gid, owner.pw_gid)
    os.setresuid(owner.pw_uid, owner.pw_uid, owner.pw_uid)
    os.umask(0o077)
