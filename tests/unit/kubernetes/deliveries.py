"""Delivery of objects to the backend of a cluster, as its watches would."""

from typing import Any

from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.backend import KubernetesBackend


def deliver(backend: KubernetesBackend, resource: str, *objects: Any) -> None:
    """Deliver objects of one resource, each as it is now."""
    for each in objects:
        if resource == "owners":
            backend.deliver_owners()([ObjectSet(each["metadata"]["name"], each)])
        else:
            meta = each.metadata
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            backend.deliver(resource)([ObjectSet(key, each)])
