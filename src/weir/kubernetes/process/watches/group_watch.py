"""Watch of the pod groups of `scheduling.k8s.io`, from the first pod on that names one.

A cluster without such pods pays nothing for them.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from weir.kubernetes.api.changes import Change, ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.objects import SchedulingGroupObject
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.process.watches.served_watch import ServedForm, ServedWatch
from weir.kubernetes.translate.scheduling_groups import GROUP, POD_GROUP, WORKLOAD

FORMS = {
    POD_GROUP: (
        ServedForm(GROUP, "podgroups", ("v1beta1", "v1alpha3", "v1alpha2"), SchedulingGroupObject),
        "podgroups",
    ),
    WORKLOAD: (ServedForm(GROUP, "workloads", ("v1alpha1",), SchedulingGroupObject), "groupworkloads"),
}
"""The form of each kind, and the name under which its changes are passed on."""
LOOK_S = 0.5
"""Interval at which the watch looks for pods that name a group."""


class GroupWatch:
    """Watches all kinds of pod groups that the API server serves. `run` it as a task."""

    def __init__(self, api: ApiClient, receiver: KubernetesBackend) -> None:
        self._api = api
        self._receiver = receiver
        self._unserved: dict[str, str] = {}
        self._watches: dict[str, ServedWatch] = {}

    async def run(self) -> None:
        """Watch for ever."""
        watched: set[str] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                for kind in self._receiver.group_kinds() - watched:
                    watched.add(kind)
                    tasks.create_task(self._watch(kind).run())
                await asyncio.sleep(LOOK_S)

    async def ready(self) -> None:
        """Wait until the groups that pods name are known."""
        for kind in self._receiver.group_kinds():
            await self._watch(kind).settled.wait()

    def _watch(self, kind: str) -> ServedWatch:
        """Return the watch of a kind."""
        watch = self._watches.get(kind)
        if watch is None:
            form, name = FORMS[kind]
            deliver = self._receiver.deliver(name)
            watch = self._watches[kind] = ServedWatch(
                self._api,
                form,
                lambda api_version: _stating(api_version, deliver),
                lambda why: self._set(kind, why),
            )
        return watch

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
