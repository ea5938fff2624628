"""Pods of each GPU of a node: the kubelet's devices, matched with the driver's GPUs.

Only a whole GPU that one pod holds alone has a use. A slice, a replica, a share and a device that no GPU fits
are kept with their pod, as devices of unknown use.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weir.kubernetes.node.pod_resources import GivenDevice

GPU_RESOURCE = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"
_CLAIM_PREFIX = "gpu-"
_VENDOR = "nvidia.com/"
_NAMES = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True)
class WholeGpu:
    """A GPU of the node that isn't partitioned. `minor` is the number of its device file."""

    uuid: str
    index: int
    minor: int | None


class PodDevice(NamedTuple):
    """A device of a pod. `gpu` is None if the use of this pod can't be separated from others."""

    namespace: str
    pod: str
    name: str
    gpu: WholeGpu | None


def pod_devices(given: Iterable[GivenDevice], gpus: Sequence[WholeGpu]) -> list[PodDevice]:
    """Return the GPUs of each pod, once."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    by_index = {str(gpu.index): gpu for gpu in gpus}
    by_minor = {f"{_CLAIM_PREFIX}{gpu.minor}": gpu for gpu in gpus if gpu.minor is not None}
    gpu_of: dict[tuple[str, str, str], WholeGpu | None] = {}
    holders: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in given:
        if not _is_gpu(one, by_uuid):
            continue
        gpu = _whole(one, by_uuid, by_index, by_minor)
        gpu_of[one.namespace, one.pod, gpu.uuid if gpu is not None else one.device] = gpu
        holders[_physical(one, gpu)].add((one.namespace, one.pod))
    return [
        PodDevice(namespace, pod, name, gpu if gpu is not None and len(holders[gpu.uuid]) == 1 else None)
        for (namespace, pod, name), gpu in gpu_of.items()
    ]


def _is_gpu(one: GivenDevice, by_uuid: Mapping[str, WholeGpu]) -> bool:
    if one.is_claimed:
        return one.resource == DRIVER
    return one.resource.startswith(_VENDOR) or one.device in by_uuid or one.device.startswith(_NAMES)


def _whole(
    one: GivenDevice,
    by_uuid: Mapping[str, WholeGpu],
    by_index: Mapping[str, WholeGpu],
    by_minor: Mapping[str, WholeGpu],
) -> WholeGpu | None:
    if one.is_claimed:
        return None if one.is_share else by_minor.get(one.device)
    if one.resource == GPU_RESOURCE and one.device in by_index:
        return by_index[one.device]
    return by_uuid.get(one.device)


def _physical(one: GivenDevice, gpu: WholeGpu | None) -> str:
    """Return the GPU of a device; a replica is named after its GPU, as in `GPU-1::0`."""
    return gpu.uuid if gpu is not None else one.device.partition("::")[0]
