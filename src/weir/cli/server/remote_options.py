"""Options of `weir up` for access from other machines."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

from weir.cli.options.option_types import Names

if TYPE_CHECKING:
    from weir.dashboard.oidc.settings import OidcSettings
    from weir.local.server.settings.remote_access import RemoteAccess

_NEEDED = {
    "listen": "--listen ADDRESS:PORT",
    "tls_certificate": "--tls-certificate FILE",
    "tls_key": "--tls-key FILE",
    "oidc_issuer": "--oidc-issuer URL",
    "oidc_client_id": "--oidc-client-id ID",
}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RemoteOptions:
    """Options of the access to a machine's pool from other machines."""

    listen: str | None = None
    """Address and port for other machines, such as 192.0.2.7:8443. It needs TLS and OpenID Connect."""
    tls_certificate: Path | None = None
    """PEM file with the certificate of --listen and its chain. The server reads it again when it changes."""
    tls_key: Path | None = None
    """PEM file with the key of the certificate; not open to everyone."""
    public_url: str | None = None
    """Address that people use, such as https://gpu1.example.org:8443; by default that of --listen."""
    sessions_domain: str | None = None
    """Domain of sessions in a browser, such as sessions.gpu1.example.org, whose names all lead here."""
    trusted_proxies: Names = ()
    """Address ranges of reverse proxies whose X-Forwarded-For counts, such as 10.0.0.5/32."""
    oidc_issuer: str | None = None
    """URL of the identity provider, exactly as its tokens name it."""
    oidc_client_id: str | None = None
    """Client that the identity provider knows this pool by."""
    oidc_client_secret_file: Path | None = None
    """File with the secret of the client, if it is a confidential one."""
    oidc_cli_client_id: str | None = None
    """Public client of `weir login`; by default --oidc-client-id, if it has no secret."""
    oidc_user_claim: str = "preferred_username"
    """Claim of tokens with the user name."""
    oidc_groups_claim: str = "groups"
    """Claim of tokens with the names of the groups."""
    oidc_admin_group: str | None = None
    """Group of the identity provider whose members administer the pool; by default none."""
    oidc_unix_accounts: Literal["none", "same-name"] = "none"
    """same-name: people of the identity provider act as the Unix accounts with their names, except root."""


def remote_access(options: RemoteOptions) -> "RemoteAccess | None":
    """Return the settings of the access from other machines; None without --listen.

    Raises:
        ValueError: an option can't be read, or is missing; the sentence names it.
    """
    if all(getattr(options, field.name) == field.default for field in fields(options)):
        return None
    missing = [word for name, word in _NEEDED.items() if getattr(options, name) is None]
    if missing:
        wanted = ", ".join(missing)
        raise ValueError(f"other machines reach a pool only with both TLS and OpenID Connect: add {wanted}")
    from weir.dashboard.oidc.settings import checked_public_url
    from weir.dashboard.tls_listener import ListenSettings
    from weir.dashboard.trusted_proxies import read_trusted_proxies
    from weir.local.server.settings.remote_access import (
        RemoteAccess,
        checked_sessions_domain,
        default_public_url,
        read_listen,
    )

    assert options.listen is not None
    assert options.tls_certificate is not None
    assert options.tls_key is not None
    host, port = read_listen(options.listen)
    url = default_public_url(host, port) if options.public_url is None else options.public_url
    url, domain = checked_public_url(url), options.sessions_domain
    listen = ListenSettings(
        host,
        port,
        options.tls_certificate.absolute(),
        options.tls_key.absolute(),
        url,
        sessions_domain=None if domain is None else checked_sessions_domain(domain, url),
        proxies=read_trusted_proxies("--trusted-proxies", options.trusted_proxies),
    )
    return RemoteAccess(listen=listen, oidc=_oidc(options))


def _oidc(options: RemoteOptions) -> "OidcSettings":
    from weir.dashboard.oidc.settings import OidcSettings, checked_issuer, read_secret

    assert options.oidc_issuer is not None
    assert options.oidc_client_id is not None
    secret_file = options.oidc_client_secret_file
    return OidcSettings(
        issuer=checked_issuer(options.oidc_issuer),
        client_id=options.oidc_client_id,
        client_secret=None if secret_file is None else read_secret(secret_file),
        cli_client_id=options.oidc_cli_client_id,
        user_claim=options.oidc_user_claim,
        groups_claim=options.oidc_groups_claim,
        admin_group=options.oidc_admin_group,
        unix_accounts=options.oidc_unix_accounts,
    )
