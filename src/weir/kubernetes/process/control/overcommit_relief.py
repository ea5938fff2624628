"""Decides as ever, and stops pods on nodes that have had more GPUs in use than they have for too long."""

from collections.abc import Sequence

from structlog import get_logger

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.overcommit import GRACE_S, OvercommittedNode, relieve
from weir.engine.plan import Plan
from weir.kubernetes.backend import KubernetesBackend
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster

_LOG = get_logger(__name__)


class OvercommitController:
    """Adds evictions to plans."""

    def __init__(self, backend: KubernetesBackend, grace_s: float = GRACE_S) -> None:
        self._backend = backend
        self.grace_s = grace_s
        self._excess: dict[str, float] = {}  # last logged excess of GPUs by node

    def is_needed(self) -> bool:
        """Return True if a node is over-committed, or was at the last decision."""
        return bool(self._excess) or bool(self._backend.overcommitted())

    def decide(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        """Return the plan of the engine, with the evictions that over-committed nodes need."""
        plan, over = decide(cluster, policy, now_s, cache), self._backend.overcommitted()
        if over or self._excess:
            self._log(over)
            evicted = [eviction.pod for eviction in plan.evictions]
            relief = relieve(cluster, over, evicted, now_s, self.grace_s)
            plan.evictions += relief.evictions
            plan.wake_s = min(
                (wake_s for wake_s in (plan.wake_s, relief.wake_s) if wake_s is not None), default=None
            )
            self._backend.note_stuck(relief.stuck)
        return plan

    def _log(self, over: Sequence[OvercommittedNode]) -> None:
        """Log each node that becomes over-committed, is so by another number, or isn't any more."""
        excess = {overcommit.node: overcommit.use.excess_milli / WHOLE_MILLI for overcommit in over}
        for node in sorted(excess.keys() | self._excess.keys()):
            if excess.get(node) != self._excess.get(node):
                _LOG.warning("gpus_overcommitted", node=node, excess=excess.get(node, 0.0))
        self._excess = excess
