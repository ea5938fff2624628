"""Pods that request GPUs by resource claims, which Weir schedules like those that request a number.

A pod names its claims or their templates, and these name classes of devices. Two schedulers that allocate
the devices of one node may choose the same device, so such a pod isn't left to the default scheduler. A claim
that doesn't exist yet isn't waited for: a pod that is created before it has to name the scheduler.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from weir.kubernetes.admission.gang_members import reviewed_template, with_scheduler
from weir.kubernetes.admission.reviews import PodRules, QuotaTree
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.paths import is_name, path_of
from weir.kubernetes.api.resource_objects import (
    RESOURCE_API,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)

CLAIMS, TEMPLATES = "resourceclaims", "resourceclaimtemplates"
WAIT_S = 2.0
"""Time to wait for all claims of one pod. The API server waits 5 s for the review."""
SOURCES_MAX = 32
"""Claims of a pod that are looked up; the API server takes no more."""
READ_MAX = 16
"""Claims that are read from the API server at a time."""
KEPT_MAX, KEPT_S = 1_000, 5.0
"""Number of templates to remember, and the time: the many pods of a Job name the same one."""

Source = tuple[str, str]
"""Resource and name of a claim, or of a template of one."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pod or Job that is Weir's if its claims ask for GPUs, and the JSON patch it then gets."""

    namespace: str
    sources: tuple[Source, ...]
    patch: list[dict[str, Any]]


def claimant(request: Mapping[str, Any], quota_tree: QuotaTree, reading: PodRules) -> Claimant | None:
    """Return the pod or Job whose claims have to be read; None if its claims don't matter."""
    pod = reviewed_template(request, quota_tree)
    if pod is None or any(
        owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in pod.owners
    ):
        return None
    sources = tuple(dict.fromkeys(map(_source, (pod.spec.get("resourceClaims") or ())[:SOURCES_MAX])))
    if not sources:
        return None
    return Claimant(pod.namespace, sources, with_scheduler(request, quota_tree, reading))


def _source(written: Mapping[str, Any]) -> Source:
    if name := written.get("resourceClaimName"):
        return CLAIMS, str(name)
    return TEMPLATES, str(written.get("resourceClaimTemplateName", ""))


class ClaimedClasses:
    """Look up whether claims ask for devices of some classes. Belongs to the event loop.

    Args:
        api: of the cluster.
        is_gpu_class: returns True for those that count as GPUs.
    """

    def __init__(
        self, api: ApiClient, is_gpu_class: Callable[[str], bool], *, wait_s: float = WAIT_S
    ) -> None:
        self._api = api
        self._is_gpu_class = is_gpu_class
        self._wait_s = wait_s
        self._reading = asyncio.Semaphore(READ_MAX)
        self._templates: OrderedDict[tuple[str, str], tuple[bool, float]] = OrderedDict()

    async def are_claimed(self, pod: Claimant) -> bool:
        """Return True if a claim of a pod requests such devices; False if that isn't known in time."""
        try:
            async with asyncio.timeout(self._wait_s):
                for resource, name in pod.sources:
                    if await self._claims(pod.namespace, resource, name):
                        return True
        except (TimeoutError, ApiError):
            pass
        return False

    async def _claims(self, namespace: str, resource: str, name: str) -> bool:
        key, now_s = (namespace, name), monotonic()
        claims_gpus, until_s = self._templates.get(key, (False, 0.0))
        if resource == TEMPLATES and now_s < until_s:
            return claims_gpus
        if not is_name(name):  # the API server checks names later
            return False
        path = path_of(RESOURCE_API, resource, namespace, name)
        async with self._reading:
            if resource == CLAIMS:
                return self._names_class((await self._api.get(path, ResourceClaim)).spec)
            claims_gpus = self._names_class((await self._api.get(path, ResourceClaimTemplate)).spec.spec)
        self._templates[key] = claims_gpus, now_s + KEPT_S
        if len(self._templates) > KEPT_MAX:
            self._templates.popitem(last=False)
        return claims_gpus

    def _names_class(self, spec: ResourceClaimSpec) -> bool:
        """Return True if a request names one of the classes, other than for admin access."""
        return any(
            self._is_gpu_class(alternative.device_class_name) and not alternative.admin_access
            for request in spec.devices.requests
            for alternative in (*((request.exactly,) if request.exactly else ()), *request.first_available)
        )
