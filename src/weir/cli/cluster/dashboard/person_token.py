"""ID token of one person for requests to the API server: kept in memory only, and renewed in time."""

import asyncio
import ssl
import time
from collections.abc import Callable

from weir.cli.cluster.dashboard.api_address import ApiAddress
from weir.dashboard.oidc.code_flow import CodeFlow, Granted
from weir.dashboard.oidc.errors import GrantRefused, ProviderUnavailable, TokenInvalid
from weir.dashboard.oidc.settings import RETRY_S
from weir.kubernetes.api.credentials import NoCredentials

RENEW_BEFORE_S = 60.0
"""Time before its expiry at which a token is renewed; at most a third of its lifetime."""
REFUSED_AGAIN_S = 10.0
"""Minimum age of a token that is renewed after a refusal by the API server."""


class PersonToken:
    """Credentials of an API client: the token of a person."""

    server_name: str | None = None
    proxy: str | None = None
    namespace = ""
    is_verified = True

    def __init__(
        self,
        address: ApiAddress,
        flow: CodeFlow,
        granted: Granted,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.server = address.url
        self._context = address.context
        self._flow = flow
        self._clock = clock
        self._granted = granted
        self._since_s = clock()
        self._tried_s = -RETRY_S
        self._renewing: asyncio.Task[None] | None = None
        self.ended: str | None = None
        """Reason for which the person has to sign in again; None while they needn't."""

    def __repr__(self) -> str:
        return f"PersonToken({self.server!r})"

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context."""
        return self._context

    async def authorization(self, *, refused: bool = False) -> str:
        """Return the header with the token, which is renewed shortly before its end.

        Raises:
            NoCredentials: the sign-in has ended, or can't be renewed now.
        """
        now_s = self._clock()
        if self._is_due(now_s) or (refused and now_s - self._since_s > REFUSED_AGAIN_S):
            await self._renew_once()
        if self.ended is None and self._clock() >= self._granted.identity.expires_s:
            if self._granted.refresh_token:
                raise NoCredentials(
                    "Your sign-in has to be renewed, and the identity provider doesn't answer."
                )
            self.ended = "Your sign-in has expired: sign in again."
        if self.ended is not None:
            raise NoCredentials(self.ended)
        return f"Bearer {self._granted.id_token}"

    def close(self) -> None:
        """Cancel a renewal that has begun."""
        self.ended = self.ended or "You have signed out: sign in again."
        if self._renewing is not None:
            self._renewing.cancel()

    def _is_due(self, now_s: float) -> bool:
        expires_s = self._granted.identity.expires_s
        return now_s >= expires_s - min(RENEW_BEFORE_S, (expires_s - self._since_s) / 3)

    async def _renew_once(self) -> None:
        """Renew the token, together with all requests that wait for that.

        A request that gives up doesn't end it: the provider may have replaced the refresh token already.
        """
        if self._granted.refresh_token is None or self.ended is not None:
            return
        if self._renewing is None or self._renewing.done():
            if abs(self._clock() - self._tried_s) < RETRY_S:
                return
            self._renewing = asyncio.create_task(self._renew(self._granted.refresh_token))
        await asyncio.shield(self._renewing)

    async def _renew(self, refresh_token: str) -> None:
        before = self._granted
        try:
            granted = await self._flow.renew(refresh_token)
        except ProviderUnavailable:
            self._tried_s = self._clock()
            return
        except (GrantRefused, TokenInvalid) as error:
            self.ended = f"The identity provider doesn't renew your sign-in ({error}): sign in again."
            return
        if granted.identity.subject != before.identity.subject:
            self.ended = "The identity provider names another person for your session: sign in again."
            return
        kept = granted.refresh_token or refresh_token
        self._granted = Granted(granted.identity, kept, granted.id_token)
        self._since_s = self._clock()
