"""Watch of a resource that releases of Kubernetes serve in different versions, or not at all.

The API server says which versions it serves: of several, the newest one that Weir knows is read. The objects
of a version that is no longer served keep their last state. That ends when another version has them or the
API server says that it serves none.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import field
from structlog import get_logger

from weir.kubernetes.api.changes import Deliver
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, NotFound
from weir.kubernetes.api.objects import ApiStruct
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector

LOOK_S = 0.5
"""Interval at which a watch looks for the end of the watched version."""
AGAIN_S = 30.0
"""Interval at which a watch looks for a resource that the API server doesn't serve."""
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServedForm:
    """A resource of a group of the API, its versions from newest to oldest, and the shape of its objects."""

    group: str
    resource: str
    versions: tuple[str, ...]
    object_type: type[Any]


class ServedVersion(ApiStruct):
    """A version of a group."""

    version: str = ""


class _Versions(ApiStruct):
    """The versions of a group of the API."""

    versions: list[ServedVersion] = field(default_factory=list)


class ServedResource(ApiStruct):
    """A resource of a version."""

    name: str = ""


class _Resources(ApiStruct):
    """The resources of a version of a group."""

    resources: list[ServedResource] = field(default_factory=list)


async def offered(api: ApiClient, group: str) -> list[str]:
    """Return the versions of a group of the API that are served, with the name of the group.

    Raises:
        ApiError: the API server doesn't answer.
    """
    try:
        api_group = await api.get(f"/apis/{group}", _Versions)
    except NotFound:
        return []
    return [f"{group}/{version.version}" for version in api_group.versions]


async def is_served(api: ApiClient, api_version: str, resource: str) -> bool:
    """Return True if a version of a group of the API has a resource.

    Raises:
        ApiError: the API server doesn't answer.
    """
    api_resources = await api.get(f"/apis/{api_version}", _Resources)
    return any(served.name == resource for served in api_resources.resources)


class ServedWatch:
    """Watches one resource in the newest version that the API server serves. `run` it as a task."""

    def __init__(
        self,
        api: ApiClient,
        form: ServedForm,
        deliver: Callable[[str], Deliver],
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create a watch.

        Args:
            api: of the cluster.
            form: the resource.
            deliver: returns the function that takes in changes of a version.
            note: takes why the resource can't be read; an empty sentence means that it can.
        """
        self.settled = asyncio.Event()
        """Set once its objects are known, or can't be had."""
        self._api, self._form = api, form
        self._deliver, self._note = deliver, note
        self._failure = ""
        self._last: Reflector[Any] | None = None

    async def run(self) -> None:
        """Watch for ever, in the version that is served at the time."""
        form = self._form
        while True:
            try:
                api_version = await self._served()
                why = "" if api_version else f"the API server doesn't serve {form.resource} of {form.group}"
                if not api_version and self._last is not None:
                    self._last.forget_all()
            except ApiError as error:
                api_version, why = "", self._failed(error)
            self._note(why)
            if not api_version:
                self.settled.set()
                await asyncio.sleep(AGAIN_S)
                continue
            _LOG.info("served_version_read", resource=form.resource, api_version=api_version)
            await self._reflect(api_version)

    async def _served(self) -> str:
        """Return the newest version that the API server serves; empty if it serves none.

        Raises:
            ApiError: the API server doesn't answer.
        """
        form = self._form
        api_versions = await offered(self._api, form.group)
        for version in form.versions:
            api_version = f"{form.group}/{version}"
            if api_version in api_versions and await is_served(self._api, api_version, form.resource):
                return api_version
        return ""

    async def _reflect(self, api_version: str) -> None:
        """Watch one version until the API server doesn't serve it any more."""
        path = path_of(api_version, self._form.resource)
        reflector = Reflector(self._api, path, self._form.object_type, self._deliver(api_version))
        if self._last is not None:
            reflector.take_over(self._last.hand_over())
        self._last = reflector
        task = asyncio.create_task(reflector.run(until_absent=True))
        try:
            while not task.done():
                if reflector.synced.is_set():
                    self._note("")
                    self.settled.set()
                elif reflector.failure:
                    self._note(self._failed(reflector.failure))
                await asyncio.sleep(LOOK_S if reflector.synced.is_set() else 0.05)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _failed(self, why: object) -> str:
        """Return why the resource can't be read, and log it once."""
        failure, self._failure = self._failure, str(why).rstrip(".")
        if failure != self._failure:
            _LOG.warning("served_version_not_read", resource=self._form.resource, why=self._failure)
        return self._failure
