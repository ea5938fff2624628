"""Resources of the API that a scheduler watches, with the shape of their objects."""

from typing import Any

from weir.kubernetes.api import budget_objects, objects, resource_objects, volume_objects
from weir.kubernetes.api.changes import Deliver
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.resource_objects import RESOURCE_API
from weir.kubernetes.crd.objects import QuotaObject, WorkloadObject
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.process.watches.served_watch import ServedForm, ServedWatch

WATCHED: tuple[tuple[str, str, type[Any]], ...] = (
    ("v1", "nodes", objects.KubeNode),
    ("v1", "namespaces", objects.Namespace),
    ("scheduling.k8s.io/v1", "priorityclasses", objects.PriorityClass),
    ("policy/v1", "poddisruptionbudgets", budget_objects.PodDisruptionBudget),
    ("v1", "persistentvolumeclaims", volume_objects.PersistentVolumeClaim),
    ("v1", "persistentvolumes", volume_objects.PersistentVolume),
    ("storage.k8s.io/v1", "storageclasses", volume_objects.StorageClass),
    ("storage.k8s.io/v1", "csinodes", volume_objects.CsiNode),
    (RESOURCE_API, "deviceclasses", resource_objects.DeviceClass),
    (RESOURCE_API, "resourceslices", resource_objects.ResourceSlice),
    (RESOURCE_API, "resourceclaims", resource_objects.ResourceClaim),
    (RESOURCE_API, "resourceclaimtemplates", resource_objects.ResourceClaimTemplate),
    (API_VERSION, "departments", QuotaObject),
    (API_VERSION, "projects", QuotaObject),
    (API_VERSION, "topologies", QuotaObject),
    (API_VERSION, "workloads", WorkloadObject),
    ("v1", "pods", objects.KubePod),
)
_TAINT_RULES = ServedForm(
    RESOURCE_API.partition("/")[0],
    "devicetaintrules",
    ("v1", "v1beta2", "v1alpha3"),
    resource_objects.DeviceTaintRule,
)
"""Rules that taint devices. Releases before 1.37 serve them only where an administrator turns them on."""


def taint_watch(api: ApiClient, deliver: Deliver) -> ServedWatch:
    """Return the watch of the rules that taint devices."""
    return ServedWatch(api, _TAINT_RULES, lambda _: deliver)
