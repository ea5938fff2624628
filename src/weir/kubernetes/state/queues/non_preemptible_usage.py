"""Quota check of non-preemptible work that Weir didn't place.

A pod that names its node bypasses Weir. If it is non-preemptible and exceeds the quota of a queue above it,
it counts as preemptible in spite of its annotation. It is reclaimed before all others. A workload that Weir
placed is checked again only if it was preemptible then and is non-preemptible now.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from weir.kubernetes.state.gangs.gang import AllocationOrigin, Gang
from weir.kubernetes.state.keyed_members import count_down
from weir.kubernetes.state.nodes.states import NodeStates
from weir.model.queues import Queue
from weir.model.resources import CPU, GPU, MEMORY, PODS
from weir.model.workloads import WHOLE_MILLI
from weir.state.shapes import model_row_name

Amounts = Mapping[str, int]


class NonPreemptibleUsage:
    """Allocation of non-preemptible workloads, by queue and resource."""

    def __init__(self) -> None:
        self._charges: dict[Gang, tuple[tuple[str, ...], Amounts]] = {}
        self._allocated: Counter[tuple[str, str]] = Counter()

    def judge(self, gangs: Iterable[Gang], queues: Mapping[str, Queue], node_states: NodeStates) -> None:
        """Charge non-preemptible workloads to the quotas of their queues, and mark those that exceed one.

        A marked workload (`overrun`) counts as preemptible. Workloads that Weir granted as non-preemptible
        come first and are never marked. The others come by age.
        """
        for gang in sorted(
            gangs, key=lambda candidate: (not _is_granted(candidate), candidate.submitted_s, candidate.name)
        ):
            self.forget(gang)
            gang.overrun, gang.self_bound = False, _is_self_bound(gang)
            if gang.project is None or gang.newer or gang.head is None or gang.is_preemptible:
                gang.granted = False
                continue
            if gang.life.idle.unprotected:
                continue  # not judged: others may evict it while it is idle
            amounts, path = _amounts(gang, node_states), _path(gang.project, queues)
            if not _is_granted(gang) and self._passes(path, amounts, queues):
                gang.overrun = True
                continue
            self._charge(gang, path, amounts)
            gang.granted = bool(amounts)
            for tracked in gang.pods():
                if tracked.origin is AllocationOrigin.ANNOTATION:
                    # Weir's own binding, before its record was written
                    tracked.origin = AllocationOrigin.WEIR

    def judge_protected(
        self, gangs: Iterable[Gang], queues: Mapping[str, Queue], node_states: NodeStates
    ) -> None:
        """Mark workloads over a quota that are non-preemptible because of disruption budgets.

        A budget of a marked workload (`lapsed`) was created after the workload had borrowed. The oldest are
        charged first.
        """
        for gang in sorted(gangs, key=lambda candidate: (candidate.submitted_s, candidate.name)):
            if not gang.is_preemptible or gang.project is None:
                continue  # non-preemptible by its own statement: `judge` has decided
            self.forget(gang)
            amounts, path = _amounts(gang, node_states), _path(gang.project, queues)
            gang.lapsed = self._passes(path, amounts, queues)
            if not gang.lapsed:
                self._charge(gang, path, amounts)

    def _charge(self, gang: Gang, path: tuple[str, ...], amounts: Amounts) -> None:
        if amounts:
            self._charges[gang] = path, amounts
            for queue in path:
                for resource, amount in amounts.items():
                    self._allocated[queue, resource] += amount

    def forget(self, gang: Gang) -> None:
        """Forget a workload."""
        path, amounts = self._charges.pop(gang, ((), {}))
        for queue in path:
            for resource, amount in amounts.items():
                count_down(self._allocated, (queue, resource), amount)

    def _passes(self, path: tuple[str, ...], amounts: Amounts, queues: Mapping[str, Queue]) -> bool:
        """Return True if these amounts in addition would exceed a quota on the path."""
        return any(
            self._allocated[name, resource] + amount > queues[name].quota[resource]
            for name in path
            for resource, amount in amounts.items()
            if resource in queues[name].quota
        )


def _is_granted(gang: Gang) -> bool:
    """Return True if Weir started all of the workload as non-preemptible."""
    return gang.granted and not _is_self_bound(gang)


def _is_self_bound(gang: Gang) -> bool:
    return any(
        tracked.bound and tracked.settled and tracked.origin is not AllocationOrigin.WEIR
        for tracked in gang.pods()
    )


def _path(project: str, queues: Mapping[str, Queue]) -> tuple[str, ...]:
    """Return the queues from a project to the top."""
    path: list[str] = []
    name: str | None = project
    while name is not None and name in queues and name not in path:
        path.append(name)
        name = queues[name].parent
    return tuple(path)


def _amounts(gang: Gang, node_states: NodeStates) -> Amounts:
    """Return the usage of a workload's pods together, in the units of quotas."""
    total: Counter[str] = Counter()
    for tracked in gang.pods():
        if not tracked.holds or tracked.info is None:
            continue
        request, node = tracked.info.request, node_states.node(tracked.node)
        milli = request.devices * min(WHOLE_MILLI, request.share_on(node_states.device_memory(tracked.node)))
        milli = milli * request.gpu_weight_milli // WHOLE_MILLI
        total.update({GPU: milli, CPU: request.cpu_milli, MEMORY: request.memory, PODS: 1})
        total.update(dict(request.further))
        if node is not None and node.gpu_model is not None:
            total[model_row_name(node.gpu_model)] += milli
    return {name: amount for name, amount in total.items() if amount}
