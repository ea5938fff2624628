"""The names of the nodes set aside for shares, in a ConfigMap that the admission policy reads.

The policy could read the nodes themselves, but the API server converts each of them for each new pod. That
takes half a second where some hundred nodes are set aside.
"""

from weir.kubernetes.api.paths import path_of
from weir.kubernetes.state.node_states import NodeStates
from weir.kubernetes.translate.gpu_sharing import SHARED_NODES_MAP
from weir.kubernetes.writes.operations import ApplyObject

NODES_MAX = 10_000
"""A ConfigMap holds a mebibyte."""


class SharedNodeList:
    """Writes the names when they change. All calls come from the control thread."""

    def __init__(self, node_states: NodeStates, namespace: str) -> None:
        self._node_states = node_states
        self._namespace = namespace
        self._written: list[str] | None = None  # None: nobody knows what is there

    def forget(self) -> None:
        """Write again: another instance may have written since."""
        self._written = None

    def take(self) -> list[ApplyObject]:
        """Return the write that is due."""
        names = sorted(name for name, shared in self._node_states.shared.items() if shared.set_aside)[
            :NODES_MAX
        ]
        if not self._namespace or names == self._written:
            return []
        self._written = names
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": SHARED_NODES_MAP, "namespace": self._namespace},
            "data": dict.fromkeys(names, ""),
        }
        return [ApplyObject(path_of("v1", "configmaps", self._namespace, SHARED_NODES_MAP), body)]
