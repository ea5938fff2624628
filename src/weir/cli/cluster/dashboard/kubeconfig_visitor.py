"""The one person of `weir dashboard` on a laptop: they have the rights of their kubeconfig.

The server listens on loopback, and a link that works once signs in.
"""

import time

from weir.api.access import SignInWays
from weir.cli.cluster.dashboard.cluster_view import ClusterView
from weir.dashboard.browser_checks import COOKIE, loopback_refusal
from weir.dashboard.person import DashboardPerson
from weir.dashboard.session_table import SessionTable

CREDENTIAL = "kubeconfig"
SIGNED_OUT = "You aren't signed in here any more: run `weir dashboard` again."


class KubeconfigVisitor:
    """Sessions of that person."""

    is_secure = False
    ways = SignInWays(links_only=True)
    log = "terminal"
    open_paths: frozenset[str] = frozenset()
    health_paths: frozenset[str] = frozenset()

    def __init__(self, view: ClusterView, port: int) -> None:
        self._view = view
        self.cookie = (
            # Cookies ignore the port, and a pool's dashboard may use another port of this host
            f"{COOKIE}_{port}"
        )
        self.sessions = SessionTable(time.time, is_known=lambda _: True, signed_out=SIGNED_OUT)

    def make_code(self) -> str:
        """Return the code of a link that signs in once, within a minute."""
        return self.sessions.make_code(CREDENTIAL)[0]

    def host_refusal(self, host: str) -> str | None:
        """Return why a Host header is refused, or None."""
        return loopback_refusal(host)

    def view(self, credential: str) -> ClusterView:
        """Return the cluster as the person sees it."""
        assert credential == CREDENTIAL
        return self._view

    async def person(self, credential: str) -> DashboardPerson:
        """Return the person."""
        return await self.view(credential).person()

    def ended(self, credential: str) -> str | None:  # noqa: ARG002 - a kubeconfig renews itself
        """Return None: sessions end with the process only."""
        return None

    async def leave(self, credential: str) -> str | None:  # noqa: ARG002 - the process goes on for other tabs
        """Return no page of an identity provider."""
        return None
