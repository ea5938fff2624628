"""Tokens of people: renewed in time and once, and ended in plain words."""

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from weir.cli.cluster.dashboard.person_token import RENEW_BEFORE_S, PersonToken
from weir.dashboard.oidc.code_flow import Granted
from weir.dashboard.oidc.errors import GrantRefused, ProviderUnavailable, TokenInvalid
from weir.dashboard.oidc.id_tokens import OidcIdentity
from weir.dashboard.oidc.settings import RETRY_S
from weir.kubernetes.api.credentials import NoCredentials

LIFE_S = 300.0


class Provider:
    """A provider that gives numbered tokens, or fails."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.error: Exception | None = None
        self.asked: list[str] = []
        self.subject = "mia"
        self.open = asyncio.Event()
        self.open.set()

    def granted(self, number: int, refresh: str | None) -> Granted:
        identity = OidcIdentity(self.subject, self.subject, expires_s=self.now_s + LIFE_S)
        return Granted(identity, refresh, f"token-{number}")

    async def renew(self, refresh_token: str) -> Granted:
        self.asked.append(refresh_token)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return self.granted(len(self.asked), f"refresh-{len(self.asked)}")


@pytest.fixture
def provider() -> Provider:
    return Provider()


def token(provider: Provider, refresh: str | None = "refresh-0") -> PersonToken:
    address: Any = SimpleNamespace(url="https://api", context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    flow: Any = provider
    return PersonToken(address, flow, provider.granted(0, refresh), lambda: provider.now_s)


async def test_token_is_used_until_shortly_before_its_end_and_then_renewed(provider: Provider) -> None:
    found = token(provider)
    provider.now_s += LIFE_S - RENEW_BEFORE_S - 1
    assert await found.authorization() == "Bearer token-0"
    provider.now_s += 2
    assert await found.authorization() == "Bearer token-1"
    provider.now_s += LIFE_S - RENEW_BEFORE_S + 1
    assert await found.authorization() == "Bearer token-2"
    assert provider.asked == ["refresh-0", "refresh-1"]
    assert "token" not in repr(found).replace("PersonToken", "")


async def test_requests_together_renew_once_even_if_one_gives_up(provider: Provider) -> None:
    found = token(provider)
    provider.now_s += LIFE_S - 1
    provider.open.clear()
    hasty, patient = (asyncio.create_task(found.authorization()) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    hasty.cancel()
    provider.open.set()
    assert await patient == "Bearer token-1"
    assert provider.asked == ["refresh-0"]


async def test_provider_that_is_away_ends_nothing(provider: Provider) -> None:
    found = token(provider)
    provider.error = ProviderUnavailable("away")
    provider.now_s += LIFE_S - 1
    for _ in range(3):
        assert await found.authorization() == "Bearer token-0"
    assert len(provider.asked) == 1, "it isn't asked with each request"
    provider.now_s += 2
    with pytest.raises(NoCredentials, match="doesn't answer"):
        await found.authorization()
    assert found.ended is None
    provider.error = None
    provider.now_s += RETRY_S
    assert await found.authorization() == "Bearer token-2"


@pytest.mark.parametrize("error", [GrantRefused("invalid_grant"), TokenInvalid("its signature is wrong")])
async def test_session_that_the_provider_ends_is_over(provider: Provider, error: Exception) -> None:
    found = token(provider)
    provider.error = error
    provider.now_s += LIFE_S - 1
    for _ in range(2):
        with pytest.raises(NoCredentials, match="sign in again"):
            await found.authorization()
    assert str(error) in (found.ended or "")
    assert len(provider.asked) == 1


async def test_renewal_for_another_person_ends_the_session(provider: Provider) -> None:
    found = token(provider)
    provider.subject = "eve"
    provider.now_s += LIFE_S - 1
    with pytest.raises(NoCredentials, match="another person"):
        await found.authorization()


async def test_token_without_renewal_expires(provider: Provider) -> None:
    found = token(provider, refresh=None)
    provider.now_s += LIFE_S - 1
    assert await found.authorization() == "Bearer token-0"
    provider.now_s += 1
    with pytest.raises(NoCredentials, match="expired: sign in again"):
        await found.authorization()
    assert provider.asked == []


async def test_refused_token_is_renewed_once_it_has_some_age(provider: Provider) -> None:
    found = token(provider)
    assert await found.authorization(refused=True) == "Bearer token-0"
    provider.now_s += 20
    assert await found.authorization(refused=True) == "Bearer token-1"


async def test_closed_token_is_of_no_use(provider: Provider) -> None:
    found = token(provider)
    found.close()
    with pytest.raises(NoCredentials):
        await found.authorization()
