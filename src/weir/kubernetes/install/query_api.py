"""Objects of the aggregated API in an installation."""

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import LABELS, Thing, thing
from weir.kubernetes.query.discovery import GROUP, MESSAGES, api_service

FRONT_PROXY_ROLE = "extension-apiserver-authentication-reader"
"""A role of every cluster, in kube-system: it reads the ConfigMap that says how the API server forwards."""


def labelled_api_service(namespace: str) -> Thing:
    """Return the APIService of an installation. It is the first to go: see `weir kube` in the docs."""
    found = api_service(namespace, NAME)
    return {**found, "metadata": {**found["metadata"], "labels": LABELS}}


def job_messages() -> list[Thing]:
    """Return the role by which every pod may send messages about itself, and its binding."""
    rbac = "rbac.authorization.k8s.io"
    name, (resource, verbs) = f"{NAME}-jobs", (MESSAGES.name, list(MESSAGES.verbs))
    accounts = {"apiGroup": rbac, "kind": "Group", "name": "system:serviceaccounts"}
    return [
        thing(
            f"{rbac}/v1",
            "ClusterRole",
            name,
            rules=[{"apiGroups": [GROUP], "resources": [resource], "verbs": verbs}],
        ),
        thing(
            f"{rbac}/v1",
            "ClusterRoleBinding",
            name,
            roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            subjects=[accounts],
        ),
    ]
