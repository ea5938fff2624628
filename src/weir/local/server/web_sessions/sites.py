"""Sites at which the proxy of sessions answers: an address of loopback, or a host name over HTTPS."""

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from weir.dashboard.browser_checks import is_this_machine
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.web_sessions.addresses import SessionAddresses
from weir.local.server.web_sessions.session_hosts import SessionHosts


class SessionSite(Protocol):
    """Place of a connection."""

    @property
    def scheme(self) -> str:
        """Return the scheme of its addresses."""
        ...

    @property
    def peer_uid(self) -> int | None:
        """Return the account on this machine that connected; None if it isn't known."""
        ...

    @property
    def cookie(self) -> str:
        """Return the name of the cookie of a view."""
        ...

    def attributes(self, path: str, /) -> str:
        """Return the attributes of that cookie. `path`: that of the session."""
        ...

    def check_host(self, host: str) -> None:
        """Refuse a Host header that names another place.

        Raises:
            RequestRefused: the header names another place.
        """
        ...

    def is_of(self, user: str, workload: str, /) -> bool:
        """Return True if a person's session is here."""
        ...

    def sign_in(self, workload: str, /) -> str | None:
        """Return the page where people get a link to a session; None if they get it elsewhere."""
        ...


@dataclass(frozen=True, slots=True)
class LoopbackSite:
    """Site on the loopback address. Only connections from this machine reach it; any Host header will do."""

    addresses: SessionAddresses
    address: str
    peer_uid: int | None
    scheme = "http"

    @property
    def cookie(self) -> str:
        """Return the name of the cookie: cookies are of a host, and each port may be another pool."""
        return f"weir_view_{self.addresses.port}"

    def attributes(self, path: str) -> str:
        """Return attributes that keep the cookie to its session: a person's sessions share the address."""
        return f"Path={path}; HttpOnly; SameSite=Lax"

    def check_host(self, host: str) -> None:
        """Refuse a host that isn't this machine."""
        if not is_this_machine(host):
            raise RequestRefused(
                403, "Sessions answer to 127.0.0.1 alone: use a tunnel from another machine."
            )

    def is_of(self, user: str, _workload: str) -> bool:
        """Return True if this is the person's address."""
        return self.addresses.address_of(user) == self.address

    def sign_in(self, _workload: str) -> str | None:
        """Return None: the dashboard may be at a forwarded port."""
        return None


@dataclass(frozen=True, slots=True)
class HostSite:
    """Host name of one session, which the connection's handshake named."""

    hosts: SessionHosts
    name: str
    peer_uid = None
    scheme = "https"
    cookie = "__Host-weir_view"

    def attributes(self, _path: str) -> str:
        """Return attributes with which browsers take the cookie from this very host alone."""
        return "Path=/; Secure; HttpOnly; SameSite=Lax"

    def check_host(self, host: str) -> None:
        """Refuse a Host header that differs from the host name of the TLS handshake."""
        if host.lower() != self.hosts.with_port(self.name):
            raise RequestRefused(421, "This connection is for the session of another host.")

    def is_of(self, user: str, workload: str) -> bool:
        """Return True if this is the host of the person's session."""
        return self.hosts.host_of(user, workload) == self.hosts.with_port(self.name)

    def sign_in(self, workload: str) -> str | None:
        """Return the page of the workload in the dashboard."""
        return f"{self.hosts.public_url}/#/workload/{quote(workload, safe='')}"
