"""The facts of a pod read from its spec, its owners and its namespace, and the name of its workload."""

import hashlib
import re
from dataclasses import dataclass, replace

from weir.kubernetes.translate.annotations import Annotations
from weir.kubernetes.translate.kinds import DerivedWorkload, GangKey
from weir.kubernetes.translate.requests import PodRequest
from weir.model.workloads import Request

NAME_MAX = 200
"""Limit of characters of the name of a `Workload` object."""
_IS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NEVER_IN_NAMES = re.compile(r"[^a-z0-9]+", re.ASCII)


def object_name(key: GangKey) -> str:
    """Return the name of its `Workload` object: the kind and name of its owner, cut if too long.

    A pod may name an owner that doesn't exist, with any text for a kind and a name.
    """
    name = f"{key.kind.lower()}-{key.name}" + (f"-{key.gang.lower()}" if key.gang else "")
    if len(name) <= NAME_MAX and _IS_NAME.fullmatch(name):
        return name
    readable = name if _IS_NAME.fullmatch(name) else _NEVER_IN_NAMES.sub("-", name.lower())
    return f"{readable[: NAME_MAX - 9].strip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".strip(
        "-"
    )


@dataclass(frozen=True, slots=True)
class PodInfo:
    """Workload, request and constraints of one pod."""

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
    def gang(self) -> GangKey:
        """Identity of its workload."""
        return self.derived.key

    @property
    def request(self) -> Request:
        """Request of the pod."""
        return self.pod_request.request


def with_devices(info: PodInfo, devices: int, share_milli: int, gpu_memory: int) -> PodInfo:
    """Return the facts of a pod with these devices as its request, instead of those in its spec."""
    request = info.request
    if (request.devices, request.share_milli, request.gpu_memory) == (devices, share_milli, gpu_memory):
        return info
    bound = replace(request, devices=devices, share_milli=share_milli, gpu_memory=gpu_memory)
    return replace(info, pod_request=replace(info.pod_request, request=bound))
