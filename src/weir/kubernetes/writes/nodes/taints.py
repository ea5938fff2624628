"""The taint of nodes for shares of GPUs: added after the label, removed after the last share."""

from weir.kubernetes.api.paths import path_of
from weir.kubernetes.state.nodes.shared import taints_with
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.writes.operations import PatchObject

AGAIN_S = 15.0
"""Time after which a taint is written again if it doesn't appear on the node."""


class NodeTaints:
    """Writes the taint where it is missing, and removes it where it is left over. Control thread only."""

    def __init__(self, node_states: NodeStates) -> None:
        self._node_states = node_states
        self._again_s: dict[str, float] = {}  # by node, from when a write may be repeated

    @property
    def due_s(self) -> float | None:
        """Return the time of the next check; None if every taint is correct."""
        return min(self._again_s.values(), default=None)

    def take(self, now_s: float) -> list[PatchObject]:
        """Return the writes that are due."""
        patches, before = [], self._again_s
        self._again_s = {}
        for name, shared in self._node_states.shared.items():
            taint = self._node_states.keeps_taint(name)
            if taint == shared.tainted:
                continue
            self._again_s[name] = before.get(name, now_s)
            if self._again_s[name] <= now_s:
                self._again_s[name] = now_s + AGAIN_S
                spec = {"taints": taints_with(shared, taint=taint)}
                patches.append(
                    PatchObject(
                        path_of("v1", "nodes", name=name),
                        {"metadata": {"resourceVersion": shared.version}, "spec": spec},
                    )
                )
        return patches
