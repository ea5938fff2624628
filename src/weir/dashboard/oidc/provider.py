"""Requests to the identity provider: its description, its keys and its token endpoint, all bounded.

A provider that is slow, away or hostile costs one request at most: answers are limited in size and time, and
redirects aren't followed. Its keys are kept, so that tokens are verified while it is away.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_token_request
from joserfc.jwk import KeySet
from structlog import get_logger

from weir.api.loopback import is_loopback
from weir.certificate_failures import verification_error
from weir.control.token_bucket import TokenBucket, TokenRate
from weir.dashboard.oidc.errors import GrantRefused, ProviderUnavailable
from weir.dashboard.oidc.settings import OidcSettings

ANSWER_BYTES_MAX = 256 << 10
ANSWER_S_MAX = 10.0
CONNECT_S_MAX = 5.0
KEYS_MAX = 64
KEYS_FRESH_S = 600.0
"""Age at which keys are fetched again, so that withdrawn keys expire."""
KEYS_OLD_S = 86_400.0
"""Age at which keys expire while the provider is unreachable."""
FETCHES = TokenRate(3, 1 / 10)
"""Limit of fetches of the keys, a burst and then a rate: tokens with invented key names can't cause more."""
REQUESTS_OPEN_MAX = 8
ASYMMETRIC = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Algorithms of signatures that are accepted. A token can't choose none, or one with a shared secret."""
_ADDRESS_LENGTH_MAX = 2000
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_LOG = get_logger(__name__)
_UNTRUSTED = (
    "The certificate of the identity provider isn't trusted. SSL_CERT_FILE of the dashboard's server names "
    "the authorities; in a cluster, `dashboard.authorities` does."
)


@dataclass(frozen=True, slots=True)
class ProviderDescription:
    """The endpoints of a provider, from its discovery document."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None = None
    """Page where a browser ends its session with the provider, if there is one."""


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys of a provider. `generation` grows when they change."""

    keys: KeySet
    raw: bytes
    generation: int
    at_s: float


class IdentityProvider:
    """The provider of a pool. Belongs to the event loop."""

    def __init__(self, settings: OidcSettings, clock: Callable[[], float] = monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._http: httpx.AsyncClient | None = None
        self._described: ProviderDescription | None = None
        self._described_s = 0.0
        self._keys: _Keys | None = None
        self._fetching: asyncio.Task[str | None] | None = None
        self._fetches = TokenBucket(FETCHES, clock())
        self._open = asyncio.Semaphore(REQUESTS_OPEN_MAX)

    async def close(self) -> None:
        """End all requests."""
        if self._fetching is not None:
            self._fetching.cancel()
        if self._http is not None:
            await self._http.aclose()

    @property
    def generation(self) -> int:
        """Return a number that changes with the keys; 0 before the first keys."""
        return 0 if self._keys is None else self._keys.generation

    async def keys(self, kid: str | None) -> KeySet:
        """Return the provider's keys; fetch them again if they are old, or lack a token's key.

        A token that names a known key never waits for the provider.

        Raises:
            ProviderUnavailable: there are none, and the provider doesn't answer.
        """
        cached, now_s = self._keys, self._clock()
        if cached is None or now_s - cached.at_s > KEYS_OLD_S:
            await self._fetch_once()
        elif not _has(cached.keys, kid):
            with suppress(ProviderUnavailable):
                await self._fetch_once()
        elif now_s - cached.at_s > KEYS_FRESH_S:
            self._begin_fetch()
        if self._keys is None:
            raise ProviderUnavailable("The identity provider doesn't answer, and no key of it is known.")
        return self._keys.keys

    async def description(self) -> ProviderDescription:
        """Return the provider's endpoints, looked up lately.

        Raises:
            ProviderUnavailable: the provider doesn't answer, or describes another issuer.
        """
        if self._described is None or self._clock() - self._described_s > KEYS_FRESH_S:
            url = self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            try:
                self._described = described(_parsed(await self._request("GET", url)), self._settings.issuer)
                self._described_s = self._clock()
            except ProviderUnavailable:
                if self._described is None:
                    raise
        return self._described

    @property
    def end_session_address(self) -> str | None:
        """Return the sign-out page of the provider, if it has one."""
        endpoint = None if self._described is None else self._described.end_session_endpoint
        if endpoint is None:
            return None
        mark = "&" if "?" in endpoint else "?"
        return f"{endpoint}{mark}{urlencode({'client_id': self._settings.client_id})}"

    async def grant(self, grant_type: str, **fields: str) -> Mapping[str, Any]:
        """Return the answer of the token endpoint to a grant.

        Raises:
            GrantRefused: the provider refuses it.
            ProviderUnavailable: the provider doesn't answer.
        """
        described = await self.description()
        settings = self._settings
        method = "none" if settings.client_secret is None else "client_secret_basic"
        client = ClientAuth(settings.client_id, settings.client_secret, method)
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        body = prepare_token_request(grant_type, **fields)
        url, headers, body = client.prepare("POST", described.token_endpoint, headers, body)
        answer = _parsed(await self._request("POST", url, headers, body.encode(), refusals=(400, 401, 403)))
        if "error" in answer:
            # The provider may send any bytes as its error
            raise GrantRefused(ascii(answer["error"])[1:-1][:80])
        return answer

    def _begin_fetch(self) -> asyncio.Task[str | None] | None:
        """Return the fetch that runs, else a new one; None above the rate."""
        if self._fetching is None or self._fetching.done():
            if self._fetches.take(self._clock()):
                return None
            self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    async def _fetch_once(self) -> None:
        """Fetch the keys, together with everyone who waits for them.

        Raises:
            ProviderUnavailable: the provider doesn't answer, or was asked too often.
        """
        running = self._begin_fetch()
        if running is None:
            raise ProviderUnavailable("The identity provider was asked for its keys too often lately.")
        problem = await asyncio.shield(running)
        if problem is not None:
            raise ProviderUnavailable(problem)

    async def _fetch(self) -> str | None:
        """Fetch the keys; return why that failed, None if it succeeded."""
        try:
            raw = await self._request("GET", (await self.description()).jwks_uri)
            before = self._keys
            if before is not None and before.raw == raw:
                self._keys = _Keys(before.keys, raw, before.generation, self._clock())
                return None
            self._keys = _Keys(key_set(_parsed(raw)), raw, self.generation + 1, self._clock())
        except ProviderUnavailable as error:
            _LOG.warning("identity_provider_unavailable", why=str(error))
            return str(error)
        _LOG.info("identity_provider_keys_changed", keys=len(self._keys.keys.keys))
        return None

    async def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        refusals: tuple[int, ...] = (),
    ) -> bytes:
        """Return the body of an answer, bounded in size and time."""
        _check_endpoint(url, self._settings.issuer)
        sent = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        try:
            async with asyncio.timeout(ANSWER_S_MAX), self._open:
                http = await self._client()
                async with http.stream(method, url, headers=sent, content=body) as answer:
                    if not answer.is_success and answer.status_code not in refusals:
                        raise ProviderUnavailable(f"The identity provider answers {answer.status_code}.")
                    return await _bounded(answer)
        except TimeoutError:
            raise ProviderUnavailable("The identity provider doesn't answer in time.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if verification_error(error) is not None:
                raise ProviderUnavailable(_UNTRUSTED) from None
            raise ProviderUnavailable(
                f"The identity provider can't be reached ({type(error).__name__})."
            ) from None

    async def _client(self) -> httpx.AsyncClient:
        """Return the client. Its certificates are read in a thread, because that takes a while."""
        if self._http is None:
            issuer = urlsplit(self._settings.issuer)
            local = issuer.scheme == "http" and is_loopback(issuer.hostname or "")
            made = await asyncio.to_thread(
                httpx.AsyncClient,
                timeout=httpx.Timeout(ANSWER_S_MAX, connect=CONNECT_S_MAX),
                limits=httpx.Limits(max_connections=REQUESTS_OPEN_MAX),
                follow_redirects=False,
                trust_env=not local,
            )
            http = self._http = self._http or made  # another request may have made one meanwhile
            return http
        return self._http


async def _bounded(answer: httpx.Response) -> bytes:
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise ProviderUnavailable("The identity provider compresses its answer, which wasn't asked for.")
    content = bytearray()
    async for piece in answer.aiter_raw():
        content += piece
        if len(content) > ANSWER_BYTES_MAX:
            raise ProviderUnavailable("The identity provider's answer is too large.")
    return bytes(content)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise ProviderUnavailable("The identity provider's answer isn't JSON.") from None
    if not isinstance(document, dict):
        raise ProviderUnavailable("The identity provider's answer isn't an object.")
    return document


def described(document: Mapping[str, Any], issuer: str) -> ProviderDescription:
    """Return the endpoints of a discovery document.

    Raises:
        ProviderUnavailable: the document has another issuer, or lacks an endpoint.
    """
    if document.get("issuer") != issuer:
        raise ProviderUnavailable(
            f"The identity provider calls itself {str(document.get('issuer'))[:200]!r}, not {issuer!r}: "
            "write --oidc-issuer exactly as it does."
        )
    endpoints = {}
    for name in _ENDPOINTS:
        url = document.get(name)
        if not isinstance(url, str):
            raise ProviderUnavailable(f"The identity provider names no {name}.")
        _check_endpoint(url, issuer)
        endpoints[name] = url
    return ProviderDescription(**endpoints, end_session_endpoint=_end_of(document, issuer))


def _end_of(document: Mapping[str, Any], issuer: str) -> str | None:
    """Return the sign-out endpoint; None if its address isn't safe."""
    url = document.get("end_session_endpoint")
    if not isinstance(url, str) or len(url) > _ADDRESS_LENGTH_MAX:
        return None
    with suppress(ProviderUnavailable):
        _check_endpoint(url, issuer)
        return url
    return None


def _check_endpoint(url: str, issuer: str) -> None:
    """Refuse an endpoint that would get secrets unencrypted, unless the issuer is local and plain."""
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    except ValueError:
        scheme, host = "", ""
    if not url.isascii() or not url.isprintable():
        raise ProviderUnavailable("The identity provider names an endpoint that is no address.")
    if scheme == "https" and host:
        return
    if scheme == "http" and is_loopback(host) and issuer.startswith("http:"):
        return
    raise ProviderUnavailable("The identity provider names an endpoint without HTTPS.")


def key_set(document: Mapping[str, Any]) -> KeySet:
    """Return the public keys for signatures in a document. Keys that can't be used are left out."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ProviderUnavailable("The identity provider's keys can't be read.")
    keys = KeySet([])
    for key in listed[:KEYS_MAX]:
        if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        if key.get("use", "sig") != "sig":
            continue
        try:
            keys.keys += KeySet.import_key_set({"keys": [key]}).keys
        except Exception as error:  # noqa: BLE001 - keys of a kind that the library doesn't know
            _LOG.debug("identity_provider_key_left_out", why=type(error).__name__)
    return keys


def _has(keys: KeySet, kid: str | None) -> bool:
    return kid is None or any(key.kid == kid for key in keys.keys)
