"""Device classes, slices, templates and pods that use them, as the API server takes them."""

from typing import Any

import pytest
from tests.unit.kubernetes.claims.random_claims import API
from tools.controlplane.api import Object
from tools.controlplane.binaries import chosen_release
from tools.controlplane.work import pod

GPU = "gpu.nvidia.com"
needs_claims = pytest.mark.skipif(chosen_release() < "1.34", reason="Resource claims need Kubernetes 1.34.")
needs_shared_devices = pytest.mark.skipif(
    chosen_release() < "1.36", reason="Parts of devices in claims are off by default before Kubernetes 1.36."
)
needs_providing_classes = pytest.mark.skipif(
    chosen_release() < "1.36",
    reason="Extended resources of classes are off by default before Kubernetes 1.36.",
)
_TAINT_RULES = {
    "1.34": ("resource.k8s.io/v1alpha3", ("DRADeviceTaints",)),
    "1.36": ("resource.k8s.io/v1beta2", ("DRADeviceTaintRules",)),
    "1.37": (API, ()),
}
TAINT_RULES_API, TAINT_RULES_FEATURES = _TAINT_RULES.get(
    chosen_release(), ("resource.k8s.io/v1alpha3", ("DRADeviceTaints", "DRADeviceTaintRules"))
)
"""API version of rules that taint devices, and the features by which a release serves it."""
TAINT_RULES_SERVED = [f"{TAINT_RULES_API}/devicetaintrules"] if TAINT_RULES_FEATURES else []
"""APIs to be switched on for these rules."""


def gpu_class() -> Object:
    selectors = [{"cel": {"expression": f'device.driver == "{GPU}"'}}]
    metadata = {"name": GPU}
    return {
        "apiVersion": f"{API}",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": selectors},
    }


def gpu_slice(name: str, count: int = 4, *, shared: bool = False) -> Object:
    """Return the slice of a node's GPUs, two on each PCIe root; shared ones take claims of parts."""
    memory: Object = {"value": "80Gi"}
    if shared:
        memory["requestPolicy"] = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    devices = [
        {
            "name": f"gpu-{at}",
            "attributes": {"resource.kubernetes.io/pcieRoot": {"string": f"root-{at // 2}"}},
            "capacity": {"memory": memory},
            **({"allowMultipleAllocations": True} if shared else {}),
        }
        for at in range(count)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-gpus"},
        "spec": {"driver": GPU, "nodeName": name, "pool": pool, "devices": devices},
    }


def template(within: str, name: str, count: int = 1, **more: object) -> Object:
    exactly = {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": count, **more}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": within},
        "spec": {"spec": spec},
    }


def claiming(within: str, name: str, template_name: str, **more: Any) -> Object:
    body = pod(within, name, gpus=0, **more)
    return claimed(body, resourceClaimTemplateName=template_name)


def claimed(body: Object, **source: str) -> Object:
    """Have the first container of a pod, or of a template of pods, use a claim from this source."""
    body["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return body
