"""Accounts and groups of this machine that tests make and remove. Several runs of tests may do so at once."""

import fcntl
import grp
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "weir-t-"
_NAME = re.compile(rf"{PREFIX}(\d+)-\d+")
_LOCK = Path("/run/lock/weir-tests-accounts")


def why_not() -> str | None:
    """Return why accounts can't be made here; None if they can."""
    if os.getuid() != 0:
        return "only root can make accounts"
    if not all(shutil.which(each) for each in ("useradd", "userdel", "groupadd", "groupdel", "gpasswd")):
        return "this machine has no useradd"
    return None


def make_users(count: int) -> list[pwd.struct_passwd]:
    """Make accounts with homes below /home that only they can read."""
    with _locked():
        _remove_leftovers()
        names = [f"{PREFIX}{os.getpid()}-{at}" for at in range(count)]
        for name in names:
            _run("useradd", "--create-home", "--home-dir", f"/home/{name}", "--shell", "/bin/sh", name)
            Path(f"/home/{name}").chmod(0o700)
        return [pwd.getpwnam(name) for name in names]


def remove_users(users: list[pwd.struct_passwd]) -> None:
    """Remove accounts with their homes."""
    with _locked():
        for user in users:
            _remove(user.pw_name)


@contextmanager
def unix_group(*members: str) -> Iterator[str]:
    """Make a group of accounts, and remove it."""
    name = f"{PREFIX}{os.getpid()}-{len(members)}{os.urandom(2).hex()}"
    with _locked():
        _run("groupadd", name)
        for member in members:
            _run("gpasswd", "--add", member, name)
    try:
        yield name
    finally:
        with _locked():
            _run("groupdel", name)


def _remove_leftovers() -> None:
    """Remove accounts of test runs that were killed."""
    for user in pwd.getpwall():
        made_by = _NAME.fullmatch(user.pw_name)
        if made_by is not None and not Path(f"/proc/{made_by[1]}").exists():
            _remove(user.pw_name)


def _remove(name: str) -> None:
    """Remove one account and end its processes: the next account may have its number."""
    subprocess.run(["pkill", "-KILL", "-u", name], capture_output=True, check=False)
    subprocess.run(["userdel", "--force", "--remove", name], capture_output=True, check=False)
    shutil.rmtree(f"/home/{name}", ignore_errors=True)
    groups = [group.gr_name for group in grp.getgrall() if group.gr_name == name]
    for group in groups:
        _run("groupdel", group)


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True, text=True)


@contextmanager
def _locked() -> Iterator[None]:
    """Wait for other runs: the tools refuse to change the files of accounts together."""
    descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
