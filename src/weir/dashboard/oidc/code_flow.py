"""Authorization code flow with PKCE, from the redirect to the provider until the return.

Nothing is kept on the server in between, so that no flood of sign-ins fills it up. The browser keeps one
random text in a cookie. State, nonce and verifier are derived from it with a key of this process: they hold
for that browser alone, for ten minutes.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from weir.dashboard.oidc.errors import TokenInvalid
from weir.dashboard.oidc.id_tokens import OidcIdentity, key_of, verified
from weir.dashboard.oidc.provider import IdentityProvider
from weir.dashboard.oidc.settings import CALLBACK, CODE_LENGTH_MAX, FLOW_S, OidcSettings

_COOKIE_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Granted:
    """Answer of the provider to a sign-in: the identity, its signed token, and a refresh token."""

    identity: OidcIdentity
    refresh_token: str | None = field(repr=False)
    id_token: str = field(default="", repr=False)


class CodeFlow:
    """Sign-ins of browsers that have begun and aren't complete."""

    def __init__(
        self, settings: OidcSettings, provider: IdentityProvider, public_url: str, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._redirect_uri = public_url + CALLBACK
        self._clock = clock
        self._key = secrets.token_bytes(32)

    async def begin(self) -> tuple[str, str]:
        """Return the address at the provider, and the cookie of a new sign-in.

        Raises:
            ProviderUnavailable: the provider can't be asked for its addresses.
        """
        described = await self._provider.description()
        cookie = f"{int(self._clock())}.{secrets.token_urlsafe(32)}"
        address: str = prepare_grant_uri(
            described.authorization_endpoint,
            client_id=self._settings.client_id,
            response_type="code",
            redirect_uri=self._redirect_uri,
            scope=self._settings.scopes,
            state=self._derived("state", cookie),
            nonce=self._derived("nonce", cookie),
            code_challenge=create_s256_code_challenge(self._derived("verifier", cookie)),
            code_challenge_method="S256",
        )
        return address, cookie

    async def redeem(self, cookie: str, state: str, code: str) -> Granted:
        """Return the grant of the provider for the code of a sign-in that this browser began.

        Raises:
            TokenInvalid: the sign-in was begun elsewhere or too long ago, or the token isn't valid.
            GrantRefused: the provider refuses the code.
            ProviderUnavailable: the provider doesn't answer.
        """
        self._check_state(cookie, state)
        if not 0 < len(code) <= CODE_LENGTH_MAX:
            raise TokenInvalid("the identity provider gave no code for it")
        answer = await self._provider.grant(
            "authorization_code",
            code=code,
            redirect_uri=self._redirect_uri,
            code_verifier=self._derived("verifier", cookie),
        )
        return await self._granted(answer, self._derived("nonce", cookie))

    async def renew(self, refresh_token: str) -> Granted:
        """Return the grant of the provider for a refresh token.

        Raises:
            TokenInvalid: the new token isn't valid.
            GrantRefused: the provider has ended the session.
            ProviderUnavailable: the provider doesn't answer.
        """
        return await self._granted(
            await self._provider.grant("refresh_token", refresh_token=refresh_token), None
        )

    def _check_state(self, cookie: str, state: str) -> None:
        begun, _, rest = cookie.partition(".")
        is_whole = (
            len(cookie) <= _COOKIE_LENGTH_MAX and begun.isascii() and begun.isdigit() and len(begun) < 13
        )
        if (
            not is_whole
            or not rest
            or not hmac.compare_digest(self._derived("state", cookie).encode(), state.encode())
        ):
            raise TokenInvalid(
                "the sign-in was started in another browser, or before a restart of the server"
            )
        if not -1.0 <= self._clock() - int(begun) <= FLOW_S:
            raise TokenInvalid("it was begun more than ten minutes ago")

    async def _granted(self, answer: Mapping[str, Any], nonce: str | None) -> Granted:
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise TokenInvalid("the provider sent no ID token")
        keys = await self._provider.keys(key_of(token))
        identity = verified(token, keys, self._settings, self._clock(), nonce)
        renewal = answer.get("refresh_token")
        return Granted(identity, renewal if isinstance(renewal, str) else None, token)

    def _derived(self, purpose: str, cookie: str) -> str:
        digest = hmac.digest(self._key, f"{purpose}:{cookie}".encode("utf-8", "surrogatepass"), sha256)
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
