"""Settings of the sign-in with OpenID Connect, and the checks of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from weir.api.loopback import is_loopback

WAYS = "/api/v1/sign-in"
START = "/api/v1/dashboard/oidc/start"
CALLBACK = "/api/v1/dashboard/oidc/callback"
FLOW_COOKIE = "__Host-weir_oidc"
"""Cookie of a browser during its sign-in at the provider."""
SCOPES = "openid profile email"
FLOW_S = 600.0
"""Time limit of a sign-in at the provider."""
CODE_LENGTH_MAX = 4096
RETRY_S = 15.0
"""Pause before a request to an unreachable provider is repeated."""
UnixAccountRule = Literal["none", "same-name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Settings of the sign-in.

    Attributes:
        issuer: URL of the identity provider, exactly as its tokens name it.
        client_id: the client that the provider knows this pool by; the audience of tokens.
        client_secret: the secret of a confidential client; None for a public one.
        extra_scopes: scopes to ask for besides the usual ones.
        cli_client_id: the public client of `weir login`; the same client by default.
        user_claim: claim with the name of a person; None if another server names people by the token.
        groups_claim: claim with the names of a person's groups.
        admin_group: members of this group of the provider are administrators; None for no group.
        unix_accounts: if people of the provider act as the Unix accounts with their names.
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    extra_scopes: tuple[str, ...] = ()
    cli_client_id: str | None = None
    user_claim: str | None = "preferred_username"
    groups_claim: str = "groups"
    admin_group: str | None = None
    unix_accounts: UnixAccountRule = "none"

    @property
    def login_client(self) -> str | None:
        """Return the client of `weir login`; None if it would need the secret."""
        return self.cli_client_id or (self.client_id if self.client_secret is None else None)

    @property
    def scopes(self) -> str:
        """Return the scopes to ask for."""
        return " ".join(dict.fromkeys((*SCOPES.split(), *self.extra_scopes)))

    @property
    def audiences(self) -> tuple[str, ...]:
        """Return the clients whose tokens this pool accepts."""
        return (self.client_id, *filter(None, (self.cli_client_id,)))


def checked_issuer(issuer: str) -> str:
    """Return the URL of an identity provider if it is safe: https, or http to this machine.

    Raises:
        ValueError: it can't be one.
    """
    parts = _parts("--oidc-issuer", issuer)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_safe or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"--oidc-issuer: {issuer[:200]!r} is not the URL of a provider; write one such as "
            "https://sso.example.org/realms/lab"
        )
    return issuer


def checked_public_url(url: str) -> str:
    """Return the URL at which people reach the HTTPS listener.

    Raises:
        ValueError: it can't be one.
    """
    parts = _parts("--public-url", url)
    is_origin = parts.scheme == "https" and not (parts.query or parts.fragment or parts.username is not None)
    if not is_origin or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(
            f"--public-url: {url[:200]!r} is no address; write one such as https://gpu1.example.org:8443"
        )
    return f"https://{parts.netloc.lower().removesuffix(':443')}"  # browsers omit the default port


def read_secret(path: Path, *, is_mounted: bool = False) -> str:
    """Return the secret in a private file; with `is_mounted`, in a file mounted into a container.

    Raises:
        ValueError: the file can't be used.
    """
    try:
        if not is_mounted and path.stat().st_mode & 0o007:
            raise ValueError(f"--oidc-client-secret-file: {path} is open to everyone: run chmod 640 {path}")
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise ValueError(f"--oidc-client-secret-file: {path} can't be read: {reason}") from None
    if not text or len(text) > 4096 or len(text.split()) != 1:
        raise ValueError(f"--oidc-client-secret-file: {path} doesn't hold one secret; write it on one line")
    return text


def _parts(option: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{option}: {url[:200]!r} can't be read: {error}") from None
    return parts
