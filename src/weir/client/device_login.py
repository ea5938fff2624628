"""Login at a pool with OpenID Connect: the device flow (RFC 8628), and the renewal of its tokens."""

import asyncio
import base64
import json
import re
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from os import environ
from typing import Any
from urllib.parse import urlsplit

import httpx

from weir.certificate_failures import verification_error
from weir.client import logins
from weir.client.errors import PoolError, Unreachable
from weir.client.logins import Login
from weir.client.refused_certificates import certificate_sentences
from weir.version import __version__

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
LIMIT_S = 15.0
EARLY_S = 30.0
"""A token is renewed this long before it expires."""
INTERVAL_S, INTERVAL_S_MAX, SLOWER_S = 5.0, 60.0, 5.0
WAIT_S_MAX = 1800.0
_ANSWER_BYTES_MAX = 256 << 10
_AGAIN = "run `weir login`"


class LoginFailed(PoolError):
    """The identity provider doesn't log this person in; the text says why."""


def trusted() -> ssl.SSLContext | bool:
    """Return the CA certificates for servers: those of $SSL_CERT_FILE, else the default ones."""
    file = environ.get("SSL_CERT_FILE")
    return ssl.create_default_context(cafile=file) if file else True


def client_of(url: str) -> httpx.Client:
    """Return an HTTP client for a pool or a provider, which follows no redirects."""
    host = urlsplit(url).hostname or ""
    return httpx.Client(
        headers={"User-Agent": f"weir/{__version__}", "Accept": "application/json"},
        timeout=LIMIT_S,
        verify=trusted(),
        trust_env=host not in ("localhost", "127.0.0.1", "::1"),
        follow_redirects=False,
    )


def log_in(url: str, tell: Callable[[str, str], None], sleep: Callable[[float], None] = time.sleep) -> Login:
    """Log in at a pool, and store the login. `tell` shows a person the address and the code.

    Raises:
        LoginFailed: the pool has no such login, or the provider refuses it.
        Unreachable: pool or provider doesn't answer.
    """
    ways = _ask("GET", f"{url}/api/v1/sign-in", "The pool")
    issuer, client_id = ways.get("issuer"), ways.get("client_id")
    if not issuer:
        raise LoginFailed(f"The pool at {url} has no sign-in with OpenID Connect: set WEIR_TOKEN.")
    if not isinstance(issuer, str) or not isinstance(client_id, str):
        raise LoginFailed(
            f"The pool at {url} has no client for `weir login`: its administrator sets --oidc-cli-client-id."
        )
    described = _described(issuer)
    endpoint = described.get("device_authorization_endpoint")
    if not isinstance(endpoint, str):
        raise LoginFailed(
            f"The identity provider {issuer} has no device flow: its administrator turns it on."
        )
    asked = {"client_id": client_id, "scope": str(ways.get("scopes") or "openid")}
    device = _ask("POST", _safe(endpoint, issuer), "The identity provider", asked)
    if "error" in device:
        raise LoginFailed(f"The identity provider refuses to log in: {_short(device['error'])}.")
    address = device.get("verification_uri_complete") or device.get("verification_uri")
    tell(_short(address), _short(device.get("user_code")))
    granted = _poll(_safe(described.get("token_endpoint"), issuer), client_id, device, sleep)
    login = _login(issuer, client_id, granted, "")
    logins.keep(url, login)
    return login


def _poll(
    endpoint: str, client_id: str, device: Mapping[str, Any], sleep: Callable[[float], None]
) -> Mapping[str, Any]:
    """Return the tokens, once the person has confirmed the login in a browser."""
    interval_s = _number(device.get("interval"), INTERVAL_S, INTERVAL_S_MAX)
    until_s = time.monotonic() + _number(device.get("expires_in"), WAIT_S_MAX, WAIT_S_MAX)
    asked = {
        "grant_type": DEVICE_GRANT,
        "device_code": str(device.get("device_code")),
        "client_id": client_id,
    }
    while time.monotonic() < until_s:
        sleep(interval_s)
        try:
            answer = _ask("POST", endpoint, "The identity provider", asked)
        except Unreachable:
            interval_s = min(INTERVAL_S_MAX, interval_s * 2)  # RFC 8628 asks for this after a lost connection
            continue
        error = answer.get("error")
        if error is None:
            return answer
        if error == "slow_down":
            interval_s = min(INTERVAL_S_MAX, interval_s + SLOWER_S)
        elif error == "access_denied":
            raise LoginFailed("The login was refused in the browser.")
        elif error != "authorization_pending":
            raise LoginFailed(f"The identity provider refuses to log in: {_short(error)}.")
    raise LoginFailed("The code has expired: run `weir login` again.")


def renewed(login: Login) -> Login:
    """Return a login with new tokens.

    Raises:
        LoginFailed: the provider has ended it.
        Unreachable: the provider doesn't answer.
    """
    if not login.refresh_token:
        raise LoginFailed(f"Your login has expired: {_AGAIN}.")
    endpoint = _safe(_described(login.issuer).get("token_endpoint"), login.issuer)
    asked = {
        "grant_type": "refresh_token",
        "refresh_token": login.refresh_token,
        "client_id": login.client_id,
    }
    answer = _ask("POST", endpoint, "The identity provider", asked)
    if "error" in answer:
        raise LoginFailed(f"Your login has ended ({_short(answer['error'])}): {_AGAIN}.")
    return _login(login.issuer, login.client_id, answer, login.refresh_token)


def revoke(login: Login) -> None:
    """Take the refresh token back at the provider.

    Raises:
        PoolError: the provider doesn't answer, or can't.
    """
    endpoint = _described(login.issuer).get("revocation_endpoint")
    if isinstance(endpoint, str) and login.refresh_token:
        asked = {"token": login.refresh_token, "client_id": login.client_id}
        with client_of(login.issuer) as http:
            http.post(_safe(endpoint, login.issuer), data=asked)


def current(url: str, *, refused: str = "") -> Login:
    """Return the login at a pool with a valid token; `refused` is a token that the pool has refused.

    Commands that run at the same time renew it once: the provider may accept a refresh token only once.

    Raises:
        LoginFailed: there is none, or the provider has ended it.
        Unreachable: the provider doesn't answer.
    """
    login = logins.login_of(url)
    if login is not None and _holds(login, refused):
        return login
    with logins.locked():
        login = logins.login_of(url)
        if login is None:
            raise LoginFailed(f"You aren't logged in at {url}: {_AGAIN}.")
        if _holds(login, refused):
            return login
        login = renewed(login)
        logins.replace_locked(url, login)
        return login


def _holds(login: Login, refused: str) -> bool:
    return login.token != refused and time.time() < login.expires_s - EARLY_S


class LoginAuth(httpx.Auth):
    """Adds the token of a login to requests, and renews it when it expires or is refused."""

    def __init__(self, url: str) -> None:
        self._url = url

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request, and resend it with a new token if the pool refuses the old one."""
        login = current(self._url)
        request.headers["Authorization"] = f"Bearer {login.token}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and login.refresh_token:
            login = current(self._url, refused=login.token)
            request.headers["Authorization"] = f"Bearer {login.token}"
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Do the same in an event loop; the renewal runs in a thread."""
        login = await asyncio.to_thread(current, self._url)
        request.headers["Authorization"] = f"Bearer {login.token}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and login.refresh_token:
            login = await asyncio.to_thread(current, self._url, refused=login.token)
            request.headers["Authorization"] = f"Bearer {login.token}"
            yield request


def _described(issuer: str) -> Mapping[str, Any]:
    document = _ask(
        "GET", _safe(issuer, issuer).rstrip("/") + "/.well-known/openid-configuration", "The provider"
    )
    if document.get("issuer") != issuer:
        raise LoginFailed(f"The identity provider at {issuer} calls itself {_short(document.get('issuer'))}.")
    return document


def _safe(url: object, issuer: str) -> str:
    """Return an address, unless secrets would travel unencrypted."""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is not None and parts.hostname:
        is_local = parts.hostname in ("localhost", "127.0.0.1", "::1") and issuer.startswith("http:")
        if parts.scheme == "https" or (parts.scheme == "http" and is_local):
            return parts.geturl()
    raise LoginFailed(f"The identity provider {_short(issuer)} names an address without HTTPS.")


def _ask(method: str, url: str, name: str, fields: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the object that a server answers, with an error of OAuth as one; bounded in size and time."""
    try:
        with client_of(url) as http, http.stream(method, url, data=fields) as answer:
            content = bytearray()
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > _ANSWER_BYTES_MAX:
                    raise LoginFailed(f"{name} at {url} sends too much: check the address.")
            parsed = json.loads(content)
            is_refusal = isinstance(parsed, dict) and isinstance(parsed.get("error"), str)
            if isinstance(parsed, dict) and (answer.is_success or (is_refusal and answer.status_code < 500)):
                return parsed
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if (refused := verification_error(error)) is not None:
            parts = urlsplit(url)
            origin = f"{parts.scheme}://{parts.netloc}"
            raise Unreachable(certificate_sentences(refused, origin)) from None
        why = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or "no answer in time"
        raise Unreachable(f"{name} can't be reached at {url}: {why}.") from None
    except (ValueError, RecursionError):
        raise LoginFailed(f"{name} at {url} doesn't answer as expected: check the address.") from None
    raise LoginFailed(f"{name} at {url} answers {status}: check the address.")


def _login(issuer: str, client_id: str, granted: Mapping[str, Any], refresh_token: str) -> Login:
    token = granted.get("id_token")
    if not isinstance(token, str) or token.count(".") != 2:
        raise LoginFailed("The identity provider sent no ID token: its client needs the scope openid.")
    fresh = granted.get("refresh_token")
    renewal = fresh if isinstance(fresh, str) else refresh_token
    return Login(issuer, client_id, token, renewal, _expires_s(token))


def _expires_s(token: str) -> float:
    """Return the time at which a token expires, in seconds since 1970; 0 if the token states none.

    The pool verifies the token; this only saves requests.
    """
    payload = token.split(".")[1]
    try:
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0.0


def _number(value: object, default: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return default
    return min(float(value), most)


def _short(value: object) -> str:
    """Return a text of the provider as it may be shown: one line without control characters."""
    return "".join(character for character in str(value)[:500] if character.isprintable())
