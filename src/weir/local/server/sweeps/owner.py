"""Owner of a sweep: its trials are submitted later, with the rights that its person has then."""

from collections.abc import Mapping, Sequence
from typing import Any

from weir.local.server.account_mode import AccountMode, PoolAccounts
from weir.local.server.auth import RoleLookup
from weir.local.server.authorization import Person, Role
from weir.local.server.problem_details import RequestRefused
from weir.store import TokenRecord


def owner_record(person: Person) -> dict[str, object]:
    """Return what is written down of a person, to act for them later."""
    return {
        "user": person.user,
        "is_admin": person.is_admin,
        "token": person.token,
        "uid": person.uid,
        "groups": sorted(person.groups),
        "subject": person.subject,
    }


async def owner_now(
    owner: Mapping[str, Any],
    tokens: Sequence[TokenRecord],
    now_s: float,
    accounts: PoolAccounts,
    roles_of: RoleLookup,
) -> Person:
    """Return the owner of a sweep with the rights of now.

    Raises:
        RequestRefused: the token that the sweep was made with doesn't hold any more, or the account is gone.
    """
    user, number, uid = str(owner["user"]), owner.get("token"), owner.get("uid")
    is_admin, groups = bool(owner["is_admin"]), frozenset(owner["groups"])
    roles: Mapping[str, Role]
    if number is not None:
        token = next((each for each in tokens if each.id == number), None)
        if token is None or not token.holds(now_s):
            end = "was revoked" if token is None else "has expired"
            raise RequestRefused(403, f"The token of {user} that the sweep was made with {end}.")
        is_admin = token.role == "admin"
        roles = {} if is_admin else dict.fromkeys(token.projects, Role[token.role.upper()])
    elif uid is not None and accounts.mode is AccountMode.UNIX_ACCOUNTS:
        account = await accounts.unix.get(uid)
        if account is None or account.name != user:
            raise RequestRefused(403, f"{user} has no account on this machine any more.")
        is_admin, groups = accounts.is_admin(account), account.groups
        roles = roles_of(user, groups)
    else:
        roles = roles_of(user, groups)
    return Person(
        user,
        is_admin,
        {} if is_admin else roles,
        number,
        uid=uid,
        groups=groups,
        subject=str(owner["subject"]),
    )
