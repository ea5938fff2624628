"""Search for the pending workload that makes decisions raise, so that only this one is set aside.

A fault of the engine that one workload leads to would break every cycle, and nothing would be scheduled.
The search holds pending workloads back until a decision succeeds, which takes about log2 of their number
decisions.
"""

from collections.abc import Callable, Sequence

from weir.engine.cache import EngineCache
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.events import WorkloadSuspended
from weir.state.reduce import reduce

Decide = Callable[[Cluster, Policy, float, EngineCache], Plan]
AT_ONCE_MAX = 8
"""Limit of workloads set aside in one step; with more, single workloads aren't the cause."""
SET_ASIDE = "set_aside"
"""Kind of the note on a workload that was set aside."""
RETRY_AFTER_S = 600.0
"""Time after which a workload that was set aside is tried again. Its fault may be gone."""


def faulty_workload(cluster: Cluster, policy: Policy, now_s: float, decide: Decide) -> str | None:
    """Return the pending workload without which decisions succeed; None if they fail without any.

    In the order of submission, a decision with all workloads before it succeeds, and fails once it is added.
    """
    pending = [member for queued in cluster.waiting.values() for member in queued.members]
    names = [name for _, name, _ in sorted(pending, key=lambda member: member[:2])]

    def fails(count: int) -> bool:
        """Return True if a decision fails with this number of them."""
        with _HeldBack(cluster, names[count:]):
            try:
                decide(cluster, policy, now_s, EngineCache())
            except Exception:  # noqa: BLE001 - whichever it is, the search is for what leads to it
                return True
        return False

    if not names or fails(0):
        return None
    succeeds_with, fails_with = 0, len(names)
    while fails_with - succeeds_with > 1:
        middle = (succeeds_with + fails_with) // 2
        if fails(middle):
            fails_with = middle
        else:
            succeeds_with = middle
    return names[fails_with - 1]


class _HeldBack:
    """Workloads that may not be started inside a `with` block. Control reports none of this."""

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self._cluster = cluster
        self._names = names

    def __enter__(self) -> None:
        for name in self._names:
            reduce(self._cluster, WorkloadSuspended(name, True, "a decision is tried without it"))

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            reduce(self._cluster, WorkloadSuspended(name, False))
