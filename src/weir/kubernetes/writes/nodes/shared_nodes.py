"""Reserve nodes for shares of GPUs while shares wait for one, and release them after a while without shares.

A node is set aside after shares have waited for a while, one node at a time. It is taken back after no share
was on it for longer, and none waits. Only nodes that Weir set aside itself are taken back.
"""

from collections.abc import Iterator, Mapping

from weir.api.answers import Explanation
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.scheduler_settings import SharedNodeRules
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.translate.gpu_sharing import BY_POLICY, GPU_SHARING, is_share
from weir.kubernetes.writes.operations import PatchObject

LOOK_EVERY_S = 5.0
_NOT_FOR_LACK_OF_NODES = frozenset(
    ("over_limit", "non_preemptible_over_quota", "suspended", "not_ready", "gated", "refused")
)


class SharedNodes:
    """Labels nodes by these rules. All calls come from the control thread."""

    def __init__(
        self, cluster_state: ClusterState, reasons: Mapping[str, Explanation], rules: SharedNodeRules
    ) -> None:
        self._cluster_state = cluster_state
        self._reasons = reasons
        self._rules = rules
        self._next_s = 0.0
        self._waiting_since_s: float | None = None
        self._idle_since_s: dict[str, float] = {}  # by node that Weir set aside

    def set_rules(self, rules: SharedNodeRules) -> None:
        """Apply these settings from now on."""
        self._rules = rules
        self._next_s = 0.0

    @property
    def due_s(self) -> float | None:
        """Return the time of the next check; None without rules."""
        return self._next_s if self._rules.max else None

    def take(self, now_s: float) -> list[PatchObject]:
        """Return the changes of labels that are due."""
        rules, node_states = self._rules, self._cluster_state.node_states
        if not rules.max or now_s < self._next_s:
            return []
        self._next_s = now_s + LOOK_EVERY_S
        own = [name for name, shared in node_states.shared.items() if shared.by_policy]
        waits = any(map(self._waits, self._cluster_state.registry.gangs.values()))
        if not waits:
            self._waiting_since_s = None
        elif self._waiting_since_s is None:
            self._waiting_since_s = now_s
        patches = list(self._taken_back(own, now_s)) if not waits else []
        if self._waiting_since_s is not None and now_s >= self._waiting_since_s + rules.wait:
            node = node_states.unused_node() if len(own) < rules.max else None
            if node is not None:
                self._waiting_since_s = now_s  # the wait for the next node begins now
                patches.append(_labelled(node, BY_POLICY))
        return patches

    def _taken_back(self, own: list[str], now_s: float) -> Iterator[PatchObject]:
        node_states, before = self._cluster_state.node_states, self._idle_since_s
        self._idle_since_s = {
            name: before.get(name, now_s) for name in own if not node_states.has_shares(name)
        }
        for name, since_s in self._idle_since_s.items():
            if now_s >= since_s + self._rules.idle:
                yield _labelled(name, None)

    def _waits(self, gang: Gang) -> bool:
        """Return True if a pod of a workload waits for a node that accepts shares."""
        if gang.project is None or not any(is_share(group.request) for group in gang.groups):
            return False
        refusal = self._cluster_state.node_states.no_shares
        waiting = [
            tracked
            for tracked in gang.pods()
            if not tracked.holds and tracked.info is not None and is_share(tracked.info.request)
        ]
        if any(refusal and refusal[1:] in tracked.wait for tracked in waiting):
            return True
        why = self._reasons.get(gang.name)
        ready = any(not tracked.wait for tracked in waiting)
        return ready and why is not None and why.why not in _NOT_FOR_LACK_OF_NODES


def _labelled(name: str, value: str | None) -> PatchObject:
    return PatchObject(path_of("v1", "nodes", name=name), {"metadata": {"labels": {GPU_SHARING: value}}})
