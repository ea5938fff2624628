"""Accounts of tests: made with homes of their own, known to the account database, in the groups they join."""

import grp
import os
import pwd
from pathlib import Path

from tests.users.unix_accounts import unix_group


def test_accounts_have_ids_and_closed_homes(unix_users: list[pwd.struct_passwd]) -> None:
    assert len({user.pw_uid for user in unix_users}) == 9
    for user in unix_users:
        found = Path(user.pw_dir).stat()
        assert (found.st_uid, found.st_mode & 0o777) == (user.pw_uid, 0o700)
    with unix_group(unix_users[0].pw_name) as group:
        gids = os.getgrouplist(unix_users[0].pw_name, unix_users[0].pw_gid)
        assert grp.getgrnam(group).gr_gid in gids
