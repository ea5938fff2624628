"""Rows of a cluster's objects in the table of the live stream."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from weir.api.answers import NodeRow, WorkloadRow
from weir.cli.cluster.objects import ListedQueue
from weir.cli.cluster.queue_rows import queue_row
from weir.dashboard.live_table import LiveTable
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.paths import key_of
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.rows import workload_row
from weir.kubernetes.query.workload_index import LIVE


class ClusterRows:
    """Takes in changes of workloads, projects and departments, and holds their rows."""

    def __init__(self) -> None:
        self.table = LiveTable()
        self.names: dict[int, str] = {}
        """Namespace and name of each workload, by its number."""
        self._workloads: dict[str, WorkloadRow] = {}
        self._queues: dict[tuple[str, str], str] = {}
        self._unreadable: dict[str, str] = {}
        self._has_begun = False

    def begin(self) -> None:
        """Put the first list into the table: it ends with the workloads that ended last."""
        self._has_begun = True
        for row in sorted(self._workloads.values(), key=lambda row: row.ended_s or row.submitted_s):
            self._show(row)

    def take_workloads(self, changes: Sequence[Change[WorkloadObject]]) -> None:
        """Take in changes of workloads."""
        for change in changes:
            subject = f"workload {change.key}"
            if isinstance(change, ObjectSet):
                thing, meta = change.object, change.object.metadata
                name = key_of(meta.namespace, meta.name)
                row = workload_row(name, meta.uid, meta.creation_timestamp, thing.status.nodes, thing)
                self._unreadable.pop(subject, None)
                self._workloads[change.key] = row
                self.names[row.uid] = row.name
                if self._has_begun:
                    self._show(row)
            elif isinstance(change, ObjectRemoved):
                self._unreadable.pop(subject, None)
                self._remove(change.key)
            else:
                self._unreadable[subject] = change.sentence

    def _show(self, row: WorkloadRow) -> None:
        if row.status in LIVE:
            self.table.ended.pop(row.uid, None)  # an owner may begin again
        self.table.set_workload(row)

    def _remove(self, key: str) -> None:
        """Take out a workload. A live one whose object was deleted was stopped."""
        row = self._workloads.pop(key, None)
        if row is None:
            return
        if row.status in LIVE and self._has_begun:
            self._show(row.model_copy(update={"status": "stopped", "ended_s": time.time(), "reason": None}))
        self.table.ended.pop(row.uid, None)
        self.names.pop(row.uid, None)

    def queues(self, kind: str) -> Callable[[Sequence[Change[ListedQueue]]], None]:
        """Return the receiver of changes of projects, or of departments."""

        def take(changes: Sequence[Change[ListedQueue]]) -> None:
            for change in changes:
                self._take_queue(kind, change)
            self.table.keep_queues(frozenset(self._queues.values()))

        return take

    def _take_queue(self, kind: str, change: Change[ListedQueue]) -> None:
        subject = f"{kind} {change.key}"
        if isinstance(change, ObjectSet):
            try:
                row = queue_row(change.object, is_project=kind == "project")
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others are shown
                self._unreadable[subject] = str(error)
                return
            self._unreadable.pop(subject, None)
            self._queues[kind, change.key] = row.name
            self.table.set_queue(row)
        elif isinstance(change, ObjectRemoved):
            self._unreadable.pop(subject, None)
            self._queues.pop((kind, change.key), None)
        else:
            self._unreadable[subject] = change.sentence

    def set_nodes(self, items: Sequence[dict[str, Any]]) -> str | None:
        """Replace the nodes; return a sentence about those of another version that can't be read."""
        names, unreadable = set(), []
        for item in items:
            try:
                row = NodeRow.model_validate({key: item[key] for key in item if key != "metadata"})
            except ValidationError as error:
                unreadable.append(f"{item.get('name')} ({error.errors()[0]['msg']})")
                continue
            self.table.set_node(row)
            names.add(row.name)
        self.table.keep_nodes(names)
        return (
            f"Weir's answer about {len(unreadable)} nodes can't be read, such as {unreadable[0]}."
            if unreadable
            else None
        )

    @property
    def trouble(self) -> str | None:
        """Return which objects can't be read, in a sentence."""
        if not self._unreadable:
            return None
        subject, sentence = next(iter(self._unreadable.items()))
        others = len(self._unreadable) - 1
        more = f" So can't {others} more." if others else ""
        return f"The {subject} can't be read: {sentence.rstrip('.')}.{more}"
