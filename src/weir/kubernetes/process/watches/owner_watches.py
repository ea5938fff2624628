"""Watches of the kinds that make pods, each in one version: the first that the API server has.

An object in two versions would be two owners, and its pods would move from one to the other and back. The
objects of a version that the API server no longer has keep their last state. That ends when another version
has them or the API server says that it serves none.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from weir.kubernetes.api.changes import Change, Deliver, ObjectSet, ObjectUnreadable
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import LOOK_AGAIN_AFTER_S, Reflector
from weir.kubernetes.crd.objects import OwnerObject
from weir.kubernetes.process.watches.served_watch import is_served, offered
from weir.kubernetes.state.owners.index import not_listed, not_served
from weir.kubernetes.translate.job_templates import JOB, TEMPLATE, pod_of_suspended
from weir.kubernetes.translate.kind_table import group_of
from weir.kubernetes.translate.kinds import WatchedKind, WorkloadKinds

AGAIN_S = 30.0
"""Interval at which a kind is looked for that the API server doesn't have."""


class OwnerWatch:
    """Watch of one kind. `run` it as a task; `deliver` returns the function that takes in a version."""

    def __init__(self, api: ApiClient, watched: WatchedKind, deliver: Callable[[str], Deliver]) -> None:
        self._watched = watched
        self._versions = [
            Reflector(api, path_of(version, watched.resource), OwnerObject, deliver(version))
            for version in watched.api_versions
        ]
        self._read = self._versions[0]
        self._looked_for = asyncio.Event()
        self._api = api
        self._is_gone = False  # True if the API server serves no version of the kind

    async def run(self) -> None:
        """Watch for ever, in the version that the API server has at the time."""
        while True:
            for version in self._versions:
                version.take_over(self._read.hand_over())
                self._read, watches = version, version.counts.watches
                await version.run(until_absent=True)
                if version.counts.watches > watches:
                    self._is_gone = False
            self._is_gone = not await self._may_be_served()
            if self._is_gone:
                self._read.forget_all()
            await asyncio.sleep(LOOK_AGAIN_AFTER_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._looked_for.wait(), AGAIN_S)
            self._looked_for.clear()

    async def _may_be_served(self) -> bool:
        """Return True if objects of the kind may exist in a version that isn't read."""
        group, resource = group_of(self._watched.api_versions[0]), self._watched.resource
        try:
            for api_version in await offered(self._api, group):
                if await is_served(self._api, api_version, resource):
                    return True
        except ApiError:
            return True
        return False

    async def wait_until_known(self) -> None:
        """Wait until the objects of the kind are known, or certainly none exist in any version."""
        for version in self._versions:
            await version.synced.wait()
            if not version.absent:
                return

    def look_again(self) -> None:
        """Look at once for a kind that the API server didn't have."""
        if self._read.absent:
            self._looked_for.set()

    def unreadable(self) -> str:
        """Return why the kind can't be read; an empty text if it can."""
        reader, watched = self._read, self._watched
        if reader.absent:
            return not_served(watched.api_versions, watched.kind)
        return "" if reader.synced.is_set() else not_listed(watched.kind, reader.failure)

    @property
    def is_gone(self) -> bool:
        """Return True if certainly no object of the kind exists."""
        return self._read.absent and self._is_gone


class OwnerWatches:
    """Watches of all kinds of the table. `take` gets their objects with the fields that the table reads."""

    def __init__(
        self,
        api: ApiClient,
        kinds: WorkloadKinds,
        see: Callable[[Sequence[Change[OwnerObject]]], None],
        take: Callable[[Sequence[Change[Any]]], None],
    ) -> None:
        self._kinds, self._see, self._take = kinds, see, take
        self.watches = [OwnerWatch(api, watched, self._taker(watched.kind)) for watched in kinds.watched]
        self._watch_by_kind = {
            (group_of(watched.api_versions[0]), watched.kind): watch
            for watched, watch in zip(kinds.watched, self.watches, strict=True)
        }

    async def wait_until_known(self) -> None:
        """Wait until all kinds are known."""
        await asyncio.gather(*(watch.wait_until_known() for watch in self.watches))

    def look_again(self, api_version: str, kind: str) -> None:
        """Look at once for a kind that the API server didn't have."""
        watch = self._watch_by_kind.get((group_of(api_version), kind))
        if watch is not None:
            watch.look_again()

    def unreadable(self) -> dict[tuple[str, str], str]:
        """Return why kinds can't be read, by group and kind: pods may name any version of them."""
        return {key: why for key, watch in self._watch_by_kind.items() if (why := watch.unreadable())}

    def absent(self) -> frozenset[tuple[str, str]]:
        """Return the groups and kinds of which certainly no object exists."""
        return frozenset(key for key, watch in self._watch_by_kind.items() if watch.is_gone)

    def _taker(self, kind: str) -> Callable[[str], Deliver]:
        def of_version(api_version: str) -> Deliver:
            def deliver(changes: Sequence[Change[OwnerObject]]) -> None:
                self._see(changes)
                self._take([self._narrowed(api_version, kind, change) for change in changes])

            return deliver

        return of_version

    def _narrowed(self, api_version: str, kind: str, change: Change[OwnerObject]) -> Change[Any]:
        """Return a change whose object has only the fields that the table reads."""
        if not isinstance(change, ObjectSet):
            return change
        owner = change.object
        body = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": msgspec.to_builtins(owner.metadata),
            "spec": owner.spec,
            "status": owner.status,
        }
        try:
            narrow = self._kinds.narrow(body)
            if (api_version, kind) == JOB:
                pod = pod_of_suspended(owner.metadata, owner.spec, owner.status)
                narrow |= {} if pod is None else {TEMPLATE: pod}
            return ObjectSet(change.key, narrow)
        except Exception as error:  # noqa: BLE001 - the others have to be heard of
            return ObjectUnreadable(change.key, owner.metadata.uid, f"{type(error).__name__}: {error}")
