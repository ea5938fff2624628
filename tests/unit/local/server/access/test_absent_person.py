"""Person who acts later, by a schedule or a sweep: with the rights of then, and no longer."""

from dataclasses import replace

import pytest

from weir.local.server.access.absent_person import owner_of, present_person
from weir.local.server.access.account_mode import ADMIN_GROUP, AccountMode, PoolAccounts
from weir.local.server.access.authorization import Person, Role
from weir.local.server.access.unix_accounts import UnixAccount, UnixAccounts
from weir.local.server.http.problem_details import RequestRefused
from weir.store.records import TokenRecord

TOKEN = TokenRecord(id=7, user="mia", role="member", projects=("vision",), created_s=0.0, expires_s=100.0)
OPEN = PoolAccounts(mode=AccountMode.SHARED_ACCOUNT)
MIA = UnixAccount("mia", 1000, "/home/mia", frozenset((ADMIN_GROUP, "vision")))


def roles_of(_: str, groups: frozenset[str]) -> dict[str, Role]:
    return {"vision": Role.MEMBER} if "vision" in groups else {}


def pool_with(account: UnixAccount | None) -> PoolAccounts:
    return PoolAccounts(mode=AccountMode.UNIX_ACCOUNTS, owner_uid=1, unix=UnixAccounts(lambda _: account))


async def test_token_counts_while_it_holds_with_its_role_of_now() -> None:
    owner = owner_of(Person("mia", is_admin=True, token=7))
    found = await present_person(owner, lambda: (TOKEN,), OPEN, roles_of, 99.0)
    assert (found.is_admin, dict(found.roles)) == (False, {"vision": Role.MEMBER})
    with pytest.raises(RequestRefused, match="has expired"):
        await present_person(owner, lambda: (TOKEN,), OPEN, roles_of, 100.0)
    with pytest.raises(RequestRefused, match="is revoked"):
        await present_person(owner, tuple, OPEN, roles_of, 0.0)


async def test_account_counts_with_its_groups_of_now() -> None:
    """Someone who left the administrators, or a group, has no rights of it, whatever they began before."""
    owner = owner_of(Person("mia", is_admin=True, uid=1000, groups=MIA.groups))
    found = await present_person(owner, tuple, pool_with(MIA), roles_of, 0.0)
    assert (found.is_admin, found.groups) == (True, MIA.groups)
    member = replace(MIA, groups=frozenset(("vision",)))
    found = await present_person(owner, tuple, pool_with(member), roles_of, 0.0)
    assert (found.is_admin, dict(found.roles)) == (False, {"vision": Role.MEMBER})
    found = await present_person(owner, tuple, pool_with(replace(MIA, groups=frozenset())), roles_of, 0.0)
    assert (found.is_admin, dict(found.roles)) == (False, {})
    for other in (None, replace(MIA, name="noa")):
        with pytest.raises(RequestRefused, match="has no account"):
            await present_person(owner, tuple, pool_with(other), roles_of, 0.0)


@pytest.mark.parametrize("mode", [AccountMode.PERSONAL, AccountMode.SHARED_ACCOUNT])
async def test_account_is_no_administrator_once_the_pool_serves_others(mode: AccountMode) -> None:
    """An installed pool whose home is served otherwise: its members haven't become its owner."""
    accounts = PoolAccounts(mode=mode, owner="ada", owner_uid=1)
    owner = owner_of(Person("mia", is_admin=False, uid=1000))
    with pytest.raises(RequestRefused, match="doesn't serve mia"):
        await present_person(owner, tuple, accounts, roles_of, 0.0)


async def test_owner_of_a_personal_pool_stays_its_administrator() -> None:
    accounts = PoolAccounts(owner="ada", owner_uid=1)
    for uid in (1, None):
        owner = owner_of(Person("ada", is_admin=True, uid=uid))
        assert (await present_person(owner, tuple, accounts, roles_of, 0.0)).is_admin
