"""Tokens of a real provider, and forgeries of them: what the pool accepts, and why it refuses the others."""

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from weir.dashboard.oidc.errors import ProviderUnavailable, TokenInvalid
from weir.dashboard.oidc.id_tokens import key_of, verified
from weir.dashboard.oidc.provider import (
    ANSWER_BYTES_MAX,
    FETCHES,
    IdentityProvider,
    described,
    key_set,
)
from weir.dashboard.oidc.settings import OidcSettings, checked_issuer

from .provider import CLIENT, OTHER_CLIENT, Provider, Providers, client
from .tokens import Clock, decoded, encoded, verify

MINUTES_5 = 300.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def known(provider: Provider, clock: Clock) -> AsyncIterator[IdentityProvider]:
    """The provider as a pool knows it."""
    found = IdentityProvider(OidcSettings(issuer=provider.issuer, client_id=CLIENT), clock)
    yield found
    await found.close()


async def test_a_token_of_the_provider_proves_name_and_groups(
    provider: Provider, known: IdentityProvider
) -> None:
    identity = await verify(known, provider.id_token())
    assert identity.subject == "mia"
    assert identity.name == "mia"
    assert identity.groups == {"vision"}, "a name with a space can't be a member"
    assert 0 < identity.expires_s - time.time() <= 300


async def test_a_token_of_another_issuer_is_refused(providers: Providers, known: IdentityProvider) -> None:
    other = providers.start()
    with pytest.raises(TokenInvalid, match="signature is wrong"):
        await verify(known, other.id_token())


async def test_a_token_with_the_right_key_and_another_issuer_is_refused(
    provider: Provider, known: IdentityProvider
) -> None:
    token = provider.id_token()
    keys = await known.keys(None)
    with pytest.raises(TokenInvalid, match="issuer is another one"):
        verified(token, keys, OidcSettings(issuer=f"{provider.issuer}/", client_id=CLIENT), time.time())


async def test_a_token_for_another_client_is_refused(provider: Provider, known: IdentityProvider) -> None:
    with pytest.raises(TokenInvalid, match="another audience"):
        await verify(known, provider.id_token(client_id=OTHER_CLIENT))


async def test_a_token_with_the_nonce_of_another_sign_in_is_refused(
    provider: Provider, known: IdentityProvider
) -> None:
    token = provider.id_token(nonce="mine")
    assert (await verify(known, token, nonce="mine")).name == "mia"
    for nonce, given in (("another", token), ("mine", provider.id_token())):
        with pytest.raises(TokenInvalid, match="nonce"):
            await verify(known, given, nonce=nonce)


@pytest.mark.parametrize(
    ("off_s", "problem"), [(MINUTES_5 + 61, "expired"), (-MINUTES_5, "future"), (-200, "future")]
)
async def test_a_token_at_another_time_is_refused(
    provider: Provider, known: IdentityProvider, off_s: float, problem: str
) -> None:
    with pytest.raises(TokenInvalid, match=problem):
        await verify(known, provider.id_token(), off_s=off_s)


async def test_clocks_may_differ_by_less_than_a_minute(provider: Provider, known: IdentityProvider) -> None:
    token = provider.id_token()
    for off_s in (-50.0, MINUTES_5 + 20.0):
        assert (await verify(known, token, off_s=off_s)).name == "mia"


async def test_a_clock_five_minutes_ahead_refuses_a_short_token(providers: Providers) -> None:
    provider = providers.start(lifetime_s=120)
    known = IdentityProvider(OidcSettings(issuer=provider.issuer, client_id=CLIENT))
    with pytest.raises(TokenInvalid, match="expired"):
        await verify(known, provider.id_token(), off_s=MINUTES_5)
    await known.close()


def without_signature(token: str, _keys: bytes) -> str:
    head, claims = decoded(token)
    return f"{encoded({**head, 'alg': 'none'})}.{encoded(claims)}."


def signed_with_the_public_key(token: str, keys: bytes) -> str:
    from joserfc.jwk import RSAKey

    public = RSAKey.import_key(json.loads(keys)["keys"][0]).as_pem(private=False)
    head, claims = decoded(token)
    begin = f"{encoded({**head, 'alg': 'HS256'})}.{encoded(claims)}"
    return f"{begin}.{encoded(hmac.digest(public, begin.encode(), 'sha256'))}"


def signed_with_the_public_document(token: str, keys: bytes) -> str:
    head, claims = decoded(token)
    begin = f"{encoded({**head, 'alg': 'HS256'})}.{encoded(claims)}"
    return f"{begin}.{encoded(hmac.digest(json.dumps(json.loads(keys)['keys'][0]).encode(), begin.encode(), 'sha256'))}"


def of_an_administrator(token: str, _keys: bytes) -> str:
    head, _, signature = token.split(".")
    changed = {**decoded(token)[1], "groups": ["pool-admins"]}
    return f"{head}.{encoded(changed)}.{signature}"


def with_a_key_in_its_head(token: str, _keys: bytes) -> str:
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    own = RSAKey.generate_key(2048)
    head, claims = decoded(token)
    return jwt.encode({**head, "jwk": own.as_dict(private=False)}, claims, own)


@pytest.mark.parametrize(
    "forge",
    [
        without_signature,
        signed_with_the_public_key,
        signed_with_the_public_document,
        of_an_administrator,
        with_a_key_in_its_head,
    ],
)
async def test_a_forged_token_is_refused(
    provider: Provider, known: IdentityProvider, forge: Callable[[str, bytes], str]
) -> None:
    token = provider.id_token()
    forged = forge(token, provider.get("/jwks"))
    assert (await verify(known, token)).name == "mia"
    with pytest.raises(TokenInvalid, match=r"algorithm|signature"):
        await verify(known, forged)


@pytest.mark.parametrize(
    "alg", ["none", "None", "nOnE", "HS256", "HS384", "HS512", "RSA1_5", "dir", "", None, 7, ["RS256"]]
)
def test_an_algorithm_that_is_no_asymmetric_signature_is_refused(alg: object) -> None:
    with pytest.raises(TokenInvalid, match="algorithm"):
        key_of(f"{encoded({'alg': alg})}.{encoded({})}.x")


@pytest.mark.parametrize(
    "token",
    [
        "..",
        "a.b.c",
        "é.b.c",
        f"{encoded(b'[]')}.b.c",
        f"{encoded(b'[' * 5000)}.b.c",
        f"{encoded({'alg': 'RS256', 'kid': 7})}.b.c",
        f"{encoded({'alg': 'RS256', 'kid': 'k' * 300})}.b.c",
        f"{encoded({'alg': 'RS256', 'crit': ['exp'], 'exp': 1})}.b.c",
        f"{encoded({'alg': 'RS256', 'typ': 'logout+jwt'})}.b.c",
        "a" * 20_000 + ".b.c",
    ],
)
def test_a_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(TokenInvalid):
        key_of(token)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"exp": None}, "expires"),
        ({"exp": "tomorrow"}, "no time"),
        ({"exp": True}, "no time"),
        ({"exp": float("inf")}, "no time"),
        ({"iat": None}, "expires"),
        ({"nbf": 4e9}, "future"),
        ({"exp": 4e9, "iat": 1e9}, "expired"),
        ({"aud": None}, "audience"),
        ({"aud": {}}, "audience"),
        ({"aud": ["other"]}, "audience"),
        ({"azp": "other"}, "another client"),
        ({"events": {}}, "isn't an ID token"),
        ({"sub": None}, "subject"),
        ({"sub": "a\nb"}, "subject"),
        ({"preferred_username": "a/b"}, "names no person"),
        ({"preferred_username": "oidc:mia"}, "names no person"),
        ({"preferred_username": "mia\u202egpj"}, "names no person"),
        ({"preferred_username": ["mia"]}, "names no person"),
        ({"preferred_username": ""}, "names no person"),
        ({"groups": [str(each) for each in range(600)]}, "more than 500 groups"),
    ],
)
def test_a_signed_token_with_unfit_claims_is_refused(changed: dict[str, object], problem: str) -> None:
    """A provider that is set up wrongly signs such tokens."""
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    own = RSAKey.generate_key(2048, {"kid": "own", "use": "sig"})
    now_s = int(time.time())
    claims: dict[str, Any] = {
        "iss": "https://sso.example.org",
        "aud": CLIENT,
        "sub": "7",
        "iat": now_s,
        "exp": now_s + 60,
        "preferred_username": "mia",
    }
    keys = key_set({"keys": [own.as_dict(private=False)]})
    settings = OidcSettings(issuer="https://sso.example.org", client_id=CLIENT)
    good = jwt.encode({"alg": "RS256", "kid": "own"}, claims, own)
    assert verified(good, keys, settings, now_s).name == "mia"
    text = json.dumps({key: value for key, value in {**claims, **changed}.items() if value is not None})
    from joserfc import jws

    token = jws.serialize_compact({"alg": "RS256", "kid": "own"}, text.encode(), own)
    with pytest.raises(TokenInvalid, match=problem):
        verified(token, keys, settings, now_s)


async def test_a_rotated_key_works_at_once_and_the_former_one_no_longer(
    provider: Provider, known: IdentityProvider
) -> None:
    before = provider.id_token()
    assert (await verify(known, before)).name == "mia"
    provider.ask("rotate", kid="second")
    assert (await verify(known, provider.id_token())).name == "mia"
    with pytest.raises(TokenInvalid, match="signature can't be verified"):
        await verify(known, before)


async def test_keys_of_elliptic_curves_work(providers: Providers) -> None:
    provider = providers.start(alg="ES256", clients=[client(id_token_signed_response_alg="ES256")])
    known = IdentityProvider(OidcSettings(issuer=provider.issuer, client_id=CLIENT))
    assert (await verify(known, provider.id_token())).name == "mia"
    await known.close()


async def test_a_flood_of_unknown_keys_asks_the_provider_a_few_times(
    provider: Provider, known: IdentityProvider, clock: Clock
) -> None:
    good = provider.id_token()
    await verify(known, good)
    forged = [f"{encoded({'alg': 'RS256', 'kid': f'k{each}'})}.{encoded({})}.eA" for each in range(500)]
    done = await asyncio.gather(*(verify(known, each) for each in forged), return_exceptions=True)
    assert all(isinstance(each, TokenInvalid) for each in done)
    assert provider.requests("/jwks") <= FETCHES.at_once
    for each in forged:
        with pytest.raises(TokenInvalid):
            await verify(known, each)
    assert provider.requests("/jwks") <= FETCHES.at_once
    assert (await verify(known, good)).name == "mia"
    provider.ask("rotate", kid="second")
    clock.now_s += 11.0
    assert (await verify(known, provider.id_token())).name == "mia", "the flood doesn't keep a new key out"


async def test_tokens_are_verified_while_the_provider_is_away(
    provider: Provider, known: IdentityProvider, clock: Clock
) -> None:
    token = provider.id_token()
    assert (await verify(known, token)).name == "mia"
    provider.ask("replies", replies={"/jwks": "nothing", "/.well-known/openid-configuration": "nothing"})
    clock.now_s += 3600.0
    assert (await verify(known, token)).name == "mia"
    clock.now_s += 100_000.0
    with pytest.raises(ProviderUnavailable):
        await verify(known, token)
    provider.ask("replies", replies={})
    clock.now_s += 11.0
    assert (await verify(known, token)).name == "mia"


async def test_keys_that_the_provider_withdrew_are_forgotten_without_a_new_token(
    provider: Provider, known: IdentityProvider, clock: Clock
) -> None:
    before = provider.id_token()
    await verify(known, before)
    provider.ask("rotate", kid="second")
    clock.now_s += 601.0
    await known.keys("first")  # begins to fetch, and waits for nothing
    async with asyncio.timeout(120):
        while known.generation <= 1:  # noqa: ASYNC110 - the fetch tells nothing else
            await asyncio.sleep(0.1)
    with pytest.raises(TokenInvalid):
        await verify(known, before)


@pytest.mark.parametrize(
    ("path", "reply"),
    [
        ("/.well-known/openid-configuration", "x" * (ANSWER_BYTES_MAX + 1)),
        ("/.well-known/openid-configuration", "[" * 100_000),
        ("/.well-known/openid-configuration", '{"issuer": "https://elsewhere.example.org"}'),
        ("/jwks", "x" * (ANSWER_BYTES_MAX + 1)),
        ("/jwks", '{"keys": 7}'),
        ("/jwks", "[]"),
    ],
)
async def test_an_unfit_answer_of_the_provider_is_refused(
    provider: Provider, known: IdentityProvider, path: str, reply: str
) -> None:
    provider.ask("replies", replies={path: reply})
    with pytest.raises(ProviderUnavailable):
        await known.keys("first")


async def test_a_silent_provider_is_waited_for_no_longer_than_the_limit(
    provider: Provider, known: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.dashboard.oidc.provider.ANSWER_S_MAX", 0.2)
    provider.ask("mute", on=True)
    with pytest.raises(ProviderUnavailable, match="in time"):
        await known.keys("first")


def test_keys_of_other_kinds_are_left_out() -> None:
    from joserfc.jwk import RSAKey

    good = RSAKey.generate_key(2048).as_dict(private=False)
    others: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "RSA"},
        {"kty": "EC", "crv": "P-0"},
        {"kty": 7},
        {**good, "use": "enc"},
        "key",
    ]
    assert len(key_set({"keys": [*others, {**good, "kid": "good"}]}).keys) == 1


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    "url", ["http://sso.example.org/x", "file:///etc/passwd", "", None, "https://[", "https://x/\ud800", 7]
)
def test_an_endpoint_without_https_is_refused(name: str, url: object) -> None:
    document = dict.fromkeys(
        ("authorization_endpoint", "token_endpoint", "jwks_uri"), "https://sso.example.org/x"
    )
    issuer = "https://sso.example.org"
    assert described({"issuer": issuer, **document}, issuer).jwks_uri == "https://sso.example.org/x"
    with pytest.raises(ProviderUnavailable):
        described({"issuer": issuer, **document, name: url}, issuer)


@pytest.mark.parametrize(
    ("url", "is_kept"),
    [
        *(("https://sso.example.org/out?x=1", True), ("javascript:alert(1)", False), ("http://a.org", False)),
        *(("https://x/\ud800", False), (7, False), ("https://a.org/" + "x" * 3000, False)),
    ],
)
def test_page_that_ends_sessions_is_kept_if_it_is_a_safe_address(url: object, is_kept: bool) -> None:
    issuer, names = "https://sso.example.org", ("authorization_endpoint", "token_endpoint", "jwks_uri")
    document = {"issuer": issuer, **dict.fromkeys(names, "https://sso.example.org/x")}
    found = described({**document, "end_session_endpoint": url}, issuer)
    assert found.end_session_endpoint == (url if is_kept else None)


@pytest.mark.parametrize(
    "issuer",
    ["sso.example.org", "http://sso.example.org", "https://a@b.org", "https://b.org?x=1", "https://[", ""],
)
def test_an_issuer_that_can_not_be_trusted_is_refused(issuer: str) -> None:
    with pytest.raises(ValueError, match="--oidc-issuer"):
        checked_issuer(issuer)
