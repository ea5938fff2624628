"""Lookup of objects by the names that people write."""

from typing import TypeVar

import msgspec

from weir.cli.cluster import objects
from weir.cli.cluster.errors import refused, wrong
from weir.cli.cluster.rows import name_of
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused, NotFound
from weir.kubernetes.api.objects import ApiObject, KubePod
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import OwnerFields, WorkloadObject, WorkloadSpec
from weir.kubernetes.crd.schemas import API_VERSION

JOBS = "batch/v1"
_LISTED_MOST = 8
View = TypeVar("View")


class Lookup:
    """Objects of a cluster. `within` is the namespace of names without one, `namespace` the given option."""

    def __init__(self, api: ApiClient, within: str, namespace: str | None) -> None:
        self._api = api
        self._within = namespace or within
        self._namespace = namespace

    async def find(self, path: str, view: type[View]) -> View | None:
        """Return an object; None if it doesn't exist or can't be read."""
        try:
            return await self._api.get(path, view)
        except ApiRefused as error:
            if error.status not in (403, 404):
                raise
            return None

    async def list_everywhere(self, api_version: str, resource: str, view: type[View]) -> list[View]:
        """Return the objects of all namespaces, or of the default one if only that may be read."""
        if self._namespace is None:
            try:
                return await self._api.list_all(path_of(api_version, resource), view)
            except ApiRefused as error:
                if error.status != 403:
                    raise
        return await self._api.list_all(path_of(api_version, resource, self._within), view)

    async def workloads(self) -> list[WorkloadObject]:
        """Return the Workload objects that may be read."""
        return await self.list_everywhere(API_VERSION, "workloads", WorkloadObject)

    async def workload(self, name: str) -> WorkloadObject:
        """Return the workload with a name, or whose owner has it; the namespace may precede it."""
        namespace, _, bare = name.rpartition("/")
        matching = [
            each
            for each in await self.workloads()
            if bare in (each.metadata.name, each.spec.owner.name)
            and namespace in ("", each.metadata.namespace)
        ]
        nearby = [each for each in matching if each.metadata.namespace == self._within]
        candidates = nearby if len(nearby) == 1 else matching
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = ", ".join(name_of(each) for each in candidates[:_LISTED_MOST])
            raise refused(409, f"There are several workloads {name}: write one of {names}.")
        queued = await self._just_queued(namespace or self._within, bare)
        if queued is None:
            raise refused(404, f"There is no workload {name}; `weir list -A` shows which there are.")
        return queued

    async def _just_queued(self, namespace: str, name: str) -> WorkloadObject | None:
        """Return a Job or bare pod without a workload: a new one, or one of another scheduler."""
        for api_version, kind, resource in ((JOBS, "Job", "jobs"), ("v1", "Pod", "pods")):
            prefix = f"{kind.lower()}-"
            bare = name.removeprefix(prefix)
            found = await self.find(path_of(api_version, resource, namespace, bare), ApiObject)
            if found is not None:
                labels = found.metadata.labels
                owner = OwnerFields(found.metadata.uid, api_version, kind, bare)
                spec = WorkloadSpec(
                    owner, labels.get("weir.dev/project", ""), labels.get("weir.dev/type", "train")
                )
                return WorkloadObject(msgspec.structs.replace(found.metadata, name=f"{prefix}{bare}"), spec)
        return None

    async def pods_of(self, workload: WorkloadObject) -> list[KubePod]:
        """Return the pods of a workload: its owner's, and those of objects that the owner creates."""
        namespace, owner = workload.metadata.namespace, workload.spec.owner
        pods = await self._api.list_all(path_of("v1", "pods", namespace), KubePod)
        uids = {owner.uid}
        if owner.kind != "Job":
            for api_version, resource in (("apps/v1", "replicasets"), (JOBS, "jobs")):
                between = await self._between(api_version, resource, namespace)
                uids |= {
                    each.metadata.uid
                    for each in between
                    if owner.uid in objects.owner_uids(each.metadata.owner_references)
                }
        return [
            pod
            for pod in pods
            if pod.metadata.uid in uids or uids & objects.owner_uids(pod.metadata.owner_references)
        ]

    async def _between(self, api_version: str, resource: str, namespace: str) -> list[ApiObject]:
        try:
            return await self._api.list_all(path_of(api_version, resource, namespace), ApiObject)
        except ApiRefused:
            return []

    async def namespace_of(self, project: str) -> str:
        """Return the namespace of a submission: the given one, or the only one of its project."""
        try:
            queue = await self._api.get(path_of(API_VERSION, "projects", name=project), objects.ListedQueue)
        except NotFound:
            raise wrong(f"project: there is no project {project}; `weir project list` shows them") from None
        namespaces = queue.spec.get("namespaces") or []
        if self._namespace is not None:
            if self._namespace not in namespaces:
                choices = ", ".join(namespaces) or "none yet"
                raise wrong(
                    f"namespace: project {project} isn't open to {self._namespace}; its own are {choices}"
                )
            return self._namespace
        if len(namespaces) != 1:
            choices = (
                f"one of {', '.join(namespaces)}" if namespaces else "one that is in its spec.namespaces"
            )
            raise wrong(f"namespace: project {project} has {len(namespaces)}: write --namespace, {choices}")
        return str(namespaces[0])
