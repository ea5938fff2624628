"""Five accounts of this machine, for tests of several people."""

import pwd
from collections.abc import Iterator

import pytest
from tests.users.unix_accounts import make_users, remove_users, why_not

USERS = 5


@pytest.fixture(scope="session")
def unix_users() -> Iterator[list[pwd.struct_passwd]]:
    """Accounts with homes below /home; only root can make them."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    users = make_users(USERS)
    yield users
    remove_users(users)
