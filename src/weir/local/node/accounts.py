"""Accounts of the machine's users: checks which of them may run pods, and becomes one of them."""

import ctypes
import grp
import os
import pwd
from typing import NamedTuple

_NO_NEW_PRIVILEGES, _DUMPABLE = 38, 4
_OVERFLOW_UIDS = (65_534, 65_535)
"""User ids that belong to no user, even if an account has one of them."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class AccountRefused(Exception):
    """A user may not run pods; the text says why."""


class Account(NamedTuple):
    """A user with the groups that the machine gives them."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


class AccountRules(NamedTuple):
    """Rules for users of pods.

    Their ids are at least `uid_min`, and not the server's. If `group` is named, they are its members.
    """

    uid_min: int
    server_uid: int
    group: str = ""
    no_new_privileges: bool = True


def find_account(name: str, rules: AccountRules) -> Account:
    """Return the account of a user who may run pods.

    Raises:
        AccountRefused: the account doesn't exist, or the rules forbid it.
    """
    try:
        user = pwd.getpwnam(name)
        groups = tuple(os.getgrouplist(user.pw_name, user.pw_gid))
    except (KeyError, OSError):
        raise AccountRefused(f"this machine has no user {name}") from None
    if user.pw_uid < rules.uid_min or user.pw_uid in (rules.server_uid, *_OVERFLOW_UIDS):
        kind = "is of the system" if user.pw_uid != rules.server_uid else "runs the pool itself"
        raise AccountRefused(f"the user {name} ({user.pw_uid}) {kind}, and pods run as users of people alone")
    if rules.group and _group(rules.group) not in groups:
        raise AccountRefused(f"the user {name} isn't in the group {rules.group}, whose users may run pods")
    if 0 in groups:
        raise AccountRefused(f"the user {name} is in the group root, and pods have no rights of root")
    return Account(user.pw_name, user.pw_uid, user.pw_gid, groups)


def become(account: Account, rules: AccountRules) -> None:
    """Replace all rights of this process by those of a user, for good.

    The kernel then refuses other processes of that user to look into this one: it isn't dumpable.

    Raises:
        OSError: the process kept a right, and must not go on.
    """
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    if rules.no_new_privileges and _prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs can't be set")
    if os.getresuid() != (account.uid,) * 3 or os.getresgid() != (account.gid,) * 3:
        raise PermissionError(1, f"the rights of {account.name} can't be taken")
    if _prctl(_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the process can't be closed to others")


def _group(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise AccountRefused(f"this machine has no group {name}, whose users may run pods") from None
