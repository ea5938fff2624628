"""The names of the nodes set aside for shares, in an object that the admission policy reads.

The policy could read the nodes themselves, but the API server converts each of them for each new pod. That
takes half a second where some hundred nodes are set aside.
"""

from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.crd.shared_nodes_spec import KIND, NAME, NODES_MAX, PLURAL
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.writes.operations import ApplyObject

AGAIN_S = 60.0
"""Time after which the names are written again: the object may have been deleted or changed."""


class SharedNodeList:
    """Write the names of these nodes when they change, and every AGAIN_S.

    All calls come from the control thread.
    """

    def __init__(self, node_states: NodeStates, namespace: str) -> None:
        self._node_states = node_states
        self._namespace = namespace
        self._written: list[str] | None = None  # None: unknown
        self._written_s = 0.0

    def forget(self) -> None:
        """Write the names at the next `take`: another replica may have written them since."""
        self._written = None

    @property
    def due_s(self) -> float | None:
        """Return when to write again; None if no node is set aside."""
        return self._written_s + AGAIN_S if self._written else None

    def take(self, now_s: float) -> list[ApplyObject]:
        """Return the write that is due."""
        names = sorted(name for name, shared in self._node_states.shared.items() if shared.set_aside)[
            :NODES_MAX
        ]
        is_late = bool(names) and now_s >= self._written_s + AGAIN_S
        if not self._namespace or (names == self._written and not is_late):
            return []
        self._written, self._written_s = names, now_s
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": NAME},
            "spec": {"nodes": names},
        }
        return [ApplyObject(path_of(API_VERSION, PLURAL, name=NAME), body)]
