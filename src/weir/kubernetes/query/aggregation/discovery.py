"""Discovery documents of the aggregated API, and the APIService that has the API server forward requests.

People read all resources but those that take a request: messages of pods about themselves, and quotas to try
out. Neither keeps anything. So the controllers of a cluster, which look for objects to delete or to count,
leave them all alone.
"""

from dataclasses import dataclass
from typing import Any

GROUP, VERSION = "query.weir.dev", "v1"
API_VERSION = f"{GROUP}/{VERSION}"
API_SERVICE = f"{VERSION}.{GROUP}"
ROOT = f"/apis/{API_VERSION}"
PRIORITY = 100
"""Below that of all built-in groups and of Weir's own kinds: `kubectl get workloads` means `weir.dev`."""


@dataclass(frozen=True, slots=True)
class QueryResource:
    """A resource of the API."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    namespaced: bool = False


RESOURCES = (
    QueryResource("workloads", "Workload", ("get", "list"), namespaced=True),
    QueryResource("workloads/why", "Why", ("get",), namespaced=True),
    QueryResource("workloads/series", "Series", ("get",), namespaced=True),
    QueryResource("workloads/decision", "Decision", ("get",), namespaced=True),
    QueryResource("events", "Event", ("list",), namespaced=True),
    QueryResource("reports", "Report", ("get",), namespaced=True),
    QueryResource("nodes", "Node", ("list",)),
    QueryResource("pools", "Pool", ("get",)),
    QueryResource("pools/snapshot", "Snapshot", ("get",)),
)
MESSAGES = QueryResource("pods/messages", "PodMessage", ("create",), namespaced=True)
"""The resource to which pods send messages about themselves."""
PREVIEWS = {
    kind: QueryResource(f"{kind.lower()}s/preview", "QuotaPreview", ("create",))
    for kind in ("Project", "Department")
}
"""Resources that try a changed quota out, by kind."""
_VERSION = {"groupVersion": API_VERSION, "version": VERSION}


def group() -> dict[str, Any]:
    """Return the group, as `/apis/query.weir.dev` answers."""
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [_VERSION],
        "preferredVersion": _VERSION,
    }


def groups() -> dict[str, Any]:
    """Return the list of groups, as `/apis` answers."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]}


def resources() -> dict[str, Any]:
    """Return the list of the API's resources for discovery."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": resource.name,
                "singularName": "" if "/" in resource.name else resource.kind.lower(),
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(resource.verbs),
            }
            for resource in (*RESOURCES, *PREVIEWS.values(), MESSAGES)
        ],
    }


def read_rules() -> list[dict[str, Any]]:
    """Return the rules of RBAC that let a role read everything that the API server lets it ask for."""
    by_verbs: dict[tuple[str, ...], list[str]] = {}
    for resource in RESOURCES:
        by_verbs.setdefault(resource.verbs, []).append(resource.name)
    return [
        {"apiGroups": [GROUP], "resources": names, "verbs": list(verbs)} for verbs, names in by_verbs.items()
    ]


def api_service(namespace: str, service: str) -> dict[str, Any]:
    """Return the APIService by which the API server forwards requests to Weir, without Weir's CA."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": PRIORITY,
            "versionPriority": PRIORITY,
            "service": {"namespace": namespace, "name": service, "port": 443},
        },
    }
