"""Sessions and rights of people of a real provider: renewal, its end, and Unix accounts with the same names."""

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from weir.dashboard.oidc.settings import OidcSettings
from weir.dashboard.oidc.sign_in_limiter import SIGN_INS, SignInLimiter
from weir.local.server.access.account_mode import AccountMode, PoolAccounts
from weir.local.server.access.auth import Authenticator
from weir.local.server.access.authorization import Person, Role
from weir.local.server.access.oidc_sign_in import (
    RENEW_S,
    SESSION_S,
    SESSIONS_PER_PERSON_MAX,
    UNRENEWED_S_MAX,
    OidcSignIn,
)
from weir.local.server.access.unix_accounts import UnixAccount, UnixAccounts
from weir.local.server.dashboard.sessions import DashboardSessions
from weir.local.server.http.problem_details import RequestRefused

from .provider import CLIENT, Provider, browser, sign_in

NO_TOKENS = cast(Any, None)
POOL = "https://pool.example.org"
OWNER_UID = 4000
ACCOUNTS = {
    "mia": UnixAccount("mia", 1001, "/home/mia", frozenset({"weir-admin", "vision"})),
    "root": UnixAccount("root", 0, "/root", frozenset({"root"})),
    "tom": UnixAccount("tom", OWNER_UID, "/var/lib/weir", frozenset()),
}


class Clock:
    """Both clocks, and the seconds by which a test moves them on. The provider's stays as it is."""

    def __init__(self) -> None:
        self.ahead_s = 0.0  # of the age of sessions
        self.wall_ahead_s = 0.0

    def steady(self) -> float:
        return time.monotonic() + self.ahead_s

    def wall(self) -> float:
        return time.time() + self.wall_ahead_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def roles(user: str, groups: frozenset[str]) -> Mapping[str, Role]:
    """Return the roles of a pool with three memberships."""
    found = {}
    if "oidc:vision" in groups:
        found["vision"] = Role.MEMBER
    if "oidc:speech" in groups:
        found["speech"] = Role.VIEWER
    if "vision" in groups or user == "root":
        found["of a unix account"] = Role.LEAD
    if user in ("tom", "oidc:tom"):
        found["default"] = Role.MEMBER
    return found


@pytest.fixture
async def pool(provider: Provider, clock: Clock) -> AsyncIterator[OidcSignIn]:
    found = made(provider, clock)
    yield found
    await found.close()


def made(provider: Provider, clock: Clock, **settings: str) -> OidcSignIn:
    accounts = PoolAccounts(
        mode=AccountMode.UNIX_ACCOUNTS,
        owner="weir",
        owner_uid=OWNER_UID,
        unix=UnixAccounts(lambda which: ACCOUNTS.get(str(which))),
        oidc=True,
    )
    fields = {"issuer": provider.issuer, "client_id": CLIENT, "admin_group": "pool-admins", **settings}
    return OidcSignIn(
        OidcSettings(**fields),  # type: ignore[arg-type]
        accounts,
        roles,
        public_url=POOL,
        clock=clock.wall,
        steady=clock.steady,
    )


async def began(pool: OidcSignIn, account: str = "mia") -> str:
    """Sign in with a browser; return the credential of the session."""
    address, cookie = await pool.flow.begin()
    with browser() as opened:
        query = parse_qs(urlsplit(sign_in(opened, address, account)).query)
    return await pool.begin_session(cookie, query["state"][0], query["code"][0])


async def person(pool: OidcSignIn, credential: str) -> Person:
    await pool.refresh(credential)
    return pool.person(credential)


async def test_groups_that_change_at_the_provider_hold_after_a_renewal(
    provider: Provider, pool: OidcSignIn, clock: Clock
) -> None:
    credential = await began(pool)
    assert (await person(pool, credential)).roles == {"vision": Role.MEMBER}
    provider.ask("change", account="mia", claims={"groups": ["speech"]})
    assert (await person(pool, credential)).roles == {"vision": Role.MEMBER}
    for _ in range(3):  # each refresh token works once
        clock.ahead_s += RENEW_S
        assert (await person(pool, credential)).roles == {"speech": Role.VIEWER}
    provider.ask("change", account="mia", claims={"groups": []})
    clock.ahead_s += RENEW_S
    with pytest.raises(RequestRefused, match="no role"):
        await person(pool, credential)


async def test_the_session_of_a_person_who_left_ends(
    provider: Provider, pool: OidcSignIn, clock: Clock
) -> None:
    credential = await began(pool)
    provider.ask("leave", account="mia")
    clock.ahead_s += RENEW_S
    with pytest.raises(RequestRefused, match="has ended your session"):
        await person(pool, credential)
    with pytest.raises(RequestRefused, match="expired"):
        await person(pool, credential)


async def test_a_session_outlives_an_hour_without_the_provider_and_no_more(
    provider: Provider, pool: OidcSignIn, clock: Clock
) -> None:
    credential = await began(pool)
    provider.ask("replies", replies={"/token": "nothing"})
    clock.ahead_s += RENEW_S
    before = provider.requests("/token")
    for _ in range(5):
        assert (await person(pool, credential)).user == "oidc:mia"
    assert provider.requests("/token") == before + 1, "it isn't asked with each request"
    clock.ahead_s += UNRENEWED_S_MAX
    with pytest.raises(RequestRefused) as refused:
        await person(pool, credential)
    assert refused.value.status == 503
    provider.ask("replies", replies={})
    clock.ahead_s += RENEW_S
    assert (await person(pool, credential)).user == "oidc:mia"


async def test_a_session_ends_after_its_length_and_by_sign_out(pool: OidcSignIn, clock: Clock) -> None:
    credential = await began(pool)
    clock.ahead_s = SESSION_S + 1
    with pytest.raises(RequestRefused, match="expired"):
        await person(pool, credential)
    clock.ahead_s = 0
    pool.end_session(credential)
    with pytest.raises(RequestRefused, match="expired"):
        await person(pool, credential)


async def test_the_oldest_sessions_of_a_person_make_way_and_no_one_elses(
    provider: Provider, pool: OidcSignIn
) -> None:
    other = await began(pool, "ada")
    own = [await began(pool) for _ in range(SESSIONS_PER_PERSON_MAX + 1)]
    with pytest.raises(RequestRefused, match="expired"):
        await person(pool, own[0])
    assert (await person(pool, own[1])).user == "oidc:mia"
    assert (await person(pool, other)).is_admin


async def test_a_remembered_token_expires(provider: Provider, pool: OidcSignIn, clock: Clock) -> None:
    token = provider.id_token()
    credential = await pool.admit(token)
    assert (await person(pool, credential)).user == "oidc:mia"
    clock.wall_ahead_s = 300 + 61
    assert await pool.admit(token) == credential
    with pytest.raises(RequestRefused, match="expired"):
        await person(pool, credential)


async def test_a_remembered_token_is_refused_once_its_key_is_withdrawn(
    provider: Provider, pool: OidcSignIn
) -> None:
    token = provider.id_token()
    await pool.admit(token)
    provider.ask("rotate", kid="second")
    await pool.admit(provider.id_token())
    with pytest.raises(RequestRefused, match="signature"):
        await pool.admit(token)


async def test_no_name_of_the_provider_is_a_unix_account_by_default(
    provider: Provider, pool: OidcSignIn
) -> None:
    for account in ("mia", "root"):
        found = await person(pool, await pool.admit(provider.id_token(account)))
        assert found.user == f"oidc:{account}"
        assert found.roles == {"vision": Role.MEMBER}
        assert found.uid is None


async def test_the_same_name_is_an_account_but_never_root_or_the_pool(
    provider: Provider, clock: Clock
) -> None:
    pool = made(provider, clock, unix_accounts="same-name")
    mia = await person(pool, await pool.admit(provider.id_token("mia")))
    assert mia.user == "mia"
    assert not mia.is_admin, "weir-admin is a group of this machine, not of the provider"
    assert mia.roles == {"vision": Role.MEMBER}, "groups of the account don't count"
    assert (await person(pool, await pool.admit(provider.id_token("root")))).user == "oidc:root"
    assert (await person(pool, await pool.admit(provider.id_token("tom")))).user == "oidc:tom"
    ada = await person(pool, await pool.admit(provider.id_token("ada")))
    assert (ada.user, ada.is_admin) == ("oidc:ada", True)
    await pool.close()


async def test_a_person_without_a_name_is_refused(provider: Provider, pool: OidcSignIn) -> None:
    with pytest.raises(RequestRefused, match="names no person"):
        await pool.admit(provider.id_token("noname"))


async def test_an_answer_goes_on_after_its_token_expired_and_no_new_one_begins(
    provider: Provider, pool: OidcSignIn, clock: Clock
) -> None:
    credential = await pool.admit(provider.id_token())
    clock.wall_ahead_s = 300 + 61
    with pytest.raises(RequestRefused, match="expired"):
        pool.person(credential)
    assert pool.person(credential, is_open=True).user == "oidc:mia"
    clock.wall_ahead_s = SESSION_S + 301
    with pytest.raises(RequestRefused, match="expired"):
        pool.person(credential, is_open=True)


async def test_cookies_of_ended_sessions_make_way(
    provider: Provider, pool: OidcSignIn, tmp_path: Path
) -> None:
    authenticator = Authenticator(
        "administrator's token", NO_TOKENS, accounts=PoolAccounts(), roles=roles, oidc=pool
    )
    sessions = DashboardSessions(tmp_path, authenticator, time.time)
    ended, lasting = await began(pool), await began(pool)
    cookies = [sessions.begin(each) for each in (ended, lasting)]
    pool.end_session(ended)
    sessions.begin("uid:7")
    with pytest.raises(RequestRefused):
        sessions.credential_of(*cookies[0])
    assert sessions.credential_of(*cookies[1]) == lasting
    again = DashboardSessions(tmp_path, authenticator, time.time)
    assert again.credential_of(*cookies[1]) == lasting


def test_sign_ins_are_limited_by_address_and_by_network_of_ipv6() -> None:
    limiter = SignInLimiter(clock=lambda: 0.0)
    for host in range(SIGN_INS.at_once):
        assert not limiter.take(f"2001:db8::{host + 1:x}")
    assert limiter.take("2001:db8::ffff") > 0
    assert not limiter.take("2001:db8:0:1::1")
    for _ in range(SIGN_INS.at_once):
        assert not limiter.take("::ffff:192.0.2.7")  # as a listener on :: sees it
    assert limiter.take("192.0.2.7") > 0
    assert not limiter.take("::ffff:192.0.2.8")
