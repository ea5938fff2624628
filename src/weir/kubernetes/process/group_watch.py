"""Watch of the pod groups of `scheduling.k8s.io`, from the first pod on that names one.

A cluster without such pods pays nothing for them. The API server says which versions it serves: of several,
the newest one that Weir knows is read.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import field
from structlog import get_logger

from weir.kubernetes.api.changes import Change, ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, NotFound
from weir.kubernetes.api.objects import ApiStruct, SchedulingGroupObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector
from weir.kubernetes.translate.scheduling_groups import GROUP, POD_GROUP, WORKLOAD

FORMS = {
    POD_GROUP: ("podgroups", ("v1beta1", "v1alpha3", "v1alpha2"), "podgroups"),
    WORKLOAD: ("workloads", ("v1alpha1",), "groupworkloads"),
}
"""By kind: its resource, its versions from newest to oldest, and the name under which changes are told."""
LOOK_S = 0.5
"""Interval at which the watch looks for pods that name a group, and for the end of a watched version."""
AGAIN_S = 30.0
"""Interval at which the watch looks for a kind that pods name and the API server doesn't serve."""
_LOG = get_logger(__name__)


class _Version(ApiStruct):
    version: str = ""


class _Versions(ApiStruct):
    """The versions of a group of the API."""

    versions: list[_Version] = field(default_factory=list)


class _Resource(ApiStruct):
    name: str = ""


class _Resources(ApiStruct):
    """The resources of a version of a group."""

    resources: list[_Resource] = field(default_factory=list)


class GroupReceiver(Protocol):
    """The backend, as far as the watch of groups needs it."""

    def group_kinds(self) -> set[str]:
        """Return the kinds of groups that pods name."""

    def set_unserved_groups(self, kinds: dict[str, str]) -> None:
        """Set the kinds that can't be read, and why."""

    def deliver(self, resource: str) -> Callable[[Sequence[Change[Any]]], None]:
        """Return the function that takes in the changes of a resource."""


class GroupWatch:
    """Watches all kinds of pod groups that the API server serves. `run` it as a task."""

    def __init__(self, api: ApiClient, receiver: GroupReceiver) -> None:
        self._api = api
        self._receiver = receiver
        self._unserved: dict[str, str] = {}
        self._known: dict[str, asyncio.Event] = {}  # set once its objects are known, or can't be had

    async def run(self) -> None:
        """Watch for ever."""
        watched: set[str] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                for kind in self._receiver.group_kinds() - watched:
                    watched.add(kind)
                    tasks.create_task(self._watch(kind))
                await asyncio.sleep(LOOK_S)

    async def ready(self) -> None:
        """Wait until the groups that pods name are known."""
        for kind in self._receiver.group_kinds():
            await self._is_known(kind).wait()

    def _is_known(self, kind: str) -> asyncio.Event:
        return self._known.setdefault(kind, asyncio.Event())

    async def served(self, kind: str) -> str:
        """Return the newest version of a kind that the API server serves; empty if it serves none.

        Raises:
            ApiError: the API server doesn't say.
        """
        resource, versions, _ = FORMS[kind]
        try:
            there = await self._api.get(f"/apis/{GROUP}", _Versions)
        except NotFound:
            return ""
        offered = {each.version for each in there.versions}
        for version in versions:
            if version not in offered:
                continue
            found = await self._api.get(f"/apis/{GROUP}/{version}", _Resources)
            if any(each.name == resource for each in found.resources):
                return f"{GROUP}/{version}"
        return ""

    async def _watch(self, kind: str) -> None:
        """Watch one kind, in whatever version is served."""
        while True:
            try:
                api_version = await self.served(kind)
                why = "" if api_version else f"the API server doesn't serve {FORMS[kind][0]} of {GROUP}"
            except ApiError as error:
                api_version, why = "", str(error).rstrip(".")
            self._set(kind, why)
            if not api_version:
                self._is_known(kind).set()
                await asyncio.sleep(AGAIN_S)
                continue
            _LOG.info("pod_groups_served", kind=kind, api_version=api_version)
            await self._reflect(kind, api_version)

    async def _reflect(self, kind: str, api_version: str) -> None:
        """Watch one version until the API server doesn't serve it any more."""
        resource, _, name = FORMS[kind]
        deliver = _stating(api_version, self._receiver.deliver(name))
        reflector = Reflector(self._api, path_of(api_version, resource), SchedulingGroupObject, deliver)
        task = asyncio.create_task(reflector.run())
        try:
            while not reflector.absent:
                if reflector.synced.is_set():
                    self._set(kind, "")
                    self._is_known(kind).set()
                elif reflector.failure:
                    self._set(kind, reflector.failure.rstrip("."))
                await asyncio.sleep(LOOK_S if reflector.synced.is_set() else 0.05)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _set(self, kind: str, why: str) -> None:
        before = dict(self._unserved)
        self._unserved.pop(kind, None)
        if why:
            self._unserved[kind] = why
        if before != self._unserved:
            self._receiver.set_unserved_groups(dict(self._unserved))


def _stating(
    api_version: str, deliver: Callable[[Sequence[Change[Any]]], None]
) -> Callable[[Sequence[Change[Any]]], None]:
    """Return a receiver whose objects state their version: in a list the API server leaves it out."""

    def take(changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if isinstance(change, ObjectSet):
                change.object.api_version = api_version
        deliver(changes)

    return take
