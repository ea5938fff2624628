"""Pods as the invariants see them: what a pod requests, where it is, and what it was told. Read from the API object alone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tools.controlplane.api import Object

WEIR = "weir"
GPU = "nvidia.com/gpu"
OVER = ("Succeeded", "Failed")
PREFIX = "weir.dev/"
TEMPLATE_OF_GPUS = "gpus-"
"""Start of the name of a claim template; the number of GPUs follows."""
WHOLE_MILLI = 1000
_BYTES = {
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A version of a pod."""

    namespace: str
    name: str
    uid: str
    node: str
    nominated: str
    phase: str
    deleting: bool
    scheduler: str
    gpus: int  # whole devices
    devices_shared: int  # devices of which it takes a part
    part_milli: int  # of each of these
    part_mib: int  # of each of these, if it asks for memory
    claimed: int  # devices that its claim asks for
    cpu_m: int
    memory: int
    ports: frozenset[int]
    created_s: float
    index: tuple[int, ...]  # devices that the annotation names
    start: str
    condition: str  # reason of PodScheduled=False, or nothing
    message: str
    spec: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def holds(self) -> bool:
        """Return True if it takes something of its node."""
        return bool(self.node) and self.phase not in OVER

    @property
    def waits(self) -> bool:
        """Return True if Weir is to place it."""
        pending = not self.node and self.phase == "Pending" and not self.deleting
        return pending and self.scheduler == WEIR

    @property
    def is_weirs(self) -> bool:
        return self.scheduler == WEIR

    @property
    def milli(self) -> int:
        """Return thousandths of devices; requests of memory count nothing here."""
        return (self.gpus + self.claimed) * WHOLE_MILLI + self.devices_shared * self.part_milli

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.get("annotations") or {}

    @property
    def gates(self) -> bool:
        return bool(self.spec.get("schedulingGates"))

    @property
    def group(self) -> str:
        """Return the name of the pod group that it names; empty if it names none."""
        return str((self.spec.get("schedulingGroup") or {}).get("podGroupName", ""))

    @property
    def claims(self) -> list[str]:
        """Return the names of its volume claims."""
        volumes = self.spec.get("volumes") or []
        return [
            each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each
        ]

    @property
    def controller(self) -> Mapping[str, Any] | None:
        references = self.metadata.get("ownerReferences") or []
        return next((each for each in references if each.get("controller")), None)

    def word(self, key: str) -> str:
        """Return what its own annotation or label of Weir says."""
        name = PREFIX + key
        return str(self.annotations.get(name, self.labels.get(name, "")))


def view(pod: Object) -> PodView:
    """Read a pod."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    gpus, shared, part_milli, part_mib = _devices(metadata, spec)
    reported = next((each for each in status.get("conditions") or [] if each["type"] == "PodScheduled"), {})
    waits = reported.get("status") == "False"
    marks = metadata.get("annotations") or {}
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName", ""),
        nominated=status.get("nominatedNodeName", ""),
        phase=status.get("phase", ""),
        deleting="deletionTimestamp" in metadata,
        scheduler=spec["schedulerName"],
        gpus=gpus,
        devices_shared=shared,
        part_milli=part_milli,
        part_mib=part_mib,
        claimed=sum(_claimed(each) for each in spec.get("resourceClaims") or []),
        cpu_m=_total(spec, "cpu", milli),
        memory=_total(spec, "memory", size),
        ports=frozenset(
            port["hostPort"]
            for container in spec["containers"]
            for port in container.get("ports") or []
            if "hostPort" in port
        ),
        created_s=datetime.fromisoformat(metadata["creationTimestamp"]).timestamp(),
        index=tuple(int(each) for each in re.split(r"[, ]+", marks.get("weir.dev/gpus", "")) if each),
        start=marks.get("weir.dev/start", ""),
        condition=str(reported.get("reason", "")) if waits else "",
        message=str(reported.get("message", "")) if waits else "",
        spec=spec,
        metadata=metadata,
    )


def _devices(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Return whole devices, devices shared, and the part of each in thousandths or MiB."""
    gpus = _total(spec, GPU, int)
    words = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    fraction, memory = words.get("weir.dev/gpu-fraction"), words.get("weir.dev/gpu-memory")
    if gpus or not (fraction or memory):
        return gpus, 0, 0, 0
    count = int(words.get("weir.dev/gpu-devices", "1"))
    if fraction:
        return 0, count, round(float(fraction) * WHOLE_MILLI), 0
    return 0, count, 0, size(str(memory)) >> 20


def _claimed(source: Mapping[str, str]) -> int:
    """Return the devices of a claim; the templates of the week say their number, all other claims are for one."""
    name = source.get("resourceClaimTemplateName", "")
    return int(name.removeprefix(TEMPLATE_OF_GPUS)) if name.startswith(TEMPLATE_OF_GPUS) else 1


def _total(spec: Mapping[str, Any], resource: str, read: Any) -> int:
    """Return what the pod takes of a resource: containers and sidecars together, or its greatest init container."""
    containers = sum(_of(each, resource, read) for each in spec["containers"])
    sidecars = greatest = 0
    for each in spec.get("initContainers") or []:
        if each.get("restartPolicy") == "Always":
            sidecars += _of(each, resource, read)
            greatest = max(greatest, sidecars)
        else:
            greatest = max(greatest, sidecars + _of(each, resource, read))
    overhead = read((spec.get("overhead") or {}).get(resource, "0"))
    return max(containers + sidecars, greatest) + int(overhead)


def _of(container: Mapping[str, Any], resource: str, read: Any) -> int:
    resources = container.get("resources") or {}
    written = (resources.get("requests") or {}).get(resource) or (resources.get("limits") or {}).get(resource)
    return int(read(str(written))) if written else 0


def milli(written: str) -> int:
    """Return a quantity of processors in thousandths."""
    return int(written[:-1]) if written.endswith("m") else round(float(written) * 1000)


def size(written: str) -> int:
    """Return a quantity of bytes."""
    found = re.fullmatch(r"([0-9.]+)(\w*)", written)
    assert found is not None, written
    return round(float(found[1]) * _BYTES[found[2]])
