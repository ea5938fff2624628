"""Weir's kinds, in force on a control plane."""

from typing import Any

from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster

from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.crd.schemas import API_VERSION


def establish(cluster: Cluster) -> None:
    """Define them, until they are served."""
    cluster.api.apply(*definitions())
    names = [each["metadata"]["name"] for each in definitions()]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster.until(lambda: all(_established(cluster.api.get(f"{path}/{name}")) for name in names))
    cluster.until(lambda: all(_is_served(cluster, name.partition(".")[0]) for name in names))


def _is_served(cluster: Cluster, plural: str) -> bool:
    try:
        cluster.api.items(f"/apis/{API_VERSION}/{plural}")
    except ApiError:
        return False  # not yet
    return True


def _established(definition: dict[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
