"""Table of the live stream: encoded rows, and which of them changed since the last frame."""

from collections.abc import Container

from pydantic_core import to_json

from weir.api.answers import NodeRow, QueueRow, WorkloadRow
from weir.dashboard.live_frames import COLUMNS, answer_json, frame, joined, workload_columns

ENDED_MAX = 100
"""Workloads that ended last, in the list."""
_OVER = frozenset({"succeeded", "failed", "stopped"})


class LiveTable:
    """Encoded rows, and which of them changed since the last frame."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}
        self.ended: dict[int, bytes] = {}
        self.queues: dict[str, bytes] = {}
        self.nodes: dict[str, bytes] = {}
        self.changed: dict[int, bytes] = {}
        self.changed_queues: dict[str, bytes] = {}
        self.changed_nodes: dict[str, bytes] = {}
        self.gone: dict[str, list[str]] = {"queues": [], "nodes": []}

    def set_workload(self, row: WorkloadRow) -> None:
        """Process a row of a workload, live or over."""
        text, uid = workload_columns(row), row.uid
        if row.status in _OVER:
            self.rows.pop(uid, None)
            self.ended[uid] = text
            while len(self.ended) > ENDED_MAX:
                del self.ended[next(iter(self.ended))]
        elif self.rows.get(uid) == text or uid in self.ended:
            return
        else:
            self.rows[uid] = text
        self.changed[uid] = text

    def set_queue(self, row: QueueRow) -> None:
        """Process a department or project."""
        text = answer_json(row)
        if self.queues.get(row.name) != text:
            self.queues[row.name] = self.changed_queues[row.name] = text

    def set_node(self, row: NodeRow) -> None:
        """Process a node."""
        text = answer_json(row)
        if self.nodes.get(row.name) != text:
            self.nodes[row.name] = self.changed_nodes[row.name] = text

    def keep_queues(self, names: Container[str]) -> None:
        """Drop departments and projects that were deleted."""
        self._keep("queues", self.queues, self.changed_queues, names)

    def keep_nodes(self, names: Container[str]) -> None:
        """Drop nodes that were deleted."""
        self._keep("nodes", self.nodes, self.changed_nodes, names)

    def _keep(
        self, kind: str, rows: dict[str, bytes], changed: dict[str, bytes], names: Container[str]
    ) -> None:
        for name in [name for name in rows if name not in names]:
            del rows[name]
            changed.pop(name, None)
            self.gone[kind].append(name)

    def whole(self, status: bytes) -> bytes:
        """Return the frame of everything."""
        return frame(
            [
                ("kind", b'"list"'),
                ("columns", to_json(COLUMNS)),
                ("rows", joined(self.rows.values())),
                ("ended", joined(self.ended.values())),
                ("queues", joined(self.queues.values())),
                ("nodes", joined(self.nodes.values())),
                ("status", status),
            ]
        )

    def take_changes(self) -> list[tuple[str, bytes]]:
        """Return the parts of a frame that changed since the last call."""
        parts = []
        for name, rows in (
            ("rows", self.changed),
            ("queues", self.changed_queues),
            ("nodes", self.changed_nodes),
        ):
            if rows:
                parts.append((name, joined(rows.values())))
        if any(self.gone.values()):
            parts.append(("gone", to_json(self.gone)))
        self.changed, self.changed_queues, self.changed_nodes = {}, {}, {}
        self.gone = {"queues": [], "nodes": []}
        return parts
