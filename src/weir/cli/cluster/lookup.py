"""Lookup of workloads by the names that people write, and of the namespace of a submission."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from weir.cli.cluster.errors import refused, wrong
from weir.cli.cluster.missing_rights import FORBIDDEN
from weir.cli.cluster.query_api import QueryApi
from weir.client.errors import PoolError
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused, NotFound
from weir.kubernetes.api.paths import is_name, path_of

if TYPE_CHECKING:
    from weir.kubernetes.crd.objects import OwnerFields, OwnerObject

JOBS = "batch/v1"
_LISTED_MAX = 8
_LIST_ALL = "`weir list -A` shows which there are"


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Identifies a workload of a cluster, with its row and its queued or owning object.

    `queued` is the Job or the pod of one that Weir doesn't know: a new one, or one of another scheduler.
    """

    namespace: str
    name: str
    row: dict[str, Any]
    queued: "OwnerObject | None" = None
    owner: "OwnerFields | None" = None

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """Path in Weir's API."""
        return f"namespaces/{self.namespace}/workloads/{self.name}"


class Lookup:
    """Objects of a cluster by name. `namespace` is the given option."""

    def __init__(self, api: ApiClient, queries: QueryApi, namespace: str | None) -> None:
        self._api = api
        self._queries = queries
        self.namespace = namespace
        self._namespaces: dict[str, str] = {}
        self._leaving: set[str] = set()

    @property
    def within(self) -> str:
        """Return the namespace of names without one: the given one, or that of the kubeconfig."""
        return self._queries.within

    async def workload(self, name: str) -> LookupResult:
        """Return the workload with a name or an owner's name; `NAMESPACE/NAME` works, too.

        Raises:
            PoolError: no workload matches, or several do.
        """
        namespace, _, bare = name.rpartition("/")
        if namespace and not is_name(namespace):  # its path could be that of another object
            raise refused(404, f"There is no workload {name}; {_LIST_ALL}.")
        params = {"named": bare, "all": "true", "limit": "1000"}
        if namespace:
            listed = await self._queries.get(f"namespaces/{namespace}/workloads", params)
        else:
            listed = await self._queries.everywhere("workloads", params)
        page = msgspec.json.decode(listed)
        matching = [_lookup_result(row) for row in page["items"]]
        nearby = [candidate for candidate in matching if candidate.namespace == self.within]
        candidates = nearby if len(nearby) == 1 else matching
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = ", ".join(candidate.key for candidate in candidates[:_LISTED_MAX])
            raise refused(409, f"There are several workloads {name}: write one of {names}.")
        places = [namespace] if namespace else await self._own_namespaces()
        for place in places:
            queued = await self._just_queued(place, bare)
            if queued is not None:
                return queued
        await self._refuse_stopped(places, name, bare)
        text = f"There is no workload {name}; {_LIST_ALL}."
        raise refused(404, f"{text} {page.get('note') or ''}".rstrip())

    async def _refuse_stopped(self, places: Iterable[str], name: str, bare: str) -> None:
        """Refuse a name of an owner that is suspended or scaled to 0, with the command that resumes it."""
        from weir.cli.cluster.stopped_owners import stopped_owner

        for place in places if is_name(bare) else ():
            if sentence := await stopped_owner(self._api, place, bare):
                raise refused(404, f"There is no workload {name}. {sentence}")

    async def owner(self, workload: LookupResult) -> "OwnerFields":
        """Return the object that makes a workload's pods."""
        from weir.kubernetes.crd.objects import WorkloadObject
        from weir.kubernetes.crd.schemas import API_VERSION

        if workload.owner is not None:
            return workload.owner
        path = path_of(API_VERSION, "workloads", workload.namespace, workload.name)
        return (await self._api.get(path, WorkloadObject)).spec.owner

    async def _own_namespaces(self) -> list[str]:
        """Return the namespaces of names without one: that of the kubeconfig, and that of $WEIR_PROJECT."""
        namespaces = [self.within]
        if project := os.environ.get("WEIR_PROJECT"):
            with suppress(PoolError):  # it has several, or they can't be read
                namespaces.append(await self.namespace_of(project))
        return list(dict.fromkeys(namespaces))

    async def _just_queued(self, namespace: str, name: str) -> LookupResult | None:
        """Return a Job or bare pod without a workload: a new one, or one of another scheduler.

        The answer is None if there is neither.
        """
        from weir.kubernetes.crd.objects import OwnerFields, OwnerObject

        async def read(kind: str, api_version: str, resource: str) -> LookupResult | None:
            prefix = f"{kind.lower()}-"
            bare = name.removeprefix(prefix)
            try:
                queued = await self._api.get(path_of(api_version, resource, namespace, bare), OwnerObject)
            except ApiRefused as error:
                if error.status not in (403, 404):
                    raise
                return None
            owner = OwnerFields(queued.metadata.uid, api_version, kind, bare)
            return LookupResult(namespace, f"{prefix}{bare}", {}, queued, owner)

        job, pod = await asyncio.gather(read("Job", JOBS, "jobs"), read("Pod", "v1", "pods"))
        return job or pod

    async def namespace_for_work(self, project: str) -> str:
        """Return the namespace of new work. Raises the errors of `namespace_of`.

        Raises:
            Refused: the project is being deleted.
        """
        namespace = await self.namespace_of(project)
        if project in self._leaving:
            raise _takes_no_work(project, "name another project")
        return namespace

    async def check_takes_work(self, project: str) -> None:
        """Check the project of a Job that exists: its namespace is known, and the webhook checks its rights.

        Raises:
            Refused: the project is being deleted.
        """
        from weir.cli.cluster import objects
        from weir.kubernetes.crd.schemas import API_VERSION

        try:
            queue = await self._api.get(path_of(API_VERSION, "projects", name=project), objects.ListedQueue)
        except ApiRefused as error:
            if error.status not in (FORBIDDEN, 404):
                raise
            return
        if queue.metadata.deletion_timestamp is not None:
            raise _takes_no_work(project, "submit the work to another project")

    async def namespace_of(self, project: str) -> str:
        """Return the namespace of a submission: the given one, or the only one of its project."""
        if project not in self._namespaces:
            self._namespaces[project] = await self._read_namespace(project)
        return self._namespaces[project]

    async def _read_namespace(self, project: str) -> str:
        from weir.cli.cluster import objects
        from weir.kubernetes.crd.schemas import API_VERSION

        try:
            queue = await self._api.get(path_of(API_VERSION, "projects", name=project), objects.ListedQueue)
        except NotFound:
            raise wrong(f"project: there is no project {project}; `weir project list` shows them") from None
        except ApiRefused as error:
            if error.status != FORBIDDEN:
                raise
            if self.namespace is None:
                raise wrong(
                    f"namespace: you may not read project {project}, so name its namespace: "
                    "--namespace NAMESPACE"
                ) from None
            return self.namespace  # Weir's webhook checks if the project has this namespace
        if queue.metadata.deletion_timestamp is not None:
            self._leaving.add(project)
        namespaces = queue.spec.get("namespaces") or []
        if self.namespace is not None:
            if self.namespace not in namespaces:
                choices = ", ".join(namespaces) or "none yet"
                raise wrong(
                    f"namespace: project {project} isn't open to {self.namespace}; its own are {choices}"
                )
            return self.namespace
        if len(namespaces) != 1:
            choices = (
                f"one of {', '.join(namespaces)}" if namespaces else "one that is in its spec.namespaces"
            )
            raise wrong(f"namespace: project {project} has {len(namespaces)}: write --namespace, {choices}")
        return str(namespaces[0])


def _takes_no_work(project: str, instead: str) -> PoolError:
    right = f"{instead}, or create it again once it is gone"
    return wrong(f"project: {project} is being deleted and takes no new work; {right}")


def _lookup_result(row: dict[str, Any]) -> LookupResult:
    metadata = row["metadata"]
    return LookupResult(metadata["namespace"], metadata["name"], row)
