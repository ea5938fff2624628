"""Rows of a cluster's objects in the table of the live stream, with the measured activity of workloads."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from weir.api.answers import NodeRow, WorkloadRow
from weir.api.workload_list import ActivityRow
from weir.cli.cluster.objects import ListedQueue
from weir.cli.cluster.queue_rows import queue_row
from weir.dashboard.live_table import LiveTable
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.workloads.index import LIVE, WorkloadIndexEntry

ROWS_AT_A_TIME = 200
"""Rows that are rebuilt for another state before other work gets a turn."""


@dataclass(frozen=True, slots=True)
class _ShownRow:
    """A workload in the table. Its row is kept as text: a tenth of the memory, for thousands of workloads.

    The row has the warning that its object states, and no state: the states of all are kept once.
    """

    uid: int
    is_live: bool
    row: bytes


class ClusterRows:
    """Rows of workloads, projects and departments, kept up to date by watches."""

    def __init__(self) -> None:
        self.table = LiveTable()
        self.names: dict[int, str] = {}
        """Namespace and name of each workload, by its number."""
        self._first: dict[str, WorkloadRow] = {}  # rows of the first list
        self._workloads: dict[str, _ShownRow] = {}
        self._queues: dict[tuple[str, str], str] = {}
        self._states: Mapping[str, str] = {}  # measured states by key of the workload
        self._unreadable: dict[str, str] = {}
        self._has_begun = False

    def __len__(self) -> int:
        return len(self._workloads) + len(self._first)

    def begin(self) -> None:
        """Move the rows of the first list into the table, those that ended last at the end."""
        self._has_begun = True
        for key, row in sorted(self._first.items(), key=lambda item: item[1].ended_s or item[1].submitted_s):
            self._show(key, row)
        self._first.clear()

    def take_workloads(self, changes: Sequence[Change[WorkloadObject]]) -> None:
        """Process changes of workloads."""
        for change in changes:
            subject = f"workload {change.key}"
            if isinstance(change, ObjectSet):
                workload = change.object
                row = WorkloadIndexEntry.of(workload).row(time.time())
                if workload.status.idle_warning and _holds_gpus(row):
                    warned = ActivityRow(warning=workload.status.idle_warning)
                    row = row.model_copy(update={"activity": warned})
                self._unreadable.pop(subject, None)
                self.names[row.uid] = row.name
                if self._has_begun:
                    self._show(change.key, row)
                else:
                    self._first[change.key] = row
            elif isinstance(change, ObjectRemoved):
                self._unreadable.pop(subject, None)
                self._remove(change.key)
            else:
                self._unreadable[subject] = change.sentence

    def _show(self, key: str, row: WorkloadRow) -> None:
        is_live = row.status in LIVE
        if is_live:
            self.table.ended.pop(row.uid, None)  # an owner may run again after its end
        self._workloads[key] = _ShownRow(row.uid, is_live, to_json(row) if is_live else b"")
        self.table.set_workload(self._with_state(key, row))

    def _with_state(self, key: str, row: WorkloadRow) -> WorkloadRow:
        """Return a row with the measured state; it may be older than the row."""
        state = self._states.get(key)
        if state is None or not _holds_gpus(row):
            return row
        warning = None if row.activity is None else row.activity.warning
        return row.model_copy(update={"activity": ActivityRow(state=state, warning=warning)})

    async def take_states(self, states: Mapping[str, str]) -> None:
        """Process the measured states of workloads, by their keys."""
        before, self._states = self._states, states
        if before is states:
            return
        changed = [key for key in self._workloads if before.get(key) != states.get(key)]
        for start in range(0, len(changed), ROWS_AT_A_TIME):
            for key in changed[start : start + ROWS_AT_A_TIME]:
                shown = self._workloads.get(key)
                if shown is not None and shown.is_live:
                    row = WorkloadRow.model_validate_json(shown.row)
                    self.table.set_workload(self._with_state(key, row))
            await asyncio.sleep(0)

    def _remove(self, key: str) -> None:
        """Remove a workload. A live workload whose object was deleted counts as stopped."""
        first, shown = self._first.pop(key, None), self._workloads.pop(key, None)
        if shown is not None and shown.is_live:
            row = WorkloadRow.model_validate_json(shown.row)
            end = {"status": "stopped", "ended_s": time.time(), "reason": None}
            self.table.set_workload(row.model_copy(update=end))
        uid = shown.uid if shown is not None else first.uid if first is not None else None
        if uid is not None:
            self.table.ended.pop(uid, None)
            self.names.pop(uid, None)

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
        """Replace the nodes; return a sentence about unreadable ones of another version; None without any."""
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
        """Return a sentence that names unreadable objects; None without any."""
        if not self._unreadable:
            return None
        subject, sentence = next(iter(self._unreadable.items()))
        others = len(self._unreadable) - 1
        suffix = f" So can't {others} more." if others else ""
        return f"The {subject} can't be read: {sentence.rstrip('.')}.{suffix}"


def _holds_gpus(row: WorkloadRow) -> bool:
    """Return True if the activity of a workload means something: it runs."""
    return row.status in LIVE and row.status != "pending"
