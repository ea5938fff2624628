"""Priority of lease requests: the leader keeps its lease when others overload the API server."""

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import Manifest, cluster_object

LEASE_FLOW = f"{NAME}-leader-election"
_LEVEL = "leader-election"
"""A priority level of every API server; it has its own seats, and the schedulers' leases are in it, too."""
_BEFORE = 150
"""Schemas are tried in this order. Those of the API server's own controllers are before it."""


def lease_flow(namespace: str) -> Manifest:
    """Return the FlowSchema that takes the requests for leases of Weir's account out of the crowd."""
    rule = {
        "verbs": ["get", "create", "update"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": [namespace],
    }
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": NAME, "namespace": namespace}}
    spec = {
        "priorityLevelConfiguration": {"name": _LEVEL},
        "matchingPrecedence": _BEFORE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [account], "resourceRules": [rule]}],
    }
    return cluster_object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", LEASE_FLOW, spec=spec)
