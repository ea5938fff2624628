"""People who have signed in to a cluster's dashboard with OpenID Connect, each with their own token.

All of it is in memory: after a restart people sign in again. What a person sees and does is decided by the
API server, by their token. So each has an API client, and watches of their own.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from structlog import get_logger

from weir.api.access import SignInWays
from weir.cli.cluster.dashboard.api_address import ApiAddress
from weir.cli.cluster.dashboard.cluster_view import LOG_PODS_MAX, LOGS_OPEN_MAX, ClusterView
from weir.cli.cluster.dashboard.cluster_watch import ClusterLive, WatchBroken
from weir.cli.cluster.dashboard.person_token import PersonToken
from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.cli.cluster.dashboard.shared_states import SharedStates
from weir.cli.cluster.dashboard.watch_capacity import MEMORY_BYTES, WatchCapacity, workloads_max
from weir.cli.cluster.person import reviewed_user
from weir.dashboard.browser_checks import SECURE_COOKIE, public_refusal
from weir.dashboard.oidc.code_flow import CodeFlow, Granted
from weir.dashboard.oidc.provider import IdentityProvider
from weir.dashboard.oidc.settings import CALLBACK, START, OidcSettings
from weir.dashboard.person import ClusterScope, DashboardPerson
from weir.dashboard.session_table import SessionTable, SignInRefused
from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.errors import ApiError, ApiRefused

SESSION_S = 12 * 3600.0
SESSIONS_MAX = 200
SESSIONS_PER_PERSON_MAX = 5
CONNECTIONS_MAX = 24 + LOGS_OPEN_MAX * LOG_PODS_MAX
"""Connections of one session to the API server: each followed pod has one."""
TIDY_S = 60.0
IDLE_S = 300.0
"""Time without an open page after which a session's watches stop; the next page starts new ones."""
HEALTH = frozenset({"/healthz", "/readyz"})
PREFIX = "oidc:"
SIGNED_OUT = "You aren't signed in here any more: sign in again."
_LOG = get_logger(__name__)


@dataclass(slots=True)
class _Session:
    subject: str
    user: str  # name of the person at the API server
    token: PersonToken
    api: ApiClient
    view: ClusterView
    until_s: float
    seen_s: float  # last time with an open page
    choosing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def end(self) -> None:
        """End the watches and the client of the session."""
        self.token.close()
        await self.view.live.close()
        await self.api.__aexit__(None, None, None)


class SignedInPeople:
    """Sessions of people. Belongs to the event loop."""

    cookie = SECURE_COOKIE
    is_secure = True
    ways = SignInWays(links_only=True, dashboard=START)
    log = "log"
    open_paths = frozenset({START, CALLBACK})
    health_paths = HEALTH

    def __init__(
        self,
        settings: OidcSettings,
        address: ApiAddress,
        public_url: str,
        *,
        memory_bytes: int = MEMORY_BYTES,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the sessions. `clock` has the time as in tokens, `steady` measures ages of sessions."""
        self.provider = IdentityProvider(settings)
        self.flow = CodeFlow(settings, self.provider, public_url, clock)
        self.public_host = public_url.removeprefix("https://")
        self._settings = settings
        self._address = address
        self._clock = clock
        self._steady = steady
        self._people: dict[str, _Session] = {}
        self._capacity = WatchCapacity(workloads_max(memory_bytes), self._watches)
        self._states = SharedStates()
        self.sessions = SessionTable(
            clock, is_known=self._people.__contains__, signed_out=SIGNED_OUT, again="sign in again"
        )

    def host_refusal(self, host: str) -> str | None:
        """Return why a Host header is refused, or None."""
        return public_refusal(host, self.public_host)

    # Sessions

    async def begin(self, granted: Granted) -> str:
        """Return the credential of a new session.

        Raises:
            RequestProblem: the API server doesn't take the person's token, or doesn't answer.
        """
        token = PersonToken(self._address, self.flow, granted, self._clock)
        api = ApiClient(token, ClientLimits(connections=CONNECTIONS_MAX))
        await api.__aenter__()
        try:
            user = await reviewed_user(api)
        except ApiError as error:
            token.close()
            await api.__aexit__(None, None, None)
            raise self._not_taken(error) from None
        now_s, subject = self._steady(), granted.identity.subject
        over = self._make_way(subject)
        credential = PREFIX + sha256(secrets.token_bytes(32)).hexdigest()
        view = ClusterView(
            api, self.public_host, namespace=None, capacity=self._capacity, states=self._states
        )
        self._people[credential] = _Session(subject, user, token, api, view, now_s + SESSION_S, now_s)
        _LOG.info("signed_in", user=user, sessions=len(self._people))
        for session in over:  # after the new session is counted, because others may sign in meanwhile
            await session.end()
        return credential

    def _watches(self) -> Iterator[ClusterLive]:
        return (session.view.live for session in [*self._people.values()])

    def _not_taken(self, error: ApiError) -> RequestProblem:
        """Return the refusal of a sign-in whose token the API server refused, or couldn't review."""
        if isinstance(error, ApiRefused) and error.status == 401:
            _LOG.warning("token_refused_by_api_server", issuer=self._settings.issuer)
            return RequestProblem(
                403,
                "The cluster's API server doesn't accept the tokens of your identity provider: an "
                f"administrator has to configure it for the issuer {self._settings.issuer} and the client "
                f"{self._settings.client_id}.",
            )
        _LOG.warning("api_server_unavailable", why=str(error))
        return RequestProblem(503, "The cluster's API server doesn't answer now: try again.")

    def _make_way(self, subject: str) -> list[_Session]:
        """Remove the oldest sessions beyond the limits, and return them."""
        own = [key for key, session in self._people.items() if session.subject == subject]
        gone = own[: max(0, len(own) - SESSIONS_PER_PERSON_MAX + 1)]
        others = [key for key in self._people if key not in gone]
        gone += others[: max(0, len(others) - SESSIONS_MAX + 1)]
        return [self._people.pop(key) for key in gone]

    async def _end(self, credential: str) -> None:
        session = self._people.pop(credential, None)
        if session is not None:
            await session.end()

    def _session(self, credential: str) -> _Session:
        session = self._people.get(credential)
        if session is None or session.until_s <= self._steady():
            raise SignInRefused(SIGNED_OUT)
        if session.token.ended is not None:
            raise SignInRefused(session.token.ended)
        return session

    def view(self, credential: str) -> ClusterView:
        """Return the cluster as the person of a session sees it.

        Raises:
            SignInRefused: their sign-in has ended.
        """
        return self._session(credential).view

    def ended(self, credential: str) -> str | None:
        """Return the cause of a session's end; None if it is valid."""
        try:
            self._session(credential)
        except SignInRefused as error:
            return str(error)
        return None

    async def leave(self, credential: str) -> str | None:
        """End a session; return the provider's sign-out page, if there is one."""
        session = self._people.get(credential)
        if session is not None:
            _LOG.info("signed_out", user=session.user)
        await self._end(credential)
        return self.provider.end_session_address

    # Choice of the namespace

    async def person(self, credential: str) -> DashboardPerson:
        """Return the person; without a namespace if they have to choose one first."""
        session = self._session(credential)
        try:
            person = await session.view.person()
        except WatchBroken as error:
            if error.status != 403 or session.view.namespace is not None or session.token.ended:
                raise
            scope = ClusterScope(name=self.public_host, namespace="", controls=[], chooses=True)
            return DashboardPerson(user=session.user, is_admin=False, projects=[], roles={}, cluster=scope)
        assert person.cluster is not None
        return person.model_copy(update={"cluster": person.cluster.model_copy(update={"chooses": True})})

    async def choose(self, credential: str, namespace: str | None) -> DashboardPerson:
        """Show one namespace, or all with None; return the person with it.

        Raises:
            WatchBroken: the person may not watch this namespace; the previous one stays shown.
        """
        session = self._session(credential)
        async with session.choosing:  # one choice at a time, because each has a watch of any size
            view = session.view.for_namespace(namespace)
            try:
                if namespace is not None:
                    await view.person()
                self._session(credential)  # fails if the session has ended meanwhile
            except BaseException:
                await view.live.close()
                raise
            before, session.view = session.view, view
            await before.live.close()
        return await self.person(credential)

    # Life

    async def tidy(self) -> None:
        """End sessions that are over, and watches without a page, until cancelled."""
        while True:
            await asyncio.sleep(TIDY_S)
            await self.tidy_once()

    async def tidy_once(self) -> None:
        """End sessions that are over, and watches without a page."""
        now_s = self._steady()
        for credential, session in [*self._people.items()]:
            if self.ended(credential) is not None:
                await self._end(credential)
            elif session.view.live.has_readers:
                session.seen_s = now_s
            elif now_s - session.seen_s > IDLE_S:
                await session.view.live.stop()

    async def close(self) -> None:
        """End all sessions."""
        for credential in [*self._people]:
            await self._end(credential)
        await self.provider.close()
