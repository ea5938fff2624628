"""Directories of users below the pool's home: made for their owner, and deleted as their owner.

Their parents belong to root, so neither a user nor the server can put a link in their place.
"""

import os
import stat
from contextlib import suppress
from typing import NamedTuple

from weir.local.files.tree_removal import empty
from weir.local.node.accounts import Account, AccountRules, become
from weir.local.node.forked import fork

OWN, CHECKPOINTS = "jobs", "checkpoints"
_PARENT_MODE = 0o751
_HOME_MODE = 0o1771
_MODE = 0o2750
"""Mode of a user's directory: its files get the group of the server, which reads logs and messages."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryRefused(Exception):
    """A directory doesn't belong to the user; the text names it."""


class UserDirectories(NamedTuple):
    """The open parents of users' directories, and the group that reads them."""

    jobs: int
    checkpoints: int
    server_gid: int


def prepare_home(home: str, server_gid: int) -> UserDirectories:
    """Make the home of a shared pool, and open the parents of users' directories in it.

    The server's group may make files in the home. It belongs to root and is sticky, so that the server
    can't put anything in the place of a directory of root's.

    Raises:
        DirectoryRefused: something else has the name of one of them.
        OSError: a directory can't be made.
    """
    os.makedirs(home, _PARENT_MODE, exist_ok=True)
    place = os.open(home, _OPEN)
    try:
        os.fchown(place, 0, server_gid)
        os.fchmod(place, _HOME_MODE)
        jobs, checkpoints = (_open_parent(place, name, server_gid) for name in (OWN, CHECKPOINTS))
        return UserDirectories(jobs, checkpoints, server_gid)
    finally:
        os.close(place)


def _open_parent(home: int, name: str, server_gid: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, _PARENT_MODE, dir_fd=home)
    parent = os.open(name, _OPEN, dir_fd=home)
    if os.fstat(parent).st_uid != 0:
        os.close(parent)
        raise DirectoryRefused(f"the directory {name} of the home doesn't belong to root: move it away")
    os.fchown(parent, 0, server_gid)  # the server has to list it
    os.fchmod(parent, _PARENT_MODE)  # regardless of the umask
    return parent


def make_for(places: UserDirectories, name: str, account: Account) -> None:
    """Make a job's own directory and the checkpoint directory of its workload, for a user.

    `name` is UID/START-GROUP-INDEX.

    Raises:
        DirectoryRefused: a directory exists and belongs to another user.
        OSError: a directory can't be made.
    """
    uid, _, start = name.partition("/")
    above = _open_parent(places.jobs, uid, places.server_gid)
    try:
        _make(above, start, account, places.server_gid)
    finally:
        os.close(above)
    _make(places.checkpoints, uid, account, places.server_gid)


def _make(above: int, name: str, account: Account, server_gid: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=above)
        new = True
    except FileExistsError:
        new = False
    made = os.open(name, _OPEN, dir_fd=above)
    try:
        owner = os.fstat(made).st_uid
        if new or owner == 0:  # owner 0: a process was killed between creation and chown
            os.fchown(made, account.uid, server_gid)
            os.fchmod(made, _MODE)
        elif owner != account.uid:
            raise DirectoryRefused(f"the directory {name} belongs to another user ({owner})")
    finally:
        os.close(made)


def remove(places: UserDirectories, uid: int, rules: AccountRules, *, checkpoints: bool) -> None:
    """Delete the directories of a workload's jobs or its checkpoints, in a process of their owner.

    A directory that its owner fills again meanwhile stays.
    """
    with suppress(OSError):
        if checkpoints:
            _remove_from(places.checkpoints, str(uid), rules)
            return
        above = os.open(str(uid), _OPEN, dir_fd=places.jobs)
        try:
            for name in os.listdir(above):
                _remove_from(above, name, rules)
        finally:
            os.close(above)
        os.rmdir(str(uid), dir_fd=places.jobs)


def _remove_from(above: int, name: str, rules: AccountRules) -> None:
    with suppress(OSError):
        _empty(above, name, rules)
        os.rmdir(name, dir_fd=above)


def _empty(above: int, name: str, rules: AccountRules) -> None:
    """Delete the content of a directory, with the rights of its owner alone."""
    directory = os.open(name, _OPEN, dir_fd=above)
    status = os.fstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid < rules.uid_min:
        os.close(directory)
        return
    child = fork(lambda: _empty_as_owner(directory, status.st_uid, rules))
    os.close(directory)
    os.waitpid(child, 0)


def _empty_as_owner(directory: int, owner: int, rules: AccountRules) -> None:
    become(Account("the owner", owner, owner, ()), rules)
    empty(directory)
