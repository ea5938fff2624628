"""Objects of an installation of any version, by their labels or names, in the order of their removal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import field

from weir.kubernetes.admission.node_tokens import ACCOUNT
from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.query.aggregation.discovery import API_SERVICE

COMPONENTS = (NAME, ACCOUNT, f"{NAME}-dashboard")
"""Values of the label `app.kubernetes.io/name`."""
COMPONENT_LABEL = "app.kubernetes.io/name"
_PREFIX = f"{NAME}-"
_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"


class _Account(ApiStruct):
    """A service account with rights."""

    namespace: str = ""


class _Bound(ApiStruct):
    """A binding of a role."""

    subjects: list[_Account] = field(default_factory=list)


class InstalledObject(ApiStruct):
    """An object of an installation, with the fields that tell if it is one."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)
    webhooks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_labelled(self) -> bool:
        """Return True if it has the label of a part of Weir."""
        return self.metadata.labels.get(COMPONENT_LABEL) in COMPONENTS


@dataclass(frozen=True, slots=True)
class InstalledKind:
    """A kind of which an installation has objects. `everywhere`: also outside of Weir's namespace."""

    api: str
    plural: str
    is_weirs: Callable[[InstalledObject], bool]
    is_namespaced: bool = False
    everywhere: bool = False

    async def objects(self, api: ApiClient, home: str) -> list[str]:
        """Return the paths of the objects that are there; none if the cluster hasn't the kind."""
        namespace = home if self.is_namespaced and not self.everywhere else ""
        try:
            items = await api.list_all(path_of(self.api, self.plural, namespace), InstalledObject)
        except NotFound:
            return []
        return [
            path_of(self.api, self.plural, item.metadata.namespace, item.metadata.name)
            for item in items
            if self.is_weirs(item)
        ]


def _is_labelled(item: InstalledObject) -> bool:
    return item.is_labelled


def _is_part(item: InstalledObject) -> bool:
    return item.is_labelled or item.metadata.name in COMPONENTS


def _is_policy(item: InstalledObject) -> bool:
    """Return True for a policy or a binding of one. Names with this prefix are Weir's."""
    policy = str(item.spec.get("policyName") or "")
    return item.metadata.name.startswith(_PREFIX) or policy.startswith(_PREFIX)


def _has_webhooks(item: InstalledObject) -> bool:
    """Return True for a configuration of webhooks that are all Weir's."""
    names = [str(webhook.get("name", "")) for webhook in item.webhooks]
    return item.metadata.name == NAME or bool(names and all(name.endswith(f".{GROUP}") for name in names))


def _is_role(item: InstalledObject) -> bool:
    name = item.metadata.name
    return item.is_labelled and (name in COMPONENTS or name.startswith(_PREFIX))


API_SERVICES = InstalledKind(
    "apiregistration.k8s.io/v1", "apiservices", lambda item: item.metadata.name == API_SERVICE
)
"""They go first: no namespace can end while one of them has no server."""
PROGRAMS = tuple(
    InstalledKind("apps/v1", plural, _is_part, is_namespaced=True) for plural in ("deployments", "daemonsets")
)
OBJECTS = (
    InstalledKind(_ADMISSION, "validatingadmissionpolicybindings", _is_policy),
    InstalledKind(_ADMISSION, "validatingadmissionpolicies", _is_policy),
    InstalledKind(_ADMISSION, "mutatingwebhookconfigurations", _has_webhooks),
    InstalledKind(_ADMISSION, "validatingwebhookconfigurations", _has_webhooks),
    InstalledKind(_RBAC, "clusterrolebindings", _is_role),
    InstalledKind(_RBAC, "rolebindings", _is_role, is_namespaced=True, everywhere=True),
    InstalledKind(_RBAC, "clusterroles", _is_role),
    InstalledKind(_RBAC, "roles", _is_role, is_namespaced=True, everywhere=True),
    InstalledKind("flowcontrol.apiserver.k8s.io/v1", "flowschemas", _is_labelled),
    InstalledKind("scheduling.k8s.io/v1", "priorityclasses", _is_labelled),
    *(
        InstalledKind(api, plural, _is_part, is_namespaced=True)
        for api, plural in (
            ("policy/v1", "poddisruptionbudgets"),
            ("networking.k8s.io/v1", "networkpolicies"),
            ("monitoring.coreos.com/v1", "servicemonitors"),
            ("monitoring.coreos.com/v1", "prometheusrules"),
            ("coordination.k8s.io/v1", "leases"),
            ("v1", "services"),
            ("v1", "resourcequotas"),
            ("v1", "configmaps"),
            ("v1", "secrets"),
            ("v1", "serviceaccounts"),
        )
    ),
)
"""Policies and webhooks go before the rest: they refuse objects of others."""
KINDS = InstalledKind(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", lambda item: item.spec.get("group") == GROUP
)


async def home_of(api: ApiClient) -> str:
    """Return the namespace of the installation; empty if none of its objects names it."""
    try:
        bound = await api.get(path_of(_RBAC, "clusterrolebindings", name=NAME), _Bound)
    except NotFound:
        return ""
    return next((subject.namespace for subject in bound.subjects), "")
