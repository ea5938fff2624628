"""Accounts of this machine, and a pool that serves them: the fifth is the account of its server."""

import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .open_python import open_python
from .shared_pool import SharedPool, shared_pool
from .unix_accounts import make_users, remove_users, why_not

People = list[pwd.struct_passwd]

USERS = 9


@pytest.fixture(scope="session")
def unix_users() -> Iterator[list[pwd.struct_passwd]]:
    """Accounts with homes below /home; only root can make them."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    users = make_users(USERS)
    yield users
    closed = [path for user in users for path in _closed_to(user)]
    remove_users(users)
    assert not closed, f"tests made these as root, and so users' programs fail in other tests: {closed}"


def _closed_to(user: pwd.struct_passwd) -> list[Path]:
    """Return directories such as ~/.config and ~/.config/weir that don't belong to their user."""
    home = Path(user.pw_dir)
    return [
        path
        for pattern in (".*/", ".*/*/")
        for path in home.glob(pattern)
        if path.lstat().st_uid != user.pw_uid
    ]


@pytest.fixture(scope="module")
def places(unix_users: People) -> Iterator[Path]:
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="weir-t-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def gpu_files(places: Path) -> list[Path]:
    """Device files that stand for those of two GPUs; the other two have none."""
    made = [places / f"gpu{at}" for at in range(2)]
    for path, minor in zip(made, (7, 8), strict=True):  # full, random
        try:
            os.mknod(path, 0o020666, os.makedev(1, minor))
        except PermissionError:
            pytest.skip("this process can't make device files")
        path.chmod(0o666)
    return made


@pytest.fixture(scope="module")
def pool(places: Path, gpu_files: list[Path], unix_users: People) -> Iterator[SharedPool]:
    python = open_python(places)
    if python is None:
        pytest.skip("other users can't run this interpreter, or read the packages")
    with shared_pool(places, python, unix_users[4], gpu_files) as pool:
        for user in (*unix_users[:4], *unix_users[5:]):
            pool.add_member(user, "default")
        yield pool
