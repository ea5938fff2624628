"""Pods that Weir schedules, from their first change to their end, and times of their next checks."""

from heapq import heappush
from typing import Any

from weir.control.port import PodExit
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.nodes.usage import foreign_usage
from weir.kubernetes.state.pods.resolver import PodResolver
from weir.kubernetes.state.queues.unscheduled_gpus import NEVER_QUOTA, OtherHolder
from weir.kubernetes.state.unreadable import UnreadableObjects
from weir.kubernetes.state.workloads.allocations import annotated
from weir.kubernetes.state.workloads.budgets import Budgets
from weir.kubernetes.state.workloads.registry import WorkloadRegistry
from weir.kubernetes.translate.bound_pods import is_ready, placed_s, scheduled_s
from weir.kubernetes.translate.pod_resizes import count_resizes

EMPTY_S = 60.0
"""Time after which a workload without pods has ended, if its owner doesn't show whether more will come."""
SHAPES_MAX = 50_000
SKEW_S_MAX = 60.0
"""Largest difference between a time of the API and our own clock that is believed."""
_OVER = ("Succeeded", "Failed")


class PodTracker:
    """Follows each pod that Weir places from its creation to its end."""

    def __init__(
        self,
        scheduler: str,
        node_states: NodeStates,
        resolver: PodResolver,
        registry: WorkloadRegistry,
        budgets: Budgets,
        unreadable: UnreadableObjects,
        managed: ManagedNamespaces = ALL,
    ) -> None:
        self.by_key: dict[str, TrackedPod] = {}
        self.moving: dict[str, float] = {}  # ordered starts and stops in progress, with their times
        self.due: list[tuple[float, int, str]] = []  # heap of times and keys of pods or workloads to check
        self.others: dict[str, OtherHolder] = {}  # pods of other schedulers that hold GPUs
        self.now_s = 0.0
        self._scheduler, self._managed = scheduler, managed
        self._node_states = node_states
        self._resolver = resolver
        self._registry = registry
        self._budgets = budgets
        self._unreadable = unreadable
        self._shapes: dict[Any, Any] = {}

    def advance(self, now_s: float) -> None:
        """Set the time, which never goes back."""
        self.now_s = max(self.now_s, now_s)

    def see(self, key: str, pod: KubePod | None) -> None:
        """Process a new, changed or deleted (None) pod."""
        if pod is not None:
            count_resizes(pod)
        if pod is not None and not self._is_ours(pod):
            self._see_other(key, pod)
            return
        tracked = self.by_key.get(key)
        if tracked is not None and (pod is None or pod.metadata.uid != tracked.uid):
            self._forget(tracked)
            tracked = None
        if pod is None:
            self.others.pop(key, None)
            self._node_states.set_foreign_pod(key, None)
            self._resolver.forget_marks(key)
            self._resolver.forget_other(key)
            return
        meta = pod.metadata
        if tracked is None:
            tracked = self.by_key[key] = TrackedPod(
                key, meta.uid, meta.name, seconds_of(meta.creation_timestamp)
            )
        tracked.phase, tracked.ready = pod.status.phase, is_ready(pod)
        tracked.deleting = meta.deletion_timestamp is not None
        if tracked.phase != "Pending" and not tracked.evicted:
            self.moving.pop(key, None)
        if pod.spec.node_name and not tracked.over:
            self._bound(tracked, pod)
        if tracked.phase in _OVER and not tracked.over:
            tracked.over = tracked.phase
            self.leave(tracked, PodExit.STOPPED if tracked.evicted else PodExit.LOST)
            self._node_states.set_foreign_pod(key, None)
        if self._resolver.see(key, pod, over=bool(tracked.over)):
            if tracked.info is None or tracked.info.wait or tracked.gang is None:
                self._resolver.stale.add(key)
            else:
                self._registry.dirty[tracked.gang] = None

    def _is_ours(self, pod: KubePod) -> bool:
        return pod.spec.scheduler_name == self._scheduler and pod.metadata.namespace in self._managed

    def _see_other(self, key: str, pod: KubePod) -> None:
        self._resolver.see_other(key, pod)
        self.others.pop(key, None)
        if not pod.spec.node_name or pod.status.phase in _OVER:
            self._node_states.set_foreign_pod(key, None)
            self._resolver.forget_marks(key)
            return
        marks, attached = self._resolver.see_foreign(key, pod)
        usage = foreign_usage(pod, self._resolver.devices, marks, attached, self.once)
        self._node_states.set_foreign_pod(key, usage)
        owner = pod.metadata.controller
        if usage.devices and (owner is None or owner.kind not in NEVER_QUOTA):
            self.others[key] = OtherHolder(usage.devices, pod.spec.scheduler_name)

    def once(self, value: Any) -> Any:
        """Return one shared object for equal values."""
        if len(self._shapes) > SHAPES_MAX:
            self._shapes.clear()
        return self._shapes.setdefault(value, value)

    def _bound(self, tracked: TrackedPod, pod: KubePod) -> None:
        """Process the node of a bound pod."""
        if tracked.bound:
            return
        node = self.once(pod.spec.node_name)
        claimed = annotated(pod)
        if tracked.assumed and (
            tracked.node != node or (claimed is not None and claimed.start != tracked.written_start)
        ):
            assert tracked.gang is not None
            tracked.gang.exits(tracked, self.now_s, PodExit.LOST, f"Another scheduler bound it to {node}.")
            tracked.assumed = False
        if tracked.guessed:
            tracked.claimed = claimed  # the devices of its claims are resolved later
        if not tracked.assumed:
            tracked.claimed, tracked.origin, tracked.settled = claimed, None, False
            tracked.guessed = False
            tracked.start, tracked.devices = 0, ()
            tracked.at_s = self.now_s if tracked.gang is not None else scheduled_s(pod)
        elif abs((at_s := placed_s(pod)) - tracked.at_s) < SKEW_S_MAX:
            tracked.at_s = at_s  # equal after a restart of control
        tracked.bound, tracked.assumed, tracked.node = True, False, node
        tracked.back_at_s = tracked.back_s = 0.0

    def _forget(self, tracked: TrackedPod) -> None:
        del self.by_key[tracked.key]
        self._budgets.withdrawn(tracked)
        if tracked.unreadable:
            self._unreadable.clear("pods", tracked.key)
        self.leave(tracked, PodExit.STOPPED if tracked.evicted else PodExit.LOST)
        self.leave_ended(tracked)
        self._node_states.set_foreign_pod(tracked.key, None)
        self._resolver.forget(tracked.key)

    def leave_ended(self, tracked: TrackedPod) -> None:
        """Remove an ended pod from the workload that counts it."""
        gang = None if tracked.info is None else self._registry.gangs.get(tracked.info.gang)
        if gang is not None and tracked.over:
            gang.succeeded.pop(tracked.key, None)
            self._registry.dirty[gang] = None

    def leave(self, tracked: TrackedPod, how: PodExit) -> None:
        """Release a pod's resources and remove it from its workload."""
        gang = tracked.gang
        if gang is None:
            return
        self.moving.pop(tracked.key, None)
        gang.leave(tracked, self.now_s, how)
        stopped = tracked.over == "Failed" and tracked.stopping
        gang.last_over = "" if stopped else tracked.over
        gang.backoff.lose(self.now_s, over=tracked.over, bound=tracked.bound, stopping=tracked.stopping)
        tracked.assumed = False
        self._node_states.set_own_pod(tracked.key, None)
        self.note_empty(gang)
        self._registry.dirty[gang] = None

    def note_empty(self, gang: Gang) -> None:
        """Remember since when a workload has no pods, if it has none."""
        if not gang.count and gang.empty_since_s is None:
            gang.empty_since_s = self.now_s
            self.look_again(self.now_s + EMPTY_S, gang.name)

    def drop(self, key: str) -> None:
        """Forget a pod that can't be processed."""
        tracked = self.by_key.pop(key, None)
        try:
            if tracked is not None:
                self.leave(tracked, PodExit.LOST)
                self.leave_ended(tracked)
        finally:
            self._resolver.drop(key)

    def node_devices_changed(self, node: str) -> None:
        """Read pods again that hold fewer devices than they request: the node may have more now."""
        for key in self._node_states.own_pods_on(node):
            tracked = self.by_key[key]
            if not tracked.bound or tracked.gang is None or tracked.info is None:
                continue
            if len(tracked.devices) < tracked.info.request.devices:
                self.infer_again(tracked, "Its node has other devices now.")

    def infer_again(self, tracked: TrackedPod, why: str) -> None:
        """Infer the devices of a running pod again, as if it were new; control gets the result."""
        assert tracked.gang is not None
        tracked.gang.exits(tracked, self.now_s, PodExit.LOST, why)
        tracked.settled, tracked.origin, tracked.start = False, None, 0
        tracked.guessed = False
        self._registry.dirty[tracked.gang] = None

    def look_again(self, at_s: float, key: str) -> None:
        """Check a pod or a workload again at this time."""
        heappush(self.due, (at_s, len(self.due), key))

    def is_stopping(self, key: str) -> bool:
        """Return True if the pod of this key is leaving its node."""
        tracked = self.by_key.get(key)
        return tracked is not None and tracked.stopping
