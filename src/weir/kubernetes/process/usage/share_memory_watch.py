"""The thread that hands the memory of shares, as nodes report it, over to the state of the cluster."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structlog import get_logger

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.state.pods.share_memory import NodeMemory
from weir.kubernetes.usage.node_reports import STALE_S

RESOURCE = "nodememory"
SETTLED = ""
"""Key that no node has: each agent could report since this process began."""
EVERY_S = 5.0
_LOG = get_logger(__name__)


class ShareMemoryWatch:
    """Delivers changes since the last look. Every replica does, so a new leader knows them."""

    def __init__(
        self,
        deliver: Callable[[Sequence[Change[Any]]], None],
        memories: Callable[[], Mapping[str, NodeMemory]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deliver = deliver
        self._memories = memories
        self._now_s = now_s
        self._began_s = now_s()
        self._delivered: dict[str, NodeMemory] = {}
        self._is_settled = False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weir-share-memory", daemon=True)

    def start(self) -> None:
        """Start the checks."""
        self._thread.start()

    def close(self) -> None:
        """Stop the checks."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.wait(EVERY_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - a look that fails costs that look
                _LOG.error("share_memory_look_failed", exc_info=error)

    def look(self) -> None:
        """Check once."""
        now = dict(self._memories())
        changes: list[Change[Any]] = [
            ObjectSet(node, memory) for node, memory in now.items() if self._delivered.get(node) != memory
        ]
        changes += [ObjectRemoved(node, "") for node in self._delivered if node not in now]
        if not self._is_settled and self._now_s() - self._began_s >= STALE_S:
            self._is_settled = True
            changes.append(ObjectRemoved(SETTLED, ""))
        self._delivered = now
        if changes:
            self._deliver(changes)
