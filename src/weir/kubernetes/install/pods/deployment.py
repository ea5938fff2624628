"""The Deployment of an installation, and the objects around its pods.

Two replicas, one of which leads. The pods need no rights on their node and no fixed user, so that
restricted profiles take them as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.crd.usage_settings import SECRET, SECRETS
from weir.kubernetes.install.parts import (
    CHOSEN,
    CONTAINER_SECURITY,
    HOME_VARIABLE,
    LABELS,
    POD_SECURITY,
    TMP_MOUNT,
    Manifest,
    placement,
    probes,
    secret_volume,
    tmp_volume,
    within,
)
from weir.kubernetes.install.pods.history import HistoryStorage
from weir.kubernetes.install.pods.network import calls_policy, network_policy
from weir.kubernetes.install.pods.notification_secret import NotificationSecret

PORT = 9443
CRITICAL = "system-cluster-critical"
"""A class of every cluster. Without Weir no GPU pod starts, so nothing may preempt it."""


@dataclass(frozen=True, slots=True)
class PodOptions:
    """Options of Weir's own pods."""

    priority_class: str | None = CRITICAL
    requests: Mapping[str, str] = field(default_factory=lambda: {"cpu": "500m", "memory": "512Mi"})
    limits: Mapping[str, str] = field(default_factory=lambda: {"cpu": "4", "memory": "2Gi"})
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, str]] = ()
    pull_secrets: Sequence[str] = ()
    shared_nodes: int = 0  # limit of nodes that Weir may set aside for shares
    overcommit_grace: str = "5m"  # time before pods of an over-committed node are evicted
    may_call: Sequence[str] = ()  # destinations besides the API server
    history: HistoryStorage = field(default_factory=HistoryStorage)
    notifications: NotificationSecret = field(default_factory=NotificationSecret)


def deployment(
    namespace: str,
    image: str,
    replicas: int,
    *,
    scheduler: str,
    devices: str,
    sources: Sequence[str],
    options: PodOptions,
    more_words: Sequence[str] = (),
) -> list[Manifest]:
    """Return the Deployment after everything that its pods need."""
    ports = [{"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}]
    words = ["up", "--on", "kubernetes", "--scheduler", scheduler, "--devices", devices]
    words += ["--shared-nodes", str(options.shared_nodes), "--overcommit-grace", options.overcommit_grace]
    container = _container(
        image, (*words, *options.history.words(), *options.notifications.words(), *more_words), options
    )
    return [
        *_critical_pods(namespace, replicas, options),
        within(
            namespace,
            "networking.k8s.io/v1",
            "NetworkPolicy",
            NAME,
            spec=network_policy(CHOSEN, PORT, sources),
        ),
        *_calls(namespace, options),
        *_names(namespace, options),
        within(namespace, "v1", "Service", NAME, spec={"selector": CHOSEN, "ports": ports}),
        _deployment(namespace, replicas, container, options),
        *_budget(namespace, replicas),
    ]


def _calls(namespace: str, options: PodOptions) -> list[Manifest]:
    """Return a policy for destinations besides the API server."""
    if not options.may_call:
        return []
    spec = calls_policy(CHOSEN, options.may_call)
    return [within(namespace, "networking.k8s.io/v1", "NetworkPolicy", f"{NAME}-calls", spec=spec)]


def _names(namespace: str, options: PodOptions) -> list[Manifest]:
    """Return a policy that lets Weir ask for the addresses of receivers."""
    if not options.notifications.name:
        return []
    spec = calls_policy(CHOSEN, ())
    return [within(namespace, "networking.k8s.io/v1", "NetworkPolicy", f"{NAME}-notifications", spec=spec)]


def _critical_pods(namespace: str, replicas: int, options: PodOptions) -> list[Manifest]:
    """Return a quota for critical pods: some clusters accept them only in namespaces that have one."""
    if options.priority_class is None or not options.priority_class.startswith("system-"):
        return []
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [options.priority_class]}
    spec = {"hard": {"pods": str(2 * replicas + 2)}, "scopeSelector": {"matchExpressions": [scope]}}
    return [within(namespace, "v1", "ResourceQuota", f"{NAME}-critical-pods", spec=spec)]


def _deployment(namespace: str, replicas: int, container: Manifest, options: PodOptions) -> Manifest:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": CHOSEN},
    }
    pod: Manifest = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": 30,
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},  # hooks.slack.com is no pod in `com`
        "securityContext": POD_SECURITY | options.history.security(),
        "topologySpreadConstraints": [spread],
        "containers": [container],
        "volumes": [
            tmp_volume("64Mi"),
            secret_volume("prometheus", SECRET, optional=True),
            *options.history.volumes(),
            *options.notifications.volumes(),
        ],
        **placement(
            options.pull_secrets,
            options.node_selector,
            options.tolerations,
            priorityClassName=options.priority_class,
        ),
    }
    spec = {
        "replicas": replicas,
        **options.history.strategy(),
        "selector": {"matchLabels": CHOSEN},
        "template": {"metadata": {"labels": LABELS}, "spec": pod},
    }
    return within(namespace, "apps/v1", "Deployment", NAME, spec=spec)


def _container(image: str, words: Sequence[str], options: PodOptions) -> Manifest:
    return {
        "name": NAME,
        "image": image,
        "args": [
            *words,
            *("--port", str(PORT), "--service", NAME),
        ],
        "env": [HOME_VARIABLE],
        "ports": [{"name": "https", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"requests": dict(options.requests), "limits": dict(options.limits)},
        "securityContext": CONTAINER_SECURITY,
        **probes(),
        "volumeMounts": [
            TMP_MOUNT,
            {"name": "prometheus", "mountPath": str(SECRETS), "readOnly": True},
            *options.history.mounts(),
            *options.notifications.mounts(),
        ],
    }


def _budget(namespace: str, replicas: int) -> list[Manifest]:
    """Return a budget that keeps one of several when nodes are drained; a single one has to be let go."""
    if replicas < 2:
        return []
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": CHOSEN}}
    return [within(namespace, "policy/v1", "PodDisruptionBudget", NAME, spec=spec)]
