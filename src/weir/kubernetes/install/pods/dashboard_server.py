"""The Deployment of the dashboard, and the objects around its pod.

The pod has no token of the cluster and its account no right. The API server is asked with the token of each
person who signs in. Sessions are in memory, so there is one replica.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir import __version__
from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import (
    CONTAINER_SECURITY,
    HOME_VARIABLE,
    POD_SECURITY,
    TMP_MOUNT,
    Manifest,
    placement,
    probes,
    secret_volume,
    tmp_volume,
    within,
)
from weir.kubernetes.install.pods.network import calls_policy, network_policy
from weir.kubernetes.install.rights.roles import service_account

DASHBOARD = f"{NAME}-dashboard"
PORT = 8443
TLS, CLUSTER = "/etc/weir/tls", "/etc/weir/cluster"
CLIENT, PROVIDER = "/etc/weir/client", "/etc/weir/provider"
SECRET_FILE = f"{CLIENT}/client-secret"
SECRET_OPTION, SCOPES_OPTION = "--oidc-client-secret-file", "--oidc-extra-scopes"
PROXIES_OPTION = "--trusted-proxies"
CHOSEN_DASHBOARD = {"app.kubernetes.io/name": DASHBOARD}
_LABELS = {**CHOSEN_DASHBOARD, "app.kubernetes.io/version": __version__}


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Options of the dashboard.

    Attributes:
        url: address that people use, such as https://weir.example.org.
        issuer: URL of the identity provider, exactly as its tokens name it.
        client_id: client that the provider knows the dashboard by.
        client_secret: Secret whose key client-secret is the secret of the client; empty for a public one.
        tls_secret: Secret with the certificate for the address.
        authorities: ConfigMap whose key ca.crt is the provider's authority; empty for a public one.
        extra_scopes: scopes to ask for besides openid, profile and email.
        sources: namespaces and ranges of addresses that reach the port; empty: any.
        may_call: destinations besides port 443, such as that of the provider.
        memory: its memory.
        trusted_proxies: ranges of addresses of proxies whose X-Forwarded-For counts.
    """

    url: str
    issuer: str
    client_id: str = "weir"
    client_secret: str = ""
    tls_secret: str = f"{DASHBOARD}-tls"
    authorities: str = ""
    extra_scopes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    may_call: tuple[str, ...] = ()
    memory: str = "512Mi"
    trusted_proxies: tuple[str, ...] = ()

    def volumes(self) -> list[Manifest]:
        """Return the volumes that not every dashboard has."""
        volumes: list[Manifest] = []
        if self.client_secret:
            volumes.append(secret_volume("client", self.client_secret))
        if self.authorities:
            volumes.append({"name": "provider", "configMap": {"name": self.authorities}})
        return volumes

    def mounts(self) -> list[Manifest]:
        """Return the mounts of those volumes."""
        mounts: list[Manifest] = []
        if self.client_secret:
            mounts.append({"name": "client", "mountPath": CLIENT, "readOnly": True})
        if self.authorities:
            mounts.append({"name": "provider", "mountPath": PROVIDER, "readOnly": True})
        return mounts

    def environment(self) -> list[Manifest]:
        """Return the variables that not every dashboard has."""
        return [{"name": "SSL_CERT_FILE", "value": f"{PROVIDER}/ca.crt"}] if self.authorities else []


def dashboard_server(
    namespace: str,
    image: str,
    options: DashboardOptions,
    *,
    node_selector: Mapping[str, str],
    tolerations: Sequence[Mapping[str, str]],
    pull_secrets: Sequence[str],
) -> list[Manifest]:
    """Return the Deployment after everything that its pod needs, but the Secrets."""
    policy = "networking.k8s.io/v1"
    incoming = network_policy(CHOSEN_DASHBOARD, PORT, options.sources)
    outgoing = calls_policy(CHOSEN_DASHBOARD, options.may_call)
    ports = [{"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}]
    pod = _pod(namespace, image, options) | placement(pull_secrets, node_selector, tolerations)
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": CHOSEN_DASHBOARD},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    return [
        service_account(namespace, DASHBOARD, labels=_LABELS),
        within(namespace, policy, "NetworkPolicy", DASHBOARD, labels=_LABELS, spec=incoming),
        within(namespace, policy, "NetworkPolicy", f"{DASHBOARD}-calls", labels=_LABELS, spec=outgoing),
        within(
            namespace,
            "v1",
            "Service",
            DASHBOARD,
            labels=_LABELS,
            spec={"selector": CHOSEN_DASHBOARD, "ports": ports},
        ),
        within(namespace, "apps/v1", "Deployment", DASHBOARD, labels=_LABELS, spec=spec),
    ]


def _pod(namespace: str, image: str, options: DashboardOptions) -> Manifest:
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "serviceAccountName": DASHBOARD,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 10,
        "securityContext": POD_SECURITY,
        "containers": [_container(namespace, image, options)],
        "volumes": [
            tmp_volume("16Mi"),
            secret_volume("tls", options.tls_secret),
            {"name": "cluster", "configMap": authority},
            *options.volumes(),
        ],
    }


def _container(namespace: str, image: str, options: DashboardOptions) -> Manifest:
    words = ["kube", "dashboard-server", "--public-url", options.url, "--port", str(PORT)]
    words += ["--oidc-issuer", options.issuer, "--oidc-client-id", options.client_id]
    words += [SECRET_OPTION, SECRET_FILE] if options.client_secret else []
    words += [SCOPES_OPTION, ",".join(options.extra_scopes)] if options.extra_scopes else []
    words += [PROXIES_OPTION, ",".join(options.trusted_proxies)] if options.trusted_proxies else []
    limit = {"resource": "limits.memory", "divisor": "0"}  # as the API server would write it
    return {
        "name": DASHBOARD,
        "image": image,
        "args": words,
        "env": [
            HOME_VARIABLE,
            {"name": "WEIR_NAMESPACE", "value": namespace},
            {"name": "WEIR_MEMORY_BYTES", "valueFrom": {"resourceFieldRef": limit}},
            *options.environment(),
        ],
        "ports": [{"name": "https", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "100m", "memory": options.memory},
            "limits": {"cpu": "2", "memory": options.memory},
        },
        "securityContext": CONTAINER_SECURITY,
        **probes(),
        "volumeMounts": [
            TMP_MOUNT,
            {"name": "tls", "mountPath": TLS, "readOnly": True},
            {"name": "cluster", "mountPath": CLUSTER, "readOnly": True},
            *options.mounts(),
        ],
    }
