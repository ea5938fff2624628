"""A pod as it was read from its spec, its owners and its namespace, and the key of its workload."""

from dataclasses import dataclass, field, replace

from weir.kubernetes.translate.annotations import Annotations
from weir.kubernetes.translate.kinds import DerivedWorkload
from weir.kubernetes.translate.requests import PodRequest
from weir.model.workloads import Request


@dataclass(frozen=True, slots=True)
class GangKey:
    """Identity of a workload: its owner, in any version of the API, and which of its gangs."""

    namespace: str
    api_version: str = field(compare=False)
    kind: str
    name: str
    uid: str
    gang: str = ""


@dataclass(frozen=True, slots=True)
class PodInfo:
    """Workload, request and constraints of one pod."""

    gang: GangKey
    derived: DerivedWorkload
    annotations: Annotations
    pod_request: PodRequest
    priority: int | None  # value of its priority class; None: default of its type
    submitted_s: float
    orphan: bool = False  # True: its owner doesn't exist
    wait: str = ""  # sentence: why it can't be placed yet
    wait_why: str = ""  # the same as a code of `weir.kubernetes.translate.gates`
    is_guess: bool = False  # True: the devices of its allocated claims are unknown at the moment

    @property
    def request(self) -> Request:
        """Request of the pod."""
        return self.pod_request.request


def with_devices(info: PodInfo, devices: int, share_milli: int, gpu_memory: int) -> PodInfo:
    """Return a reading that requests these devices instead of those that are written on the pod."""
    request = info.request
    if (request.devices, request.share_milli, request.gpu_memory) == (devices, share_milli, gpu_memory):
        return info
    bound = replace(request, devices=devices, share_milli=share_milli, gpu_memory=gpu_memory)
    return replace(info, pod_request=replace(info.pod_request, request=bound))
