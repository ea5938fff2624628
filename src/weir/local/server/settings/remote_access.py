"""Access from other machines: a listener with TLS, together with the sign-in that guards it."""

import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from weir.dashboard.oidc.settings import OidcSettings
from weir.dashboard.tls_listener import CertificateUnusable, ListenSettings, check_names, tls_context
from weir.local.server.access.account_mode import INSTALL, AccountMode, PoolAccounts

if TYPE_CHECKING:
    from weir.local.server.access.authorization import RoleLookup
    from weir.local.server.access.oidc_sign_in import OidcSignIn

_DOMAIN = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII
)
_DOMAIN_LENGTH_MAX = 180
"""Limit of the length of a domain, before which the name of a session is put."""


class RemoteAccessRefused(Exception):
    """The settings of the access from other machines can't be used; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAccess:
    """Holds the settings of the access from other machines, and checks them."""

    listen: ListenSettings
    oidc: OidcSettings

    def check(self, accounts: PoolAccounts) -> None:
        """Check that a pool is ready to be opened to other machines.

        Raises:
            RemoteAccessRefused: the pool isn't ready; the sentence names the setting to change.
        """
        if accounts.mode is AccountMode.PERSONAL:
            raise RemoteAccessRefused(
                f"--listen: this pool is personal and serves {accounts.owner} alone. {INSTALL}."
            )
        if self.oidc.unix_accounts == "same-name" and accounts.mode is not AccountMode.UNIX_ACCOUNTS:
            raise RemoteAccessRefused(
                "--oidc-unix-accounts: people have Unix accounts only in a pool of `sudo weir install`."
            )
        try:
            check_names(self.listen, tls_context(self.listen))
        except CertificateUnusable as error:
            raise RemoteAccessRefused(f"{error}.") from None

    def sign_in(self, accounts: PoolAccounts, roles: "RoleLookup") -> "OidcSignIn":
        """Return the sign-in of people of the provider."""
        # Imported on demand, because it takes a while
        from weir.local.server.access.oidc_sign_in import OidcSignIn

        return OidcSignIn(self.oidc, accounts, roles, public_url=self.listen.public_url)


def read_listen(text: str) -> tuple[str, int]:
    """Return host and port of `ADDRESS:PORT`.

    Raises:
        ValueError: the text isn't an address with a port.
    """
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port or parts.path or parts.username is not None:
        raise ValueError(
            f"--listen: {text[:200]!r} is no address; write one such as 192.0.2.7:8443 or [2001:db8::7]:8443"
        )
    return host, port


def checked_sessions_domain(text: str, public_url: str) -> str:
    """Return the domain of sessions in a browser.

    Raises:
        ValueError: the text is no domain.
    """
    domain = text.lower().removeprefix("*.").rstrip(".")
    if len(domain) > _DOMAIN_LENGTH_MAX or _DOMAIN.fullmatch(domain) is None:
        raise ValueError(
            f"--sessions-domain: {text[:200]!r} is no domain; write one such as sessions.gpu1.example.org"
        )
    host = urlsplit(public_url).hostname or ""
    if host == domain or host.endswith(f".{domain}"):
        raise ValueError(
            f"--sessions-domain: the pool's own address {host} is in {domain}: name another domain"
        )
    return domain


def default_public_url(host: str, port: int) -> str:
    """Return the address that people use if none is named: the name of this machine for all its addresses."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - recognized, not listened on
        host = socket.getfqdn().lower()
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
