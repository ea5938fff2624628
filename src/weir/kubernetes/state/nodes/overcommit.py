"""Over-committed nodes: since when, and changes that aren't reported yet."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from weir.engine.overcommit import OvercommittedNode
from weir.kubernetes.state.nodes.states import NodeStates

USERS_NAMED_MAX = 5
CHANGES_MAX = 1_000
"""Limit of unreported changes of nodes."""


@dataclass(frozen=True, slots=True)
class OvercommitChange:
    """A node became over-committed, isn't any more, or is so by another number of devices."""

    node: str
    now: OvercommittedNode | None
    users: tuple[str, ...] = ()  # foreign pods with devices of the node


class OvercommittedNodes:
    """Finds the nodes with more GPUs in use than they have."""

    def __init__(self, node_states: NodeStates) -> None:
        self._node_states = node_states
        self.nodes: dict[str, OvercommittedNode] = {}
        self._changes: deque[OvercommitChange] = deque(maxlen=CHANGES_MAX)

    def update(self, now_s: float) -> list[str]:
        """Count devices again on nodes that may have changed; return the nodes whose count did."""
        changed = []
        for name in self._node_states.recounted():
            use, before = self._node_states.device_use(name), self.nodes.get(name)
            if use is None or not use.excess_milli:
                now = None
            else:
                now = OvercommittedNode(name, use, now_s if before is None else before.since_s)
            if now == before:
                continue
            if now is None:
                del self.nodes[name]
            else:
                self.nodes[name] = now
            users = tuple(self._node_states.device_users(name)[:USERS_NAMED_MAX])
            self._changes.append(OvercommitChange(name, now, users))
            changed.append(name)
        return changed

    def among(self, names: Iterable[str]) -> list[OvercommittedNode]:
        """Return the over-committed nodes among these."""
        return [self.nodes[name] for name in sorted(set(names)) if name in self.nodes]

    def take(self) -> list[OvercommitChange]:
        """Return the changes that haven't been reported to people."""
        changes = list(self._changes)
        self._changes.clear()
        return changes
