"""Random values of the chart, and the installation that each of them means."""

import random
from collections.abc import Callable
from typing import Any

from weir.kubernetes.api.managed_namespaces import ManagedNamespaces
from weir.kubernetes.crd.without_project import read_rule
from weir.kubernetes.install.manifests import Installation
from weir.kubernetes.install.pods.dashboard_server import DashboardOptions
from weir.kubernetes.install.pods.deployment import PodOptions
from weir.kubernetes.install.pods.history import HistoryStorage
from weir.kubernetes.install.pods.node_agent import NodeAgents
from weir.kubernetes.install.pods.notification_secret import NotificationSecret
from weir.kubernetes.install.policies.admission_policies import OptionalPolicies
from weir.kubernetes.translate.device_list import read_devices

Values = dict[str, Any]
DIGEST = "registry.example:5000/team/weir:1@sha256:" + "0a" * 32
NAMES = ("a", "team-a", "123", "true", "null", "x" * 63)
_DEVICES = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "a.io/card-*", "b.example.io/x.Y_z", "amd.com/gpu")
_LABELS = {"weir": "yes", "example.com/team": "", "zone.example.com/kind": "A_b.c", "on": "true"}
_AMOUNTS = (("100m", "64Mi"), ("0.25", "134217728"), ("1", "1Gi"), ("2.5", "1500M"), ("16", "1Ti"))
_TOLERATIONS = (
    {"key": "gpu", "operator": "Exists"},
    {"key": "example.com/kind", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    {"key": "on", "operator": "Equal", "value": "true"},
    {"key": "no", "operator": "Exists", "effect": "NoExecute"},
)
_SOURCES = (
    "10.0.0.5/32",
    "0.0.0.0/0",
    "fd00::/8",
    "::1/128",
    "monitoring",
    "10",
    "1:2:3:4:5:6:7:8/128",
    "fd00:a:b:c000::/50",
)


def random_values(seed: int) -> Values:
    """Return values in which about half of the keys have another value than by default."""
    rng = random.Random(seed)
    kept: Values = {key: make(rng) for key, make in _KEYS.items() if rng.random() < 0.5}
    for key, makers in (
        ("admission", _ADMISSION),
        ("pods", _PODS),
        ("node", _NODE),
        ("dashboard", _DASHBOARD),
    ):
        kept[key] = {name: make(rng) for name, make in makers.items() if rng.random() < 0.5}
    kept["dashboard"] |= {
        "url": "https://weir.example.org:8443",
        "issuer": "https://sso.example.org/realms/lab",
    }
    if rng.random() < 0.5:
        kept["history"] = rng.choice(
            (
                {"secret": "db.a"},
                {"secret": "1", "keep": "30d"},
                {"claim": "true"},
                {"claim": "1", "fixedGroup": False},
            )
        )
        if "claim" in kept["history"]:
            kept["replicas"] = 1
    if rng.random() < 0.5:
        kept["notifications"] = rng.choice(
            ({"secret": "mail.a"}, {"secret": "1", "allNamespaces": True}, {"allNamespaces": True})
        )
    least, most = sorted(rng.sample(range(len(_AMOUNTS)), 2))
    if rng.random() < 0.5:
        kept["pods"]["requests"] = _amounts(least)
        kept["pods"]["limits"] = _amounts(most)
    return kept


def installation(values: Values, namespace: str) -> Installation:
    """Return the installation that values mean."""
    admission, pods = values.get("admission", {}), values.get("pods", {})
    devices = read_devices(",".join(values["devices"])) if "devices" in values else None
    rule = read_rule(
        admission.get("withoutProject", "ignore"),
        admission.get("withoutProjectIn", {}),
        tuple(admission.get("withoutProjectExempt", ())),
    )
    default, plain = Installation(), PodOptions()
    return Installation(
        namespace,
        values.get("image", default.image),
        values.get("replicas", default.replicas),
        values.get("scheduler", default.scheduler),
        ManagedNamespaces(tuple(sorted(values.get("managedNamespaces", ())))),
        devices.resources if devices else default.devices,
        devices.weights if devices else (),
        tuple(values.get("reachableFrom", ())),
        OptionalPolicies(
            admission.get("refuseNodeName", False),
            admission.get("requireScheduler", False),
            tuple(admission.get("daemonSetNamespaces", ())),
            tuple(admission.get("exemptNamespaces", ())),
            rule,
            admission.get("requireSchedulerForClaims", False),
        ),
        values.get("priorityClasses", default.priority_classes),
        PodOptions(
            pods.get("priorityClass", plain.priority_class) or None,
            pods.get("requests", plain.requests),
            pods.get("limits", plain.limits),
            pods.get("nodeSelector", {}),
            pods.get("tolerations", ()),
            pods.get("pullSecrets", ()),
            values.get("sharedNodes", 0),
            values.get("overcommitGrace", plain.overcommit_grace),
            values.get("mayCall", ()),
            _history(values.get("history", {})),
            NotificationSecret(values.get("notifications", {}).get("secret", "")),
        ),
        values.get("monitoring", False),
        values.get("queryApi", True),
        values.get("jobMessages", True),
        _agents(values.get("node", {})),
        _dashboard(values.get("dashboard", {})),
        values.get("notifications", {}).get("allNamespaces", False),
    )


def _history(values: Values) -> HistoryStorage:
    plain = HistoryStorage()
    return HistoryStorage(
        values.get("secret", ""),
        values.get("claim", ""),
        values.get("keep", plain.keep),
        values.get("fixedGroup", plain.fixed_group),
    )


def _agents(values: Values) -> NodeAgents | None:
    plain = NodeAgents()
    if not values.get("enabled"):
        return None
    return NodeAgents(
        values.get("runtimeClass", plain.runtime_class),
        {**plain.node_selector, **values.get("nodeSelector", {})},
        values.get("kubeletInsecureTls", False),
        values.get("watchMemory", False),
        values.get("limitMemory", False),
    )


def _dashboard(values: Values) -> DashboardOptions | None:
    if not values.get("enabled"):
        return None
    plain = DashboardOptions(values["url"], values["issuer"])
    return DashboardOptions(
        plain.url,
        plain.issuer,
        values.get("clientId", plain.client_id),
        values.get("clientSecret", plain.client_secret),
        values.get("tlsSecret", plain.tls_secret),
        values.get("authorities", plain.authorities),
        tuple(values.get("extraScopes", ())),
        tuple(values.get("reachableFrom", ())),
        tuple(values.get("mayCall", ())),
        values.get("memory", plain.memory),
        tuple(values.get("trustedProxies", ())),
    )


def _amounts(at: int) -> dict[str, str]:
    cpu, memory = _AMOUNTS[at]
    return {"cpu": cpu, "memory": memory}


def _some(of: tuple[Any, ...]) -> Callable[[random.Random], list[Any]]:
    return lambda rng: rng.sample(of, rng.randint(0, len(of)))


def _labels(rng: random.Random) -> dict[str, str]:
    return dict(rng.sample(sorted(_LABELS.items()), rng.randint(0, len(_LABELS))))


def _one(*of: Any) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice(of)


def _devices(rng: random.Random) -> list[str]:
    """Weights are those that are written as they are read."""
    names = rng.sample(_DEVICES, rng.randint(1, len(_DEVICES)))
    return [name + rng.choice(("", "", "=0.5", "=0.125", "=2")) for name in names]


_KEYS: dict[str, Callable[[random.Random], Any]] = {
    "image": _one(DIGEST, "weir", "localhost:5000/weir:0.1.0"),
    "replicas": lambda rng: rng.randint(1, 9),
    "scheduler": _one("night", "true", "1.2", "weir.example.com"),
    "managedNamespaces": _some(NAMES),
    "devices": _devices,
    "reachableFrom": _some(_SOURCES),
    "mayCall": _some((*(f"{each}:9090" for each in _SOURCES), "monitoring:65535", "db:5432")),
    "priorityClasses": _one("prefixed", "plain", "none"),
    "sharedNodes": lambda rng: rng.randint(0, 10_000),
    "overcommitGrace": _one("90s", "1h30m", "1d"),
    "monitoring": _one(True, False),
    "queryApi": _one(True, False),
    "jobMessages": _one(True, False),
}
_ADMISSION: dict[str, Callable[[random.Random], Any]] = {
    "refuseNodeName": _one(True, False),
    "requireScheduler": _one(True, False),
    "requireSchedulerForClaims": _one(True, False),
    "daemonSetNamespaces": _some(NAMES),
    "exemptNamespaces": _some((*NAMES, "kube-system")),
    "withoutProject": _one("ignore", "refuse", "queue:vision", "queue:a.b", "queue:1"),
    "withoutProjectIn": _labels,
    "withoutProjectExempt": _some(NAMES),
}
_PODS: dict[str, Callable[[random.Random], Any]] = {
    "priorityClass": _one("", "high", "system-node-critical"),
    "nodeSelector": _labels,
    "tolerations": _some(_TOLERATIONS),
    "pullSecrets": _some(("one", "two.example", "3")),
}
_DASHBOARD: dict[str, Callable[[random.Random], Any]] = {
    "enabled": _one(True, True, False),
    "clientId": _one("weir", "https://weir.example.org"),
    "clientSecret": _one("", "weir-client", "1"),
    "tlsSecret": _one("weir-tls", "a.b"),
    "authorities": _one("", "company-ca", "true"),
    "extraScopes": _some(("groups", "offline_access", "api://weir/.default")),
    "reachableFrom": _some(_SOURCES),
    "mayCall": _some((*(f"{each}:8443" for each in _SOURCES), "keycloak:65535")),
    "memory": _one("1Gi", "268435456"),
    "trustedProxies": _some(("10.0.0.0/28", "10.1.0.5/32", "fd00::/8")),
}
_NODE: dict[str, Callable[[random.Random], Any]] = {
    "enabled": _one(True, False),
    "runtimeClass": _one("", "nvidia", "nvidia-cdi"),
    "nodeSelector": _labels,
    "kubeletInsecureTls": _one(True, False),
    "watchMemory": _one(True, False),
    "limitMemory": _one(True, False),
}
