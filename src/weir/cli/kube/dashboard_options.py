"""Options of the dashboard in a cluster, of `weir kube manifests` and `weir kube bundle`, checked."""

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from cyclopts import Parameter

from weir.cli.kube import option_checks as check
from weir.cli.options.option_types import Names

if TYPE_CHECKING:
    from weir.kubernetes.install.pods.dashboard_server import DashboardOptions

_ISSUER = re.compile(r"https://[A-Za-z0-9./:_~-]{1,500}", re.ASCII)
_URL = re.compile(r"https://[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(:[0-9]{1,5})?", re.ASCII)
_CLIENT = re.compile(r"[A-Za-z0-9./:_~-]{1,253}", re.ASCII)
_SCOPES = re.compile(r"[A-Za-z0-9./:_-]{1,128}(,[A-Za-z0-9./:_-]{1,128}){0,15}", re.ASCII)
_MEMORY = re.compile(r"[0-9]+(k|M|G|T|Ki|Mi|Gi|Ti)?", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DashboardServerOptions:
    """The dashboard in the cluster, behind a sign-in with OpenID Connect."""

    dashboard_url: str | None = None
    """Run the dashboard at this address, such as https://weir.example.org. It needs --dashboard-issuer."""
    dashboard_issuer: str | None = None
    """URL of the identity provider, exactly as its tokens and the API server's settings name it."""
    dashboard_client_id: str = "weir"
    """Client of the provider; the API server must take its tokens."""
    dashboard_client_secret: str | None = None
    """Secret whose key client-secret is the secret of the client; none for a public client."""
    dashboard_tls_secret: str = "weir-dashboard-tls"  # noqa: S105 - the name of an object
    """Secret of the type kubernetes.io/tls with the certificate for the address."""
    dashboard_authorities: str | None = None
    """ConfigMap whose key ca.crt is the authority of the provider's certificate; none for a public one."""
    dashboard_scopes: str | None = None
    """Scopes to ask for besides openid, profile and email, separated by commas, such as groups."""
    dashboard_reachable_from: Names = ()
    """Address ranges and namespaces that may connect to the dashboard; any by default."""
    dashboard_may_call: Names = ()
    """Destinations of the dashboard besides port 443, such as keycloak:8443."""
    dashboard_memory: str = "512Mi"
    """Memory of the dashboard's pod."""
    dashboard_trusted_proxies: Names = ()
    """Address ranges of ingress controllers whose X-Forwarded-For counts, such as 10.0.0.0/28."""

    @property
    def dashboard(self) -> "DashboardOptions | None":
        """Return the options of the Deployment; None without one.

        Raises:
            ValueError: an option has a mistake, or one is missing; the sentence names the flag.
        """
        from weir.dashboard.trusted_proxies import read_trusted_proxies
        from weir.kubernetes.install.pods.dashboard_server import DashboardOptions
        from weir.kubernetes.install.pods.network import destination, source

        if all(getattr(self, field.name) == field.default for field in fields(self)):
            return None
        if self.dashboard_url is None or self.dashboard_issuer is None:
            missing = "--dashboard-url" if self.dashboard_url is None else "--dashboard-issuer"
            raise ValueError(f"the dashboard needs an address and an identity provider: add {missing}")
        scopes = self.dashboard_scopes
        proxies = read_trusted_proxies("--dashboard-trusted-proxies", self.dashboard_trusted_proxies)
        return DashboardOptions(
            check.like("--dashboard-url", _URL, self.dashboard_url, "https://weir.example.org"),
            check.like("--dashboard-issuer", _ISSUER, self.dashboard_issuer, "https://sso.example.org"),
            check.like("--dashboard-client-id", _CLIENT, self.dashboard_client_id, "weir"),
            check.if_given("--dashboard-client-secret", check.name, self.dashboard_client_secret),
            check.one("--dashboard-tls-secret", check.name, self.dashboard_tls_secret),
            check.if_given("--dashboard-authorities", check.name, self.dashboard_authorities),
            ()
            if scopes is None
            else tuple(check.like("--dashboard-scopes", _SCOPES, scopes, "groups,offline_access").split(",")),
            check.distinct("--dashboard-reachable-from", source, self.dashboard_reachable_from),
            check.distinct("--dashboard-may-call", destination, self.dashboard_may_call),
            check.like("--dashboard-memory", _MEMORY, self.dashboard_memory, "512Mi"),
            tuple(map(str, proxies.ranges)),
        )
