"""`weir kube dashboard-server`: the dashboard in a cluster, which the Deployment `weir-dashboard` runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from weir.cli.options.mistakes import CommandError, failures, option_mistakes
from weir.cli.options.numbers import whole_number

if TYPE_CHECKING:
    from weir.dashboard.oidc.settings import OidcSettings


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ProviderOptions:
    """The identity provider."""

    oidc_issuer: str
    """URL of the identity provider, exactly as its tokens name it."""
    oidc_client_id: str
    """Client that the identity provider knows the dashboard by; the API server takes its tokens."""
    oidc_client_secret_file: Path | None = None
    """File with the secret of the client, if it is a confidential one."""
    oidc_extra_scopes: str = ""
    """Scopes to ask for besides openid, profile and email, separated by commas, such as groups."""

    @property
    def settings(self) -> "OidcSettings":
        """Return the settings of the sign-in.

        Raises:
            ValueError: an option can't be used; the sentence names it.
        """
        from weir.dashboard.oidc.settings import OidcSettings, checked_issuer, read_secret

        path = self.oidc_client_secret_file
        return OidcSettings(
            issuer=checked_issuer(self.oidc_issuer),
            client_id=self.oidc_client_id,
            client_secret=None if path is None else read_secret(path, is_mounted=True),
            extra_scopes=tuple(filter(None, self.oidc_extra_scopes.split(","))),
            user_claim=None,  # the API server names the person
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServerPodOptions:
    """The pod, and the API server that it reaches."""

    api_server: str | None = None
    """URL of the API server; that of the pod by default."""
    api_authority: Path = Path("/etc/weir/cluster/ca.crt")
    """PEM file with the authority of the API server's certificate."""
    memory_bytes: Annotated[int, Parameter(env_var="WEIR_MEMORY_BYTES"), whole_number(64 << 20, 1 << 40)] = (
        512 << 20
    )
    """Memory of the process. The lists of all open pages together stay within it."""
    trusted_proxies: str = ""
    """Address ranges of proxies whose X-Forwarded-For counts, separated by commas, such as 10.0.0.0/28."""


def dashboard_server(
    *,
    public_url: str,
    tls_certificate: Path = Path("/etc/weir/tls/tls.crt"),
    tls_key: Path = Path("/etc/weir/tls/tls.key"),
    provider: ProviderOptions,
    host: str = "::",
    port: Annotated[int, whole_number(1, 65_535)] = 8443,
    inside: ServerPodOptions = ServerPodOptions(),
    log_level: Literal["debug", "info", "warning", "error"] = "info",
) -> int:
    """Serve the dashboard in a cluster to people who sign in.

    Parameters
    ----------
    public_url
        Address that people use, such as https://weir.example.org.
    tls_certificate
        PEM file with the certificate and its chain. The server reads it again when it changes.
    tls_key
        PEM file with the key of the certificate.
    host
        Address to listen on; all of them by default.
    port
        Port to listen on.
    log_level
        Least level of the lines in the log.
    """
    from weir.cli.cluster.dashboard.oidc_process import ServerOptions, serve
    from weir.dashboard.oidc.settings import checked_public_url
    from weir.dashboard.page_bundle import NOT_BUILT, index_file
    from weir.dashboard.tls_listener import CertificateUnusable, ListenSettings
    from weir.dashboard.trusted_proxies import read_trusted_proxies
    from weir.kubernetes.api.credentials import NoCredentials
    from weir.service import logging_setup

    if index_file() is None:
        raise CommandError(NOT_BUILT.rstrip("."))
    logging_setup.set_up(log_level, form="json")
    with failures(NoCredentials, CertificateUnusable, OSError), option_mistakes():
        url = checked_public_url(public_url)
        ranges = filter(None, inside.trusted_proxies.split(","))
        proxies = read_trusted_proxies("--trusted-proxies", ranges)
        listen = ListenSettings(host, port, tls_certificate, tls_key, url, is_mounted=True, proxies=proxies)
        serve(
            ServerOptions(
                listen, provider.settings, inside.api_server, inside.api_authority, inside.memory_bytes
            )
        )
    return 0
