"""Index of the owners of pods with GPUs, from watched objects.

A pod is often reviewed before the watch delivers its owner. The review then waits for it: a bounded time, and
a bounded number of reviews for each namespace, since anyone may name an owner that doesn't exist. A pod that
owns pods, such as the leader of a group, is asked for; watches of all pods would be kept twice otherwise.

Everything here runs on one event loop. What it does for one object is bounded.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from structlog import get_logger

from weir.kubernetes.admission.gang_members import MemberCandidate
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.objects import KubePod, OwnerReference
from weir.kubernetes.api.paths import is_name, path_of
from weir.kubernetes.crd.objects import OwnerObject
from weir.kubernetes.translate.gpu_templates import asks_for_gpus
from weir.kubernetes.translate.kinds import WorkloadKinds

WAIT_S = 2.0
"""Time to wait for all owners of one pod. The API server waits 5 s for the review."""
WAITING_MAX, WAITING_IN_ONE_MAX = 128, 16
"""Reviews that wait for owners at a time, of all namespaces and of one."""
LEVELS_MAX = 16
PODS_KEPT_MAX = 1_000
"""Pods that own pods which are remembered."""
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Owner:
    has_gpus: bool
    above: OwnerReference | None
    generation: int


class OwnerIndex:
    """Index the owners of pods by uid; `look_again` asks for a kind that wasn't served yet."""

    def __init__(
        self,
        kinds: WorkloadKinds,
        is_device: Callable[[str], bool],
        api: ApiClient | None = None,
        look_again: Callable[[str, str], None] = lambda _api_version, _kind: None,
        *,
        wait_s: float = WAIT_S,
    ) -> None:
        self._kinds = kinds
        self._is_device = is_device
        self._api = api
        self._look_again = look_again
        self._owners: dict[str, _Owner] = {}
        self._pods: OrderedDict[str, _Owner] = OrderedDict()
        self._wait_s = wait_s
        self._awaited: dict[str, set[asyncio.Future[None]]] = {}
        self._waiting: Counter[str] = Counter()  # reviews by namespace

    def __len__(self) -> int:
        return len(self._owners)

    def deliver(self, changes: Sequence[Change[OwnerObject]]) -> None:
        """Process objects that make pods: new, changed or removed ones."""
        for change in changes:
            if isinstance(change, ObjectSet):
                try:
                    self._see(change.object)
                except Exception as error:  # noqa: BLE001 - the others have to be heard of
                    _LOG.warning("owner_not_searched_for_gpus", key=change.key, why=str(error)[:300])
            elif isinstance(change, ObjectRemoved):
                self._owners.pop(change.uid, None)

    def _see(self, owner: OwnerObject) -> None:
        meta = owner.metadata
        before, above = self._owners.get(meta.uid), meta.controller
        if before is not None and before.generation and before.generation == meta.generation:
            if before.above == above:
                return
            has_gpus = before.has_gpus
        else:
            body = {"labels": meta.labels, "annotations": meta.annotations, "spec": owner.spec}
            has_gpus = asks_for_gpus(body, self._is_device)
        self._owners[meta.uid] = _Owner(has_gpus, above, meta.generation)
        for awaited in self._awaited.get(meta.uid, ()):
            if not awaited.done():
                awaited.set_result(None)

    async def has_gpus_above(self, member: MemberCandidate) -> bool:
        """Return True if any known owner above a pod or Job has GPUs."""
        return await self.has_gpus(member.namespace, member.controller)

    async def has_gpus(self, namespace: str, reference: OwnerReference | None) -> bool:
        """Return True if any known owner above a pod has GPUs; False also if that isn't known in time."""
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._climb(namespace, reference)
        except TimeoutError:
            return False

    async def _climb(self, namespace: str, reference: OwnerReference | None) -> bool:
        for _ in range(LEVELS_MAX):
            if reference is None or not self._kinds.knows(reference.api_version, reference.kind):
                return False
            if (reference.api_version, reference.kind) == ("v1", "Pod"):
                owner = await self._pod(namespace, reference)
            else:
                owner = self._owners.get(reference.uid) or await self._delivered(namespace, reference)
            if owner is None:
                return False
            if owner.has_gpus:
                return True
            reference = owner.above
        return False

    async def _delivered(self, namespace: str, reference: OwnerReference) -> _Owner | None:
        """Wait until the watch delivers an owner; None if too many reviews wait, or it doesn't come."""
        if self._waiting.total() >= WAITING_MAX or self._waiting[namespace] >= WAITING_IN_ONE_MAX:
            return None
        self._look_again(reference.api_version, reference.kind)
        awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(reference.uid, set()).add(awaited)
        self._waiting[namespace] += 1
        try:
            await awaited
        finally:
            self._waiting -= Counter({namespace: 1})
            alike = self._awaited[reference.uid]
            alike.discard(awaited)
            if not alike:
                del self._awaited[reference.uid]
        return self._owners.get(reference.uid)

    async def _pod(self, namespace: str, reference: OwnerReference) -> _Owner | None:
        owner = self._pods.get(reference.uid)
        if owner is not None:
            self._pods.move_to_end(reference.uid)
            return owner
        if self._api is None or not is_name(reference.name):  # a reference may contain any text
            return None
        try:
            pod = await self._api.get(path_of("v1", "pods", namespace, reference.name), KubePod)
        except ApiError:
            return None
        if pod.metadata.uid != reference.uid:
            return None
        meta = pod.metadata
        body = {
            "labels": meta.labels,
            "annotations": meta.annotations,
            "containers": [msgspec.to_builtins(container.resources) for container in pod.spec.containers],
            "init": [msgspec.to_builtins(container.resources) for container in pod.spec.init_containers],
        }
        pod_owner = _Owner(asks_for_gpus(body, self._is_device), meta.controller, 0)
        self._pods[reference.uid] = pod_owner
        if len(self._pods) > PODS_KEPT_MAX:
            self._pods.popitem(last=False)
        return pod_owner
