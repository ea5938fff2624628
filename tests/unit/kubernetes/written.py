"""Objects as people write them, read the way the API's answers are."""

import msgspec

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.volume_objects import PersistentVolume, PersistentVolumeClaim, StorageClass


def container(name="c", *, requests=None, limits=None, sidecar=False, ports=()):
    written = {
        "name": name,
        "resources": {"requests": requests or {}, "limits": limits or {}},
        "ports": list(ports),
    }
    return written | ({"restartPolicy": "Always"} if sidecar else {})


def pod(name="p", *, namespace="team", labels=None, uid=None, annotations=None, **spec):
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "labels": labels or {}}
    metadata["annotations"] = annotations or {}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container()], **spec}}, KubePod)


def matching(**labels):
    return {"matchLabels": labels}


def term(selector, key="zone", **more):
    return {"topologyKey": key} | ({} if selector is None else {"labelSelector": selector}) | more


def affinity(*, near=(), rather_near=(), apart=(), rather_apart=()):
    def both(required, preferred):
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": list(required),
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": each} for weight, each in preferred
            ],
        }

    return {"podAffinity": both(near, rather_near), "podAntiAffinity": both(apart, rather_apart)}


def claim(
    name="data", *, namespace="team", volume="", cls="fast", phase=None, size="10Gi", annotations=None, **spec
):
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}",
                "annotations": annotations or {},
            },
            "spec": {
                "volumeName": volume,
                "storageClassName": cls,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
                **spec,
            },
            "status": {"phase": phase or ("Bound" if volume else "Pending")},
        },
        PersistentVolumeClaim,
    )


def volume(name="pv", *, cls="fast", node=None, size="10Gi", labels=None, claim_ref=None, **spec):
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    written = {
        "capacity": {"storage": size},
        "storageClassName": cls,
        "accessModes": ["ReadWriteOnce"],
        "claimRef": claim_ref,
        **spec,
    }
    if node is not None:
        written["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return msgspec.convert(
        {"metadata": {"name": name, "labels": labels or {}}, "spec": written}, PersistentVolume
    )


def storage_class(name="fast", *, provisioner="example.com/disk", late=True, topologies=()):
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer" if late else "Immediate",
            "allowedTopologies": list(topologies),
        },
        StorageClass,
    )
