"""`weir kube release`: remove Weir's finalizer from projects and departments when Weir doesn't run."""

from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.credentials import Credentials
from weir.kubernetes.api.decoding import IgnoredObject
from weir.kubernetes.api.errors import Conflict, NotFound
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.writes.queue_finalizers import FINALIZER, PLURALS

TRIES = 5
"""Attempts for an object that another client changes at the same time."""


async def release_queues(access: Credentials) -> list[str]:
    """Remove the finalizer from all queues; return the objects that had it.

    Raises:
        ApiError: the API server refuses it, or can't be reached.
    """
    released = []
    async with ApiClient(access) as api:
        for plural in PLURALS.values():
            path = path_of(API_VERSION, plural)
            try:
                queues = await api.list_all(path, QuotaObject)
            except NotFound:
                continue  # the CRDs are already removed
            names = [queue.metadata.name for queue in queues]
            released += [f"{plural}/{name}" for name in names if await _release(api, f"{path}/{name}")]
    return released


async def _release(api: ApiClient, path: str) -> bool:
    """Remove the finalizer from an object; return False if it has none."""
    for left in reversed(range(TRIES)):
        try:
            metadata = (await api.get(path, QuotaObject)).metadata
            if FINALIZER not in metadata.finalizers:
                return False
            others = [finalizer for finalizer in metadata.finalizers if finalizer != FINALIZER]
            change = {"resourceVersion": metadata.resource_version, "finalizers": others}
            await api.patch(path, {"metadata": change}, Patch.MERGE, IgnoredObject)
        except NotFound:
            return False
        except Conflict:
            if not left:
                raise
        else:
            return True
    return False
