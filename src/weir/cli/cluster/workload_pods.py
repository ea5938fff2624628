"""The pods of a workload of a cluster, and whether the workload is over, by the API server."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from weir.cli.cluster.array_job import array_position
from weir.cli.cluster.errors import refused
from weir.cli.cluster.lookup import JOBS, LookupResult
from weir.cli.cluster.pod_containers import OF_JOB, PodContainers
from weir.client.transport import ENDED
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, ApiRefused, ApiUnreachable, NotFound
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import OwnerFields, OwnerObject

LOOK_S_MIN, LOOK_S_MAX = 0.2, 2.0
"""Intervals between two reads of the pods, at first and later."""
PATIENCE_S = 60.0
"""Time without answers from an API server or node that is tolerated, as during an upgrade."""
_PASSING = (400, 429, 500, 502, 503, 504)
"""HTTP statuses that may go away: 400 is that of a container that isn't running yet."""
_JOB_ENDS = ("Complete", "Failed")
_PLACE = re.compile("[0-9]{1,9}")
_INDEX = "batch.kubernetes.io/job-completion-index"
T = TypeVar("T")
_ONLY = ""
"""Place of the pods of a Job that runs one at a time."""


class WorkloadPods:
    """Pods of one workload. `detail` reads Weir's answer: its pods, unless a Job makes them."""

    def __init__(
        self,
        api: ApiClient,
        workload: LookupResult,
        owner: OwnerFields,
        detail: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._api, self._workload, self._owner, self._detail = api, workload, owner, detail
        self._job: dict[str, Any] = {}  # spec of the Job
        self._pods: list[PodContainers] = []
        self._is_over = False
        self._lock, self._read_s, self._pause_s = asyncio.Lock(), 0.0, LOOK_S_MIN
        self.reads = 0

    @property
    def key(self) -> str:
        """Namespace and name of the workload."""
        return self._workload.key

    async def look(self) -> tuple[Sequence[PodContainers], bool]:
        """Return its pods, oldest first, and True if it was over before these were read.

        Reads follow one another in pauses, which grow while nothing changes, however many ask.
        """
        reads = self.reads
        async with self._lock:
            if reads == self.reads:
                await asyncio.sleep(self._read_s + self._pause_s - time.monotonic() if reads else 0)
                before = [pod.metadata.uid for pod in self._pods]
                self._is_over = await self._patiently(self._over)
                self._pods = sorted(await self._patiently(self._list), key=_age)
                changed = before != [pod.metadata.uid for pod in self._pods]
                self._pause_s = LOOK_S_MIN if changed else min(LOOK_S_MAX, 1.3 * self._pause_s)
                self._read_s, self.reads = time.monotonic(), reads + 1
        return self._pods, self._is_over

    async def pod(self, name: str) -> PodContainers | None:
        """Return a pod; None if it was deleted."""
        path = self.path(name)
        try:
            return await self._patiently(lambda: self._api.get(path, PodContainers))
        except NotFound:
            return None

    def path(self, name: str = "") -> str:
        """Return the path of a pod, or of all of the namespace."""
        return path_of("v1", "pods", self._workload.namespace, name)

    def place(self, pod: PodContainers) -> str:
        """Return the place of a pod in its workload: pods that replace one another have the same one."""
        index = pod.metadata.annotations.get(_INDEX)
        if index is not None:
            return index
        return _ONLY if self._job.get("parallelism") == 1 else pod.metadata.name

    def position(self, index: int) -> str:
        """Return the place of an index of an array.

        Raises:
            PoolError: the array has no such index.
        """
        if not self._size:
            raise refused(404, f"{self.key} is no array.")
        containers = self._job["template"]["spec"]["containers"]
        variables = {
            variable["name"]: variable.get("value", "")
            for part in containers
            for variable in part.get("env") or ()
        }
        position = array_position(index, variables, self._size)
        if position is None:
            raise refused(404, f"{self.key} has no index {index}.")
        return str(position)

    def may_come(self, place: str) -> bool:
        """Return True if a pod may still be created at an empty place."""
        return _PLACE.fullmatch(place) is not None and int(place) < self._size

    @property
    def _size(self) -> int:
        """Number of indices of a Job that has them; else 0."""
        is_indexed = self._job.get("completionMode") == "Indexed"
        return int(self._job.get("completions") or 0) if is_indexed else 0

    async def _patiently(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a read; after a first success, repeat failed reads for a while."""
        end_s = time.monotonic() + (PATIENCE_S if self.reads else 0)
        while True:
            try:
                return await read()
            except ApiError as error:
                if not is_passing(error) or time.monotonic() + LOOK_S_MAX > end_s:
                    raise
                await asyncio.sleep(LOOK_S_MAX)

    async def _list(self) -> list[PodContainers]:
        if self._owner.is_job:
            of_job = f"{OF_JOB}={self._owner.name}"
            pods = await self._api.list_all(self.path(), PodContainers, label_selector=of_job)
            uid = self._owner.uid
            return [pod for pod in pods if any(owner.uid == uid for owner in pod.metadata.owner_references)]
        if self._owner.kind == "Pod":
            names = [self._owner.name]
        else:
            rows = msgspec.json.decode(await self._detail())["pod_rows"]
            names = [row["name"].rpartition("/")[2] for row in rows]
        return [pod for pod in await asyncio.gather(*map(self.pod, names)) if pod is not None]

    async def _over(self) -> bool:
        try:
            if self._owner.is_job:
                path = path_of(JOBS, "jobs", self._workload.namespace, self._owner.name)
                job = await self._api.get(path, OwnerObject)
                self._job = job.spec
                conditions = job.status.get("conditions") or ()
                ended = any(
                    condition["type"] in _JOB_ENDS and condition["status"] == "True"
                    for condition in conditions
                )
                return ended or job.metadata.uid != self._owner.uid
            if self._owner.kind == "Pod":
                pod = await self.pod(self._owner.name)
                return pod is None or pod.is_over
            return msgspec.json.decode(await self._detail())["status"] in ENDED
        except NotFound:
            return True


def is_passing(error: ApiError) -> bool:
    """Return True if a later request may be answered."""
    return error.status in _PASSING if isinstance(error, ApiRefused) else isinstance(error, ApiUnreachable)


def _age(pod: PodContainers) -> tuple[bool, str, str]:
    """Return the sort key of a pod among others of its place: terminating pods come first."""
    metadata = pod.metadata
    return metadata.deletion_timestamp is None, metadata.creation_timestamp or "", metadata.name
