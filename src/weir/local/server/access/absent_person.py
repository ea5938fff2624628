"""Person for whom a schedule or a sweep submits later, with the rights of that time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weir.local.server.access.account_mode import AccountMode, PoolAccounts
from weir.local.server.access.auth import account_person, token_person
from weir.local.server.access.authorization import Person, RoleLookup
from weir.local.server.http.problem_details import RequestRefused
from weir.store.records import TokenRecord


def owner_of(person: Person) -> dict[str, Any]:
    """Return the identity of a person for later: their token, account or login, and none of their rights."""
    return {
        "user": person.user,
        "token": person.token,
        "uid": person.uid,
        "subject": person.subject,
        "groups": sorted(person.groups),
    }


async def present_person(
    owner: Mapping[str, Any],
    tokens: Callable[[], Sequence[TokenRecord]],
    accounts: PoolAccounts,
    roles: RoleLookup,
    now_s: float,
) -> Person:
    """Return a person who isn't signed in, with their present rights.

    Raises:
        RequestRefused: their token or account no longer exists.
    """
    user = str(owner["user"])
    if owner["token"] is not None:
        accounts.check_token_user(user)
        row = next((token for token in tokens() if token.id == owner["token"]), None)
        if row is None or not row.holds(now_s):
            raise RequestRefused(403, f"The token with which {user} made it is revoked or has expired.")
        return token_person(row)
    if owner["subject"]:
        groups = frozenset(owner["groups"])
        return Person(user, False, roles(user, groups), groups=groups, subject=owner["subject"])
    if owner["uid"] is None or (accounts.mode is AccountMode.PERSONAL and owner["uid"] == accounts.owner_uid):
        return Person(accounts.owner, is_admin=True, uid=owner["uid"])
    if accounts.mode is not AccountMode.UNIX_ACCOUNTS:  # the account mode has changed since it was created
        raise RequestRefused(403, f"This pool doesn't serve {user} by the account on this machine any more.")
    account = await accounts.unix.get(owner["uid"])
    if account is None or account.name != user:
        raise RequestRefused(403, f"{user} has no account on this machine any more.")
    return account_person(account, accounts, roles)
