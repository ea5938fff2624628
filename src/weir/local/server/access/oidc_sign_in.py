"""Sign-in of people by an identity provider: their tokens, their sessions in browsers, and their rights here.

A credential of these people is `oidc:` and a hash. Its token is in memory alone: after a restart a browser
signs in again, and no token of a provider is ever on disk.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from weir.dashboard.oidc.code_flow import CodeFlow
from weir.dashboard.oidc.errors import GrantRefused, ProviderUnavailable, TokenInvalid
from weir.dashboard.oidc.id_tokens import LEEWAY_S, OidcIdentity, key_of, verified
from weir.dashboard.oidc.provider import IdentityProvider
from weir.dashboard.oidc.settings import RETRY_S, OidcSettings
from weir.local.server.access.account_mode import OIDC_PREFIX as PREFIX
from weir.local.server.access.account_mode import PoolAccounts
from weir.local.server.access.authorization import Person, RoleLookup
from weir.local.server.http.problem_details import RequestRefused

TOKENS_MAX = 4096
"""Verified tokens that are remembered."""
SESSIONS_MAX = 1000
SESSIONS_PER_PERSON_MAX = 20
SESSION_S = 12 * 3600.0
"""Length of a session of the dashboard; the provider is asked again before that."""
RENEW_S = 300.0
"""Age of a session's identity after which it is read from the provider again."""
UNRENEWED_S_MAX = 3600.0
"""Age of an identity that is still accepted while the provider is away."""
AGAIN = "run `weir login` again"


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    identity: OidcIdentity
    generation: int  # version of the provider's keys


@dataclass(slots=True)
class _BrowserSession:
    identity: OidcIdentity
    refresh_token: str | None
    until_s: float
    verified_s: float
    tried_s: float


class OidcSignIn:
    """People of a provider. Belongs to the event loop."""

    def __init__(
        self,
        settings: OidcSettings,
        accounts: PoolAccounts,
        roles: RoleLookup,
        *,
        public_url: str,
        provider: IdentityProvider | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the sign-in. `clock` has the time as in tokens, `steady` measures ages of sessions."""
        self.settings = settings
        self.provider = IdentityProvider(settings) if provider is None else provider
        self.flow = CodeFlow(settings, self.provider, public_url, clock)
        self._accounts = accounts
        self._roles = roles
        self._clock = clock
        self._steady = steady
        self._tokens: dict[str, _VerifiedToken] = {}
        self._sessions: dict[str, _BrowserSession] = {}

    async def close(self) -> None:
        """End all requests to the provider."""
        await self.provider.close()

    async def admit(self, token: str) -> str:
        """Return the credential of a token that the provider signed.

        Raises:
            RequestRefused: the token is invalid, or can't be verified now.
        """
        credential = PREFIX + sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        remembered = self._tokens.get(credential)
        try:
            if remembered is None or remembered.generation != self.provider.generation:
                keys = await self.provider.keys(key_of(token))
                identity = verified(token, keys, self.settings, self._clock())
                self._remember(credential, _VerifiedToken(identity, self.provider.generation))
            else:
                await self.provider.keys(None)  # fetches expired keys again
        except TokenInvalid as error:
            self._tokens.pop(credential, None)
            raise RequestRefused(401, f"This sign-in isn't valid: {error}. To go on, {AGAIN}.") from None
        except ProviderUnavailable as error:
            raise RequestRefused(503, str(error), retry_after_s=RETRY_S) from None
        return credential

    async def begin_session(self, cookie: str, state: str, code: str) -> str:
        """Return the credential of a new session in a browser that comes back from the provider.

        Raises:
            RequestRefused: the provider's answer is invalid.
        """
        try:
            granted = await self.flow.redeem(cookie, state, code)
        except TokenInvalid as error:
            raise RequestRefused(401, f"This sign-in isn't valid: {error}. Sign in again.") from None
        except GrantRefused as error:
            raise RequestRefused(401, f"The identity provider refuses this sign-in ({error}).") from None
        except ProviderUnavailable as error:
            raise RequestRefused(503, str(error), retry_after_s=RETRY_S) from None
        now_s, subject = self._steady(), granted.identity.subject
        self._make_way(subject, now_s)
        length_s = UNRENEWED_S_MAX if granted.refresh_token is None else SESSION_S
        credential = PREFIX + sha256(secrets.token_bytes(32)).hexdigest()
        self._sessions[credential] = _BrowserSession(
            granted.identity, granted.refresh_token, now_s + length_s, now_s, now_s
        )
        return credential

    def _make_way(self, subject: str, now_s: float) -> None:
        """Remove sessions that have ended, and the oldest ones beyond the limits."""
        self._sessions = {key: session for key, session in self._sessions.items() if session.until_s > now_s}
        own = [key for key, session in self._sessions.items() if session.identity.subject == subject]
        for key in own[: max(0, len(own) - SESSIONS_PER_PERSON_MAX + 1)]:
            del self._sessions[key]
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]

    def end_session(self, credential: str) -> None:
        """Forget a session of a browser, with its tokens."""
        self._sessions.pop(credential, None)

    def sign_out_address(self, credential: str) -> str | None:
        """Return the page where this browser ends its session with the provider, if it has one there."""
        return self.provider.end_session_address if credential.startswith(PREFIX) else None

    async def refresh(self, credential: str) -> None:
        """Ask the provider again for the identity of a session, if that was long ago.

        Raises:
            RequestRefused: the provider has ended the session, or was away for too long.
        """
        identity = self._identity(credential)
        session = self._sessions.get(credential)
        now_s = self._steady()
        if session is not None and session.refresh_token:
            if now_s - session.tried_s >= RENEW_S:
                session.tried_s = now_s
                identity = await self._renewed(credential, session, session.refresh_token)
            elif now_s - session.verified_s > UNRENEWED_S_MAX:
                raise RequestRefused(503, "The identity provider is away.", retry_after_s=RETRY_S)
        if self.settings.unix_accounts == "same-name":
            await self._accounts.unix.get(identity.name)

    async def _renewed(self, credential: str, session: _BrowserSession, refresh_token: str) -> OidcIdentity:
        """Return the identity of a session as the provider has it now."""
        try:
            granted = await self.flow.renew(refresh_token)
        except (GrantRefused, TokenInvalid) as error:
            self.end_session(credential)
            raise RequestRefused(401, f"The identity provider has ended your session ({error}).") from None
        except ProviderUnavailable as error:
            session.tried_s = self._steady() - RENEW_S + RETRY_S
            if self._steady() - session.verified_s > UNRENEWED_S_MAX:
                raise RequestRefused(503, str(error), retry_after_s=RETRY_S) from None
            return session.identity
        if granted.identity is not None and granted.identity.subject != session.identity.subject:
            self.end_session(credential)
            raise RequestRefused(401, "The identity provider names another person for your session.")
        session.refresh_token = granted.refresh_token or session.refresh_token
        session.identity = granted.identity
        session.verified_s = self._steady()
        return session.identity

    def is_known(self, credential: str) -> bool:
        """Return True if a credential belongs to a valid session of a browser."""
        return credential in self._sessions

    def person(self, credential: str, *, is_open: bool = False) -> Person:
        """Return the person of a credential, with their present roles.

        `is_open`: a stream that began with this sign-in may go on while its token expires.

        Raises:
            RequestRefused: the sign-in has ended, or the person has no role here.
        """
        identity = self._identity(credential, SESSION_S if is_open else LEEWAY_S)
        user = self._user(identity)
        groups = frozenset(PREFIX + group for group in identity.groups)
        is_admin = self.settings.admin_group is not None and self.settings.admin_group in identity.groups
        roles = {} if is_admin else self._roles(user, groups)
        if not is_admin and not roles:
            raise RequestRefused(
                403,
                f"{PREFIX}{identity.name} has no role in this pool: ask an administrator to make you or "
                "one of your groups a member of a project.",
            )
        return Person(user, is_admin, roles, groups=groups, subject=identity.subject)

    def _user(self, identity: OidcIdentity) -> str:
        """Return the user name for an identity: the name of a Unix account only if settings allow it."""
        accounts = self._accounts
        account = accounts.unix.cached(identity.name) if self.settings.unix_accounts == "same-name" else None
        if account is None or account.uid in (0, accounts.owner_uid) or account.name != identity.name:
            return PREFIX + identity.name
        return account.name

    def _identity(self, credential: str, leeway_s: float = LEEWAY_S) -> OidcIdentity:
        session = self._sessions.get(credential)
        if session is not None and session.until_s > self._steady():
            return session.identity
        token = self._tokens.get(credential)
        if token is None or self._clock() >= token.identity.expires_s + leeway_s:
            raise RequestRefused(
                401, f"Your sign-in has expired: {AGAIN}, or sign in to the dashboard again."
            )
        return token.identity

    def _remember(self, credential: str, token: _VerifiedToken) -> None:
        while len(self._tokens) >= TOKENS_MAX:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[credential] = token
