"""Objects of the aggregated API in an installation."""

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import LABELS, Manifest
from weir.kubernetes.install.rights.roles import cluster_binding, cluster_role, group, may
from weir.kubernetes.query.aggregation.discovery import GROUP, MESSAGES, api_service

FRONT_PROXY_ROLE = "extension-apiserver-authentication-reader"
"""A role of every cluster, in kube-system: it reads the ConfigMap that says how the API server forwards."""


def labelled_api_service(namespace: str) -> Manifest:
    """Return the APIService of an installation. It is the first to go: see `weir kube` in the docs."""
    service = api_service(namespace, NAME)
    return {**service, "metadata": {**service["metadata"], "labels": LABELS}}


def job_messages() -> list[Manifest]:
    """Return the role by which every pod may send messages about itself, and its binding."""
    name, right = f"{NAME}-jobs", may(" ".join(MESSAGES.verbs), GROUP, MESSAGES.name)
    return [cluster_role(name, right), cluster_binding(name, group("system:serviceaccounts"))]
