"""The workloads of a cluster as lists show them, from their objects, on every replica.

Changes come in on the event loop, which also answers. The objects are those that the state keeps, without
their metadata; the few fields of those that people see are kept here.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from weir.api.comma_lists import comma_words, user_words
from weir.api.workload_list import WorkloadRow
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.object_numbers import at_s, number_of, workload_identity
from weir.kubernetes.api.paths import key_of
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.aggregation.request_parameters import number
from weir.kubernetes.query.workloads.rows import phase_status, workload_row

GONE_MAX = 2_000
"""Deleted workloads that are remembered for their last Events."""
LIVE = frozenset(("pending", "starting", "running", "stopping"))


@dataclass(frozen=True, slots=True)
class WorkloadIndexEntry:
    """A workload, and the parts of its object that aren't kept elsewhere."""

    namespace: str
    name: str
    uid: str
    created: str | None
    nodes: tuple[str, ...]
    object: WorkloadObject

    @classmethod
    def of(cls, workload_object: WorkloadObject) -> Self:
        """Return the index entry of a Workload object."""
        meta, nodes = workload_object.metadata, tuple(workload_object.status.nodes)
        return cls(meta.namespace, meta.name, meta.uid, meta.creation_timestamp, nodes, workload_object)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return key_of(self.namespace, self.name)

    @property
    def identity(self) -> str:
        """Identity of its owner and, of several gangs, its gang.

        It stays if the Workload object is deleted and written again.
        """
        owner = self.object.spec.owner
        return workload_identity(self.namespace, owner.uid, owner.gang, uid=self.uid)

    @property
    def number(self) -> int:
        """Number in answers and in the history."""
        return number_of(self.identity)

    @property
    def submitted_s(self) -> float:
        """Time of submission; 0 if it is unknown."""
        return at_s(self.object.status.submitted_at) or at_s(self.created) or 0.0

    @property
    def metadata(self) -> dict[str, Any]:
        """Return those metadata of its object that answers need."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "creationTimestamp": self.created,
        }

    def row(self, now_s: float) -> WorkloadRow:
        """Return the row of a list, by the clock of the times in objects."""
        return workload_row(self.key, self.number, self.created, self.nodes, self.object, now_s)


@dataclass(frozen=True, slots=True)
class WorkloadQuery:
    """Filter of a list. `named` is the name of a workload or of its owner.

    `text`: a part of the namespace and name, the project or the user, in any case.
    `submitted_s`: the earliest time of submission; `since_s`: that of workloads whose objects are gone.
    """

    namespace: str = ""
    projects: Sequence[str] = ()
    statuses: frozenset[str] = frozenset()
    types: Sequence[str] = ()
    text: str = ""
    named: str = ""
    ended: bool = False
    users: Sequence[str] = ()
    since_s: float = 0.0
    submitted_s: float = 0.0

    @property
    def asks_for_ended(self) -> bool:
        """Return True if ended workloads are selected."""
        return bool(self.statuses - LIVE) or (self.ended and not self.statuses)

    def takes(self, workload: WorkloadIndexEntry) -> bool:
        """Return True if the query selects a workload."""
        spec, status = workload.object.spec, phase_status(workload.object)
        if self.namespace and self.namespace != workload.namespace:
            return False
        if self.named and self.named not in (workload.name, spec.owner.name):
            return False
        if status not in (self.statuses or LIVE) and not (self.ended and not self.statuses):
            return False
        return (
            (not self.projects or spec.project in self.projects)
            and (not self.users or spec.user in self.users)
            and (not self.types or (spec.type or "train") in self.types)
            and (not self.submitted_s or workload.submitted_s >= self.submitted_s)
            and any(self.text.lower() in field.lower() for field in (workload.key, spec.project, spec.user))
        )


class WorkloadIndex:
    """Workloads by namespace and name, and by the objects that own their pods."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._workloads: dict[str, WorkloadIndexEntry] = {}
        self._by_owner: dict[str, str] = {}
        # Deleted workloads by the key of the owner
        self._gone: OrderedDict[str, WorkloadIndexEntry] = OrderedDict()
        self._clock = clock
        self.changed: Callable[[str, WorkloadIndexEntry | None, float], None] = lambda _key, _now, _at_s: None
        """Called with each change: the key, and the workload unless it is gone."""
        self.removed: Callable[[WorkloadIndexEntry, float], None] = lambda _last, _at_s: None
        """Called with each workload that is gone, as it was stated last."""

    def __len__(self) -> int:
        return len(self._workloads)

    def deliver(self, changes: Sequence[Change[WorkloadObject]]) -> None:
        """Process changes, before others strip the objects of their metadata."""
        for change in changes:
            if isinstance(change, ObjectSet):
                workload_object = change.object
                meta = workload_object.metadata
                workload = WorkloadIndexEntry.of(workload_object)
                before = self._workloads.get(change.key)
                if before is not None and before.identity != workload.identity:
                    self.removed(before, self._clock())
                self._workloads[change.key] = workload
                self._by_owner[key_of(meta.namespace, workload_object.spec.owner.name)] = change.key
                self.changed(change.key, workload, self._clock())
            elif isinstance(change, ObjectRemoved):
                gone = self._workloads.pop(change.key, None)
                if gone is not None:
                    owner = key_of(gone.namespace, gone.object.spec.owner.name)
                    self._remember(owner, gone)
                    if self._by_owner.get(owner) == change.key:
                        del self._by_owner[owner]
                    self.changed(change.key, None, self._clock())
                    self.removed(gone, self._clock())

    def _remember(self, owner: str, gone: WorkloadIndexEntry) -> None:
        """Remember a deleted workload for a while: its last Events arrive later."""
        self._gone[owner] = gone
        self._gone.move_to_end(owner)
        if len(self._gone) > GONE_MAX:
            self._gone.popitem(last=False)

    def by_key(self, key: str) -> WorkloadIndexEntry | None:
        """Return the workload of a key; None if it is unknown."""
        return self._workloads.get(key)

    def named(self, namespace: str, name: str) -> WorkloadIndexEntry | None:
        """Return the workload of a name; None if it is unknown."""
        return self._workloads.get(key_of(namespace, name))

    def get(self, namespace: str, name: str) -> WorkloadIndexEntry | None:
        """Return the workload of a name, else the one whose owner has it; None if there is neither."""
        workload = self._workloads.get(key_of(namespace, name))
        if workload is None:
            workload = self._workloads.get(self._by_owner.get(key_of(namespace, name), ""))
        return workload

    def all(self) -> list[WorkloadIndexEntry]:
        """Return all workloads at this moment."""
        return list(self._workloads.values())

    def owner_of(self, namespace: str, pod: str) -> WorkloadIndexEntry | None:
        """Return the workload of a pod by its name, OWNER-SUFFIX with a suffix for each level.

        The answer is None if it is unknown.

        It may have been deleted a while ago.
        """
        stem = pod
        while stem:
            owner = key_of(namespace, stem)
            key = self._by_owner.get(owner)
            if key is not None:
                return self._workloads.get(key)
            if owner in self._gone:
                return self._gone[owner]
            stem = stem.rpartition("-")[0]
        return None


def matching(workloads: Sequence[WorkloadIndexEntry], query: WorkloadQuery) -> list[WorkloadIndexEntry]:
    """Return the selected workloads, newest first."""
    matches = [workload for workload in workloads if query.takes(workload)]
    matches.sort(key=lambda workload: workload.key)
    matches.sort(
        key=lambda workload: workload.object.status.submitted_at or workload.created or "", reverse=True
    )
    return matches


def params_query(params: Mapping[str, str], namespace: str) -> WorkloadQuery:
    """Return the filter of a request.

    Raises:
        QueryRefused: the time is no number.
    """
    return WorkloadQuery(
        namespace,
        comma_words(params.get("project")),
        frozenset(comma_words(params.get("status"))),
        comma_words(params.get("type")),
        params.get("q", ""),
        params.get("named", ""),
        params.get("all") == "true",
        user_words(params.get("user")),
        submitted_s=number(params, "since", 0.0),
    )
