"""Owner of a sweep: trials are submitted with the rights that the person has then, and no longer."""

from dataclasses import replace

import pytest

from weir.local.server.account_mode import ADMIN_GROUP, AccountMode, PoolAccounts
from weir.local.server.authorization import Person, Role
from weir.local.server.problem_details import RequestRefused
from weir.local.server.sweeps.owner import owner_now, owner_record
from weir.local.server.unix_accounts import UnixAccount, UnixAccounts
from weir.store import TokenRecord

TOKEN = TokenRecord(id=7, user="mia", role="member", projects=("vision",), created_s=0.0, expires_s=100.0)
MIA = UnixAccount("mia", 1000, "/home/mia", frozenset((ADMIN_GROUP, "vision")))


def roles_of(_: str, groups: frozenset[str]) -> dict[str, Role]:
    return {"vision": Role.MEMBER} if "vision" in groups else {}


def pool_with(account: UnixAccount | None) -> PoolAccounts:
    return PoolAccounts(mode=AccountMode.UNIX_ACCOUNTS, owner_uid=1, unix=UnixAccounts(lambda _: account))


async def test_token_counts_while_it_holds_with_its_role_of_now() -> None:
    owner = owner_record(Person("mia", is_admin=True, token=7))
    found = await owner_now(owner, [TOKEN], 99.0, PoolAccounts(), roles_of)
    assert (found.is_admin, dict(found.roles)) == (False, {"vision": Role.MEMBER})
    with pytest.raises(RequestRefused, match="has expired"):
        await owner_now(owner, [TOKEN], 100.0, PoolAccounts(), roles_of)
    with pytest.raises(RequestRefused, match="was revoked"):
        await owner_now(owner, [], 0.0, PoolAccounts(), roles_of)


async def test_account_counts_with_its_groups_of_now() -> None:
    """Someone who left the administrators, or a group, has no rights of it, whatever they began before."""
    owner = owner_record(Person("mia", is_admin=True, uid=1000, groups=MIA.groups))
    found = await owner_now(owner, [], 0.0, pool_with(MIA), roles_of)
    assert (found.is_admin, found.groups) == (True, MIA.groups)
    member = replace(MIA, groups=frozenset(("vision",)))
    found = await owner_now(owner, [], 0.0, pool_with(member), roles_of)
    assert (found.is_admin, dict(found.roles)) == (False, {"vision": Role.MEMBER})
    found = await owner_now(owner, [], 0.0, pool_with(replace(MIA, groups=frozenset())), roles_of)
    assert (found.is_admin, dict(found.roles)) == (False, {})
    for other in (None, replace(MIA, name="noa")):
        with pytest.raises(RequestRefused, match="has no account"):
            await owner_now(owner, [], 0.0, pool_with(other), roles_of)
