"""The Helm charts `weir-crds` and `weir`, as files: the objects of `weir kube manifests`, with values.

Weir's kinds have a chart of their own. So they are upgraded with Weir, and stay with all projects when Weir
is uninstalled. The namespace is Helm's.
"""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from importlib import resources
from typing import Any

from pydantic import BaseModel

from weir.kubernetes.admission.webhook_configuration import is_device, is_gpu, namespaces_but
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.crd.without_project import WithoutProject
from weir.kubernetes.install.charts.templates import Markers, template
from weir.kubernetes.install.charts.values import ChartValues
from weir.kubernetes.install.manifests import Installation, as_yaml, manifests
from weir.kubernetes.install.parts import CHOSEN, Manifest
from weir.kubernetes.install.pods.dashboard_server import (
    CHOSEN_DASHBOARD,
    PROXIES_OPTION,
    SCOPES_OPTION,
    SECRET_FILE,
    SECRET_OPTION,
    DashboardOptions,
)
from weir.kubernetes.install.pods.deployment import PodOptions
from weir.kubernetes.install.pods.history import GROUP, URL_FILE, VOLUME_URL, HistoryStorage
from weir.kubernetes.install.pods.network import calls_policy
from weir.kubernetes.install.pods.node_agent import (
    DRIVER_CAPABILITIES,
    GROUPS_MOUNT,
    GROUPS_VOLUME,
    INSECURE,
    LIMIT_MEMORY,
    WATCH_MEMORY,
    NodeAgents,
)
from weir.kubernetes.install.pods.notification_secret import SETTINGS_FILE, NotificationSecret
from weir.kubernetes.install.policies.admission_policies import OptionalPolicies
from weir.kubernetes.install.policies.expressions import quoted_list
from weir.version import __version__

Files = dict[str, str]
"""Texts by path below the directory of a chart."""
KUBERNETES = ">=1.31.0-0"
_ABOUT = {
    "apiVersion": "v2",
    "version": __version__,
    "appVersion": __version__,
    "type": "application",
    "kubeVersion": KUBERNETES,
    "keywords": ["gpu", "scheduler", "quota", "gang scheduling", "fair share"],
}
_WRITTEN = resources.files("weir.kubernetes.install.charts") / "chart_files"
"""Templates that aren't built from an object of an installation."""
_KEEP = {"helm.sh/resource-policy": "keep"}

_NAMESPACE, _SCHEDULER, _IMAGE = "value-namespace", "value-scheduler", "value/image"
_MANAGED = ManagedNamespaces(("value-managed", "value-managed-other"))
"""Two of them: the first is a namespace by itself, both together are the list."""
_DEVICES, _SOURCES, _GRACE = "value.io/devices", "value-sources", "value-grace"
_DESTINATION = "value-destination:1"
_EXEMPT, _DAEMONSETS = "value-exempt", "value-daemonsets"
_PROJECT, _LABEL, _PROJECT_EXEMPT = "value-project", "value-label", "value-project-exempt"
_CLASS = "system-value-class"
_HISTORY = HistoryStorage("value-history-secret", "value-history-claim", "value-keep")
_NOTIFICATIONS = NotificationSecret("value-notifications-secret")
_DASHBOARD = DashboardOptions(
    "value-url",
    "value-issuer",
    "value-client-id",
    "value-client-secret",
    "value-tls-secret",
    "value-authorities",
    ("value-scopes",),
    ("value-dashboard-sources",),
    ("value-dashboard-destination:1",),
    "value-memory",
    ("value-proxies",),
)
_NUMBER, _NODES = 424242, 434343
_QUOTA = 2 * _NUMBER + 2

_MARKED = Installation(
    namespace=_NAMESPACE,
    image=_IMAGE,
    replicas=_NUMBER,
    scheduler=_SCHEDULER,
    managed=_MANAGED,
    devices=(_DEVICES,),
    sources=(_SOURCES,),
    optional=OptionalPolicies(
        refuse_node_name=True,
        require_scheduler=True,
        daemonset_namespaces=(_DAEMONSETS,),
        exempt_namespaces=(_EXEMPT,),
        without_project=WithoutProject("queue", _PROJECT, ((_LABEL, ""),), (_PROJECT_EXEMPT,)),
        require_scheduler_for_claims=True,
    ),
    pods=PodOptions(
        _CLASS,
        {"value": "requests"},
        {"value": "limits"},
        {"value": "nodes"},
        [{"value": "tolerations"}],
        ["value-pull-secrets"],
        _NODES,
        _GRACE,
        [_DESTINATION],
        _HISTORY,
        _NOTIFICATIONS,
    ),
    monitoring=True,
    node=NodeAgents(
        "value-runtime-class",
        {"value": "gpu-nodes"},
        kubelet_insecure_tls=True,
        watch_memory=True,
        limit_memory=True,
    ),
    dashboard=_DASHBOARD,
    read_all_receivers=True,
)
"""An installation with a marker for each option, and with all that options add."""

_MANAGES = ".Values.managedNamespaces"
_WITHOUT_PROJECT = 'ne .Values.admission.withoutProject "ignore"'
_BY_SECRET, _BY_CLAIM = replace(_HISTORY, claim=""), replace(_HISTORY, secret="")
_WITH_SECRET, _WITH_AUTHORITIES = replace(_DASHBOARD, authorities=""), replace(_DASHBOARD, client_secret="")
_CLIENT, _AUTHORITIES = ".Values.dashboard.clientSecret", ".Values.dashboard.authorities"
_SCOPES, _PROXIES = ".Values.dashboard.extraScopes", ".Values.dashboard.trustedProxies"
_SECRET, _CLAIM = ".Values.history.secret", ".Values.history.claim"
_NOTIFIES = ".Values.notifications.secret"
_KEEPS = f"or {_SECRET} {_CLAIM}"
_WATCHES, _LIMITS = ".Values.node.watchMemory", ".Values.node.limitMemory"
_MARKERS = Markers(
    texts={
        f"queue:{_PROJECT}": ".Values.admission.withoutProject",
        quoted_list([_DAEMONSETS]): 'include "weir.quotedList" .Values.admission.daemonSetNamespaces',
        _DAEMONSETS: 'join ", " .Values.admission.daemonSetNamespaces',
        _PROJECT_EXEMPT: 'join "," .Values.admission.withoutProjectExempt',
        f"{_LABEL}=": 'include "weir.labels" .Values.admission.withoutProjectIn',
        is_gpu((_DEVICES,)): 'include "weir.isGpu" .Values.devices',
        is_device(_DEVICES): 'include "weir.isDevice" .Values.devices',
        _DEVICES: 'join "," .Values.devices',
        ",".join(_MANAGED.names): 'join "," (sortAlpha .Values.managedNamespaces)',
        _MANAGED.names[0]: ".",  # each of them in turn
        _NAMESPACE: "$.Release.Namespace",
        _SCHEDULER: ".Values.scheduler",
        _IMAGE: ".Values.image",
        _GRACE: ".Values.overcommitGrace",
        _CLASS: ".Values.pods.priorityClass",
        "value-runtime-class": ".Values.node.runtimeClass",
        _DASHBOARD.url: ".Values.dashboard.url",
        _DASHBOARD.issuer: ".Values.dashboard.issuer",
        _DASHBOARD.client_id: ".Values.dashboard.clientId",
        _DASHBOARD.client_secret: _CLIENT,
        _DASHBOARD.tls_secret: ".Values.dashboard.tlsSecret",
        _DASHBOARD.authorities: _AUTHORITIES,
        _DASHBOARD.extra_scopes[0]: f'join "," {_SCOPES}',
        _DASHBOARD.memory: ".Values.dashboard.memory",
        _DASHBOARD.trusted_proxies[0]: f'join "," {_PROXIES}',
        _HISTORY.secret: ".Values.history.secret",
        _HISTORY.claim: ".Values.history.claim",
        _HISTORY.keep: ".Values.history.keep",
        _NOTIFICATIONS.name: _NOTIFIES,
        str(_QUOTA): "add (mul 2 .Values.replicas) 2",
        str(_NODES): "int .Values.sharedNodes",
        "weir-train": 'include "weir.className" (list . "train")',
        "weir-build": 'include "weir.className" (list . "build")',
        "weir-inference": 'include "weir.className" (list . "inference")',
    },
    lists={
        **dict.fromkeys(_MANAGED.names, _MANAGES),
        _EXEMPT: ".Values.admission.exemptNamespaces",
        _DAEMONSETS: ".Values.admission.daemonSetNamespaces",
        _PROJECT_EXEMPT: ".Values.admission.withoutProjectExempt",
    },
    numbers={_NUMBER: "int .Values.replicas"},
    fields=(
        ({"value": "requests"}, ".Values.pods.requests"),
        ({"value": "limits"}, ".Values.pods.limits"),
        ({"value": "nodes"}, ".Values.pods.nodeSelector"),
        ({"value": "gpu-nodes"}, ".Values.node.nodeSelector"),
        ([{"value": "tolerations"}], ".Values.pods.tolerations"),
        (
            [{"name": "value-pull-secrets"}],
            '(include "weir.pullSecrets" .Values.pods.pullSecrets | fromJsonArray)',
        ),
        (
            [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _SOURCES}}}],
            '(include "weir.sources" .Values.reachableFrom | fromJsonArray)',
        ),
        (
            [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _DASHBOARD.sources[0]}}}],
            '(include "weir.sources" .Values.dashboard.reachableFrom | fromJsonArray)',
        ),
        (
            calls_policy(CHOSEN_DASHBOARD, _DASHBOARD.may_call)["egress"],
            '(include "weir.destinations" .Values.dashboard.mayCall | fromJsonArray)',
        ),
        (
            calls_policy(CHOSEN, [_DESTINATION])["egress"],
            '(include "weir.destinations" .Values.mayCall | fromJsonArray)',
        ),
        ({_LABEL: ""}, ".Values.admission.withoutProjectIn"),
    ),
    conditions={
        _CLASS: ".Values.pods.priorityClass",
        "value-runtime-class": ".Values.node.runtimeClass",
        "--database-file": _SECRET,
        URL_FILE: _SECRET,
        "--database": _CLAIM,
        VOLUME_URL: _CLAIM,
        "--keep-history": _KEEPS,
        "--notifications": _NOTIFIES,
        SETTINGS_FILE: _NOTIFIES,
        _HISTORY.keep: _KEEPS,
        SECRET_OPTION: _CLIENT,
        SECRET_FILE: _CLIENT,
        SCOPES_OPTION: _SCOPES,
        _DASHBOARD.extra_scopes[0]: _SCOPES,
        PROXIES_OPTION: _PROXIES,
        _DASHBOARD.trusted_proxies[0]: _PROXIES,
        INSECURE: ".Values.node.kubeletInsecureTls",
        WATCH_MEMORY: _WATCHES,
        LIMIT_MEMORY: _LIMITS,
        "--managed-namespaces": _MANAGES,
        ",".join(_MANAGED.names): _MANAGES,
        "--without-project": _WITHOUT_PROJECT,
        f"queue:{_PROJECT}": _WITHOUT_PROJECT,
        "--without-project-in": f"and ({_WITHOUT_PROJECT}) .Values.admission.withoutProjectIn",
        f"{_LABEL}=": f"and ({_WITHOUT_PROJECT}) .Values.admission.withoutProjectIn",
        "--without-project-exempt": f"and ({_WITHOUT_PROJECT}) .Values.admission.withoutProjectExempt",
        _PROJECT_EXEMPT: f"and ({_WITHOUT_PROJECT}) .Values.admission.withoutProjectExempt",
    },
    parts=(
        (namespaces_but([], _MANAGED)["matchExpressions"][1], _MANAGES),
        *((part, _SECRET) for made in (_BY_SECRET.volumes(), _BY_SECRET.mounts()) for part in made),
        *((part, _CLAIM) for made in (_BY_CLAIM.volumes(), _BY_CLAIM.mounts()) for part in made),
        *((part, _LIMITS) for part in (DRIVER_CAPABILITIES, GROUPS_VOLUME, GROUPS_MOUNT)),
        *((part, _NOTIFIES) for part in (*_NOTIFICATIONS.volumes(), *_NOTIFICATIONS.mounts())),
        *((part, _CLIENT) for made in (_WITH_SECRET.volumes(), _WITH_SECRET.mounts()) for part in made),
        *(
            (part, _AUTHORITIES)
            for made in (
                _WITH_AUTHORITIES.volumes(),
                _WITH_AUTHORITIES.mounts(),
                _WITH_AUTHORITIES.environment(),
            )
            for part in made
        ),
        (_BY_CLAIM.strategy()["strategy"], _CLAIM),
        (GROUP, f"and {_CLAIM} .Values.history.fixedGroup"),
    ),
    keys={"hostPID": _WATCHES},
)

_UNLIMITED = replace(_MARKED, managed=ALL)
_PODS, _OPTIONAL = _MARKED.pods, _MARKED.optional
_ADMISSION = ".Values.admission"
_WITHOUT: tuple[tuple[dict[str, Any], str], ...] = (
    ({"managed": ALL}, _MANAGES),
    ({"replicas": 1}, "gt (int .Values.replicas) 1"),
    ({"monitoring": False}, ".Values.monitoring"),
    ({"pods": replace(_PODS, may_call=())}, ".Values.mayCall"),
    ({"pods": replace(_PODS, notifications=NotificationSecret())}, _NOTIFIES),
    ({"read_all_receivers": False}, ".Values.notifications.allNamespaces"),
    ({"query_api": False}, ".Values.queryApi"),
    ({"job_messages": False}, ".Values.jobMessages"),
    ({"node": None}, ".Values.node.enabled"),
    ({"dashboard": None}, ".Values.dashboard.enabled"),
    ({"priority_classes": "none"}, 'ne .Values.priorityClasses "none"'),
    ({"pods": replace(_PODS, priority_class=None)}, 'hasPrefix "system-" .Values.pods.priorityClass'),
    ({"optional": replace(_OPTIONAL, refuse_node_name=False)}, f"{_ADMISSION}.refuseNodeName"),
    ({"optional": replace(_OPTIONAL, require_scheduler=False)}, f"{_ADMISSION}.requireScheduler"),
    (
        {"optional": replace(_OPTIONAL, require_scheduler_for_claims=False)},
        f"{_ADMISSION}.requireSchedulerForClaims",
    ),
    ({"optional": replace(_OPTIONAL, daemonset_namespaces=())}, f"{_ADMISSION}.daemonSetNamespaces"),
    ({"optional": replace(_OPTIONAL, without_project=WithoutProject())}, _WITHOUT_PROJECT),
)
"""Changes that leave one option out, each with the condition for the objects that are then missing."""


def charts() -> dict[str, Files]:
    """Return both charts by name."""
    return {"weir-crds": _crds(), "weir": _weir()}


def _crds() -> Files:
    about = _ABOUT | {"name": "weir-crds", "description": "The kinds of Weir, the GPU scheduler."}
    kept = []
    for definition in definitions():
        manifest = deepcopy(definition)
        manifest["metadata"].setdefault("annotations", {}).update(_KEEP)
        kept.append((manifest, ()))
    nothing = Markers({}, {}, {}, (), {})
    return {
        "Chart.yaml": as_yaml([about]),
        "values.yaml": "{}\n",
        "templates/crds.yaml": template(kept, nothing),
    }


def _weir() -> Files:
    about = _ABOUT | {
        "name": "weir",
        "description": "One pool of GPUs for many teams, with guaranteed quotas.",
    }
    return {
        "Chart.yaml": as_yaml([about]),
        "values.yaml": "\n".join(_commented(ChartValues(), 0)) + "\n",
        "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
        "templates/weir.yaml": template(_conditional_objects(), _MARKERS),
        **{f"templates/{file.name}": file.read_text(encoding="utf-8") for file in _WRITTEN.iterdir()},
    }


def values_schema() -> dict[str, Any]:
    """Return the JSON schema of the values.

    Helm adds the key `global` where the chart is a part of another.
    """
    schema = ChartValues.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["properties"]["global"] = {"type": "object"}
    return schema


def _conditional_objects() -> Iterator[tuple[Manifest, Sequence[str]]]:
    """Yield each object of the chart with the actions around it, the outermost first.

    The objects of one managed namespace are those of each.
    """
    yielded = set()
    for manifest, conditions in _with_conditions(_MARKED):
        yielded.add(_key(manifest))
        if manifest["metadata"].get("namespace") == _MANAGED.names[0]:
            yield (
                manifest,
                [
                    *(condition for condition in conditions if condition != f"if {_MANAGES}"),
                    f"range {_MANAGES}",
                ],
            )
        elif manifest["metadata"].get("namespace") != _MANAGED.names[1]:
            yield manifest, conditions
    for manifest, conditions in _with_conditions(_UNLIMITED):
        if _key(manifest) not in yielded:
            yield manifest, [f"if not {_MANAGES}", *conditions]


def _with_conditions(whole: Installation) -> Iterator[tuple[Manifest, list[str]]]:
    """Yield each object of an installation with its conditions."""
    without = [
        ({_key(manifest) for manifest in manifests(replace(whole, **lacks))}, condition)
        for lacks, condition in _WITHOUT
    ]
    for manifest in manifests(whole):
        if manifest["kind"] not in ("Namespace", "CustomResourceDefinition"):
            key = _key(manifest)
            yield manifest, [f"if {condition}" for keys, condition in without if key not in keys]


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _commented(values: BaseModel, depth: int) -> Iterator[str]:
    """Yield the lines of values.yaml: each default after its description."""
    before = "  " * depth
    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        if field.description:
            yield f"{before}# {' '.join(field.description.split())}"
        if isinstance(value, BaseModel):
            yield f"{before}{field.alias}:"
            yield from _commented(value, depth + 1)
        else:
            yield f"{before}{field.alias}: {json.dumps(value)}"
