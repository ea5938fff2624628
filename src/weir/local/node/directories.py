"""Directories of users below the pool's home: made for their owner, and deleted as their owner.

Their parents belong to root, so neither a user nor the server can put a link in their place.
"""

import os
import shutil
import stat
from contextlib import suppress

from weir.local.node.accounts import Account, AccountRules, become

OWN, CHECKPOINTS = "jobs", "checkpoints"
_PARENT_MODE = 0o711
_MODE = 0o2750
"""Mode of a user's directory: its files get the group of the server, which reads logs and messages."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryRefused(Exception):
    """A directory isn't the user's; the text says which."""


def make_for(home: int, name: str, account: Account, server_gid: int) -> None:
    """Make a job's own directory and the checkpoint directory of its workload, for a user.

    `home` is the open home; `name` is UID/START-GROUP-INDEX.

    Raises:
        DirectoryRefused: one exists and belongs to someone else.
        OSError: one can't be made.
    """
    uid, _, start = name.partition("/")
    with suppress(FileExistsError):
        os.mkdir(f"{OWN}/{uid}", _PARENT_MODE, dir_fd=home)
    above = os.open(f"{OWN}/{uid}", _OPEN, dir_fd=home)
    try:
        os.fchmod(above, _PARENT_MODE)  # whatever the umask is
        _make(above, start, account, server_gid)
    finally:
        os.close(above)
    checkpoints = os.open(CHECKPOINTS, _OPEN, dir_fd=home)
    try:
        _make(checkpoints, uid, account, server_gid)
    finally:
        os.close(checkpoints)


def _make(above: int, name: str, account: Account, server_gid: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=above)
        new = True
    except FileExistsError:
        new = False
    made = os.open(name, _OPEN, dir_fd=above)
    try:
        owner = os.fstat(made).st_uid
        if new or owner == 0:  # root's own: whoever made it was killed before it could give it away
            os.fchown(made, account.uid, server_gid)
            os.fchmod(made, _MODE)
        elif owner != account.uid:
            raise DirectoryRefused(f"the directory {name} belongs to another user ({owner})")
    finally:
        os.close(made)


def remove(home: int, uid: int, rules: AccountRules, *, checkpoints: bool) -> None:
    """Delete the directories of a workload's jobs or its checkpoints, in a process of their owner.

    A directory that its owner fills again meanwhile stays.
    """
    with suppress(OSError):
        above = os.open(CHECKPOINTS if checkpoints else f"{OWN}/{uid}", _OPEN, dir_fd=home)
        try:
            for name in [str(uid)] if checkpoints else os.listdir(above):
                _empty(above, name, rules)
                with suppress(OSError):
                    os.rmdir(name, dir_fd=above)
        finally:
            os.close(above)
        if not checkpoints:
            os.rmdir(f"{OWN}/{uid}", dir_fd=home)


def _empty(above: int, name: str, rules: AccountRules) -> None:
    """Delete what a directory contains, with the rights of its owner alone."""
    directory = os.open(name, _OPEN, dir_fd=above)
    status = os.fstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid < rules.uid_min:
        os.close(directory)
        return
    child = os.fork()
    if child == 0:
        try:
            become(Account("the owner", status.st_uid, status.st_uid, ()), rules)
            for each in os.scandir(directory):
                if each.is_dir(follow_symlinks=False):
                    shutil.rmtree(each.name, ignore_errors=True, dir_fd=directory)
                else:
                    with suppress(OSError):
                        os.unlink(each.name, dir_fd=directory)
        finally:
            os._exit(0)
    os.close(directory)
    os.waitpid(child, 0)
