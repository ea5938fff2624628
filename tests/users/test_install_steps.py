"""Steps of an installation on real accounts of this machine."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from weir.cli.install.host import Host
from weir.cli.install.steps import Step, add_member, make_group, make_server_user, remove_group, remove_user

from .unix_accounts import PREFIX, _locked, why_not


@pytest.mark.skipif(why_not() is not None, reason="only root can make accounts")
def test_accounts_are_made_once_and_removed(unix_users: list[pwd.struct_passwd]) -> None:
    with _locked():
        make_and_remove(Host(), unix_users[0].pw_name)


def make_and_remove(host: Host, mia: str) -> None:
    name, admins = f"{PREFIX}{os.getpid()}-s", f"{PREFIX}{os.getpid()}-a"
    made: list[Step] = [
        make_group(admins),
        make_server_user(name, Path("/var/lib/none")),
        add_member(mia, admins),
    ]
    removed: list[Step] = [remove_user(name), remove_group(name), remove_group(admins)]
    try:
        for step in made:
            assert not step.is_done(host), str(step)
            step.do(host)
            assert step.is_done(host), str(step)
        account = pwd.getpwnam(name)
        assert account.pw_uid < 1000, "jobs run as people alone"
        assert grp.getgrgid(account.pw_gid).gr_name == name
        assert account.pw_shell.endswith("nologin")
        assert not Path(account.pw_dir).exists(), "the node process makes the home"
    finally:
        for step in removed:
            if not step.is_done(host):
                step.do(host)
    assert all(step.is_done(host) for step in removed)
