"""Everything an installation consists of, as objects for `kubectl apply -f -`.

Two replicas, one of which leads; whoever runs them needs no rights on their node and no fixed user, so that
restricted profiles take them as they are. What the account may do is what some part of Weir does, each rule
with the one that needs it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from weir import __version__
from weir.backends.kubernetes.admission.registration import NAME, registrations
from weir.backends.kubernetes.own.definitions import definitions
from weir.backends.kubernetes.own.network import network_policy
from weir.backends.kubernetes.own.policies import OptionalPolicies, policies
from weir.backends.kubernetes.own.shapes import GROUP
from weir.backends.kubernetes.reading.kinds import Kinds, load_kinds
from weir.backends.kubernetes.reading.requests import Devices
from weir.model.workloads import DEFAULT_PRIORITY

PORT = 9443
SECRET = f"{NAME}-webhook"
INSTALLATION = f"{NAME}-installation"
"""A ConfigMap every user may read: the scheduler's name and the resources that are devices."""
MORE_KINDS = f"rbac.{GROUP}/aggregate-to-weir"
"""A label of cluster roles: whoever adds kinds to the table lets Weir read them by one."""
_RBAC = "rbac.authorization.k8s.io"
_POLICY = """\
# How Weir decides; see the manual's page on configuration. This is the default.
preset: fair
"""
_KINDS = """\
# Kinds of objects that make pods, before those Weir knows by itself; see the manual's page on kinds.
kinds: []
"""
_OWN = ("departments", "projects", "topologies", "workloads")
_MEANINGS = {
    "train": "Training: may use more than its project's quota, and may be preempted.",
    "build": "Interactive work: within quota, and not preempted.",
    "inference": "Serving: within quota, and not preempted; first in its project.",
}

Thing = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Installation:
    """What can be said of an installation."""

    namespace: str = "weir-system"
    image: str = f"weir:{__version__}"
    replicas: int = 2
    scheduler: str = "weir"
    devices: tuple[str, ...] = Devices().resources
    sources: tuple[str, ...] = ()  # of traffic to its port, by network.source; empty: any
    optional: OptionalPolicies = field(default_factory=OptionalPolicies)


def manifests(of: Installation, kinds: Kinds | None = None) -> list[Thing]:
    """All objects, in an order in which they can be made."""
    return [
        _thing("v1", "Namespace", of.namespace, labels={**_LABELS, **_RESTRICTED}),
        *definitions(),
        *priority_classes(),
        *access(of, kinds or load_kinds()),
        _within(of, "v1", "ConfigMap", NAME, data={"policy.yaml": _POLICY, "kinds.yaml": _KINDS}),
        *_settings_for_all(of),
        _within(of, "v1", "Secret", SECRET, type="Opaque"),
        {**_within(of, "networking.k8s.io/v1", "NetworkPolicy", NAME), **_network(of)},
        _service(of),
        _deployment(of),
        *_budget(of),
        *registrations(
            {"service": {"namespace": of.namespace, "name": NAME, "port": 443}},
            scheduler=of.scheduler,
            devices=of.devices,
            but_not_in=["kube-system", of.namespace],
        ),
        *policies(namespace=of.namespace, scheduler=of.scheduler, devices=of.devices, options=of.optional),
    ]


class _Plain(yaml.SafeDumper):
    """Repeats rather than refers."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - what the dumper asks for each value
        """No references: not everything that reads this knows them."""
        return True


def as_yaml(things: Iterable[Thing]) -> str:
    """Objects as kubectl reads them."""
    text: str = yaml.dump_all(things, Dumper=_Plain, sort_keys=False, width=110)
    return text


_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/version": __version__}
_CHOSEN = {"app.kubernetes.io/name": NAME}
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def _thing(api_version: str, kind: str, name: str, *, labels: Thing | None = None, **rest: Any) -> Thing:
    metadata = {"name": name, "labels": _LABELS if labels is None else labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _within(of: Installation, api_version: str, kind: str, name: str, **rest: Any) -> Thing:
    found = _thing(api_version, kind, name, **rest)
    return {**found, "metadata": {**found["metadata"], "namespace": of.namespace}}


def priority_classes() -> list[Thing]:
    """The three types of workloads, as classes a pod can name."""
    return [
        _thing(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            type_.value,
            value=value,
            globalDefault=False,
            description=_MEANINGS[type_.value],
        )
        for type_, value in DEFAULT_PRIORITY.items()
    ]


# What it may do


def access(of: Installation, kinds: Kinds) -> list[Thing]:
    """The account, and no more rights than Weir uses."""
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": of.namespace}
    aggregated = {"clusterRoleSelectors": [{"matchLabels": {MORE_KINDS: "true"}}]}
    return [
        {**_within(of, "v1", "ServiceAccount", NAME), "automountServiceAccountToken": False},
        _thing(f"{_RBAC}/v1", "ClusterRole", NAME, rules=_rules(kinds)),
        _bound("ClusterRoleBinding", NAME, account),
        _thing(f"{_RBAC}/v1", "ClusterRole", f"{NAME}-kinds", aggregationRule=aggregated, rules=[]),
        _bound("ClusterRoleBinding", f"{NAME}-kinds", account),
        _within(of, f"{_RBAC}/v1", "Role", NAME, rules=_rules_at_home()),
        {**_within(of, f"{_RBAC}/v1", "RoleBinding", NAME), **_to("Role", NAME, account)},
        _thing(
            f"{_RBAC}/v1",
            "ClusterRole",
            f"{NAME}-metrics",
            rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        ),
        _thing(
            f"{_RBAC}/v1",
            "ClusterRole",
            f"{NAME}-view",
            labels={
                **_LABELS,
                **{f"{_RBAC}/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")},
            },
            rules=[_may("get list watch", GROUP, *_OWN)],
        ),
    ]


def _bound(kind: str, role: str, account: Thing) -> Thing:
    return {**_thing(f"{_RBAC}/v1", kind, role), **_to("ClusterRole", role, account)}


def _to(kind: str, role: str, account: Thing) -> Thing:
    return {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role}, "subjects": [account]}


def _may(verbs: str, group: str, *resources: str, names: Sequence[str] = ()) -> Thing:
    rule: Thing = {"apiGroups": [group], "resources": list(resources), "verbs": verbs.split()}
    return {**rule, "resourceNames": list(names)} if names else rule


def _rules(kinds: Kinds) -> list[Thing]:
    look = "list watch"
    return [
        # what there is
        _may(look, "", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
        _may(f"get {look}", "", "pods"),
        _may(look, "scheduling.k8s.io", "priorityclasses"),
        _may(look, "storage.k8s.io", "storageclasses", "csinodes"),
        *_owners(kinds),
        # what it does
        _may("create", "", "pods/binding", "pods/eviction"),
        _may("patch", "", "pods/status"),  # the node kept for a pod
        _may("patch", "", "persistentvolumeclaims", "persistentvolumes"),  # a volume follows its pod's node
        _may("create", "events.k8s.io", "events"),
        # its own kinds
        _may(look, GROUP, *_OWN[:3]),
        _may("patch", GROUP, *(f"{each}/status" for each in _OWN)),
        _may(f"{look} create patch", GROUP, "workloads"),
        # its port
        _may(
            "get patch",
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            names=[NAME],
        ),
        _may("create", "authentication.k8s.io", "tokenreviews"),
        _may("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]


def _owners(kinds: Kinds) -> Iterable[Thing]:
    """Reading the kinds of the table."""
    by_group: dict[str, set[str]] = {}
    for watched in kinds.watched:
        for api_version in watched.api_versions:
            group = api_version.rpartition("/")[0]
            by_group.setdefault(group, set()).add(watched.resource)
    for group, resources in sorted(by_group.items()):
        yield _may("list watch", group, *sorted(resources))


def _rules_at_home() -> list[Thing]:
    return [
        _may("create", "coordination.k8s.io", "leases"),
        _may("get list update watch", "coordination.k8s.io", "leases", names=[NAME]),
        _may("get update", "", "secrets", names=[SECRET]),
        _may(
            "create", "", "secrets"
        ),  # its own again after it was deleted; RBAC knows no names of new objects
    ]


def _settings_for_all(of: Installation) -> list[Thing]:
    """Copies of the scheduler's settings for the command line, which runs with any account."""
    data = {"scheduler": of.scheduler, "devices": ",".join(of.devices)}
    rules = [_may("get", "", "configmaps", names=[INSTALLATION])]
    everyone = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        _within(of, "v1", "ConfigMap", INSTALLATION, data=data),
        _within(of, f"{_RBAC}/v1", "Role", INSTALLATION, rules=rules),
        {**_within(of, f"{_RBAC}/v1", "RoleBinding", INSTALLATION), **_to("Role", INSTALLATION, everyone)},
    ]


# What runs


def _network(of: Installation) -> Thing:
    return {"spec": network_policy(_CHOSEN, PORT, of.sources)}


def _service(of: Installation) -> Thing:
    ports = [{"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}]
    return _within(of, "v1", "Service", NAME, spec={"selector": _CHOSEN, "ports": ports})


def _deployment(of: Installation) -> Thing:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _CHOSEN},
    }
    pod = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [spread],
        "containers": [_container(of)],
        "volumes": [
            {"name": "configuration", "configMap": {"name": NAME}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        ],
    }
    spec = {
        "replicas": of.replicas,
        "selector": {"matchLabels": _CHOSEN},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    return _within(of, "apps/v1", "Deployment", NAME, spec=spec)


def _container(of: Installation) -> Thing:
    return {
        "name": NAME,
        "image": of.image,
        "args": [
            *("up", "--on", "kubernetes", "--scheduler", of.scheduler, "--devices", ",".join(of.devices)),
            *("--policy", "/etc/weir/policy.yaml", "--kinds", "/etc/weir/kinds.yaml"),
            *("--port", str(PORT), "--service", NAME),
        ],
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - its own, in memory
        "ports": [{"name": "https", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "500m", "memory": "512Mi"},
            "limits": {"cpu": "4", "memory": "2Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "livenessProbe": _probe("/healthz", every_s=10, failures=6),
        "readinessProbe": _probe("/readyz", every_s=5, failures=2),
        "startupProbe": _probe("/healthz", every_s=2, failures=60),
        "volumeMounts": [
            {"name": "configuration", "mountPath": "/etc/weir", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - see above
        ],
    }


def _probe(path: str, *, every_s: int, failures: int) -> Thing:
    get = {"path": path, "port": "https", "scheme": "HTTPS"}
    return {"httpGet": get, "periodSeconds": every_s, "failureThreshold": failures, "timeoutSeconds": 3}


def _budget(of: Installation) -> list[Thing]:
    """One of several stays when nodes are drained; a single one has to be let go."""
    if of.replicas < 2:
        return []
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _CHOSEN}}
    return [_within(of, "policy/v1", "PodDisruptionBudget", NAME, spec=spec)]
