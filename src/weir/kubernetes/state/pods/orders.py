"""Starts and stops that control ordered, until their outcomes are known."""

from heapq import heappop

from weir.control.port import PodExit
from weir.kubernetes.state.claims.resource_claims import ResourceClaims
from weir.kubernetes.state.gangs.gang import AllocationOrigin, Gang, TrackedPod
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.nodes.usage import PodUsage
from weir.kubernetes.state.pods.tracker import PodTracker
from weir.kubernetes.state.workloads.budgets import Budgets
from weir.kubernetes.state.workloads.registry import WorkloadRegistry
from weir.model.reasons import as_clause
from weir.state.events import Placement, PodKey, StopRefused

DOUBT_S = 30.0
"""Time after which an unanswered binding counts as failed, if the pod doesn't show it."""
MOVES_S = 30.0
"""Time after which a pod that starts or stops is no longer waited for."""
SUSPENDED_S = 30.0
"""Time within which an accepted suspension shows on the owner; later, it was undone or had no effect."""
BACK_FIRST_S, BACK_MAX_S = 0.2, 30.0


class PodOrders:
    """Keeps the ordered starts and stops of pods until their outcome is seen."""

    def __init__(
        self,
        pods: PodTracker,
        node_states: NodeStates,
        registry: WorkloadRegistry,
        budgets: Budgets,
        claims: ResourceClaims,
    ) -> None:
        self._refusals: list[StopRefused] = []  # control gets them with the next facts
        self._pods = pods
        self._node_states = node_states
        self._registry = registry
        self._budgets = budgets
        self._claims = claims

    def take_refusals(self) -> list[StopRefused]:
        """Return the refused evictions that control hasn't received yet, and forget them."""
        refusals, self._refusals = self._refusals, []
        return refusals

    def come_due(self) -> None:
        """Check the pods and workloads whose times have come."""
        while self._pods.due and self._pods.due[0][0] <= self._pods.now_s:
            _, _, key = heappop(self._pods.due)
            tracked = self._pods.by_key.get(key)
            if tracked is not None and tracked.back_at_s and tracked.back_at_s <= self._pods.now_s:
                tracked.back_at_s = 0.0
                if tracked.gang is not None:
                    self._registry.dirty[tracked.gang] = None
            if tracked is not None and tracked.assumed and 0 < tracked.doubted_s <= self._pods.now_s:
                self.start_refused(
                    tracked, tracked.written_start, "It is unknown if the pod was bound.", self._pods.now_s
                )
            gang = self._registry.named.get(key)
            if gang is not None and (
                gang.empty_since_s is not None
                or gang.reported_start_gates
                or gang.idle.is_ordered
                or gang.restart.until_s is not None
            ):
                self._registry.dirty[gang] = None
                if gang.restart.is_late(self._pods.now_s):
                    self._restart_late(gang)
                if gang.idle.is_late(self._pods.now_s):
                    self._run_on(gang, "Its owner isn't suspended.", self._pods.now_s)

    def moving(self, now_s: float) -> int:
        """Return the number of pods that were just ordered to start or to stop and haven't done so yet."""
        moving = self._pods.moving
        while moving:
            key = next(iter(moving))
            if moving[key] > now_s - MOVES_S:
                break
            del moving[key]
        return len(moving)

    def _moves(self, tracked: TrackedPod, now_s: float) -> None:
        self._pods.moving.pop(tracked.key, None)  # keeps the order by time
        self._pods.moving[tracked.key] = now_s

    def stop_ordered(self, tracked: TrackedPod, now_s: float, *, by_plan: bool = True) -> None:
        """Record the order to evict a pod, by a plan or by control."""
        self._budgets.ordered(tracked, by_plan=by_plan)
        tracked.evicted = tracked.reported_stopping = True
        self._moves(tracked, now_s)

    def start_assumed(self, tracked: TrackedPod, place: Placement, start: int, now_s: float) -> PodUsage:
        """Assume a pod's placement, because it is about to be bound."""
        assert tracked.gang is not None
        assert tracked.info is not None
        tracked.assumed, tracked.node, tracked.devices = True, place.node, place.devices
        tracked.written_start = tracked.start = tracked.reported_start = start
        tracked.settled, tracked.origin = True, AllocationOrigin.WEIR
        tracked.guessed = tracked.info.is_guess
        tracked.doubted_s = 0.0
        tracked.reported_stopping, tracked.at_s = False, now_s
        tracked.gang.starts = max(tracked.gang.starts, start)
        if tracked.gang.reported is not None and not (
            tracked.gang.reported.preemptible or tracked.gang.protected
        ):
            tracked.gang.granted = True
        usage = PodUsage(place.node, tracked.info.request, place.devices)
        self._node_states.set_own_pod(tracked.key, usage)
        self._moves(tracked, now_s)
        self._registry.changed[tracked.gang] = None
        return usage

    def start_refused(
        self,
        tracked: TrackedPod,
        start: int,
        sentence: str,
        now_s: float,
        *,
        again: bool = False,
        is_settled: bool = False,
    ) -> None:
        """Process a refused binding.

        It is tried again after a while, or at once with `again`. `is_settled`: no write for the pod's claims
        is being sent any more.
        """
        if not tracked.assumed or tracked.written_start != start or tracked.gang is None:
            return
        self._pods.advance(now_s)
        tracked.gang.exits(tracked, now_s, PodExit.LOST, sentence)
        tracked.assumed, tracked.node, tracked.devices = False, "", ()
        tracked.settled, tracked.origin, tracked.guessed = False, None, False
        self._pods.moving.pop(tracked.key, None)
        self._node_states.set_own_pod(tracked.key, None)
        self._claims.refused(tracked.key, now_s, is_settled=again or is_settled)
        tracked.back_s = 0.0 if again else min(BACK_MAX_S, max(BACK_FIRST_S, 2 * tracked.back_s))
        if tracked.back_s:
            tracked.back_at_s = now_s + tracked.back_s
            self._pods.look_again(tracked.back_at_s, tracked.key)
        self._registry.dirty[tracked.gang] = None

    def start_doubted(self, tracked: TrackedPod, start: int, now_s: float) -> None:
        """Mark a pod whose binding has an unknown outcome: the pod shows it, or it is bound again."""
        if tracked.assumed and tracked.written_start == start:
            tracked.doubted_s = now_s + DOUBT_S
            self._pods.look_again(tracked.doubted_s, tracked.key)

    def stop_refused(self, tracked: TrackedPod, by: str | None, sentence: str, now_s: float) -> None:
        """Process the refusal of an eviction by a plan: the pod keeps running, and control plans again."""
        gang = tracked.gang
        if not tracked.evicted or tracked.deleting or gang is None:
            return
        self._pods.look_again(self._budgets.refused(tracked, now_s), gang.name)
        tracked.evicted = tracked.reported_stopping = False
        self._pods.moving.pop(tracked.key, None)
        self._refusals.append(
            StopRefused(PodKey(gang.name, tracked.group, tracked.index), now_s, sentence, by)
        )
        self._registry.dirty[gang] = None

    def suspension_accepted(self, gang: Gang, now_s: float) -> None:
        """Record that the owner of a workload is suspended: its controller deletes the pods."""
        if gang.idle.is_ordered:
            gang.idle.order_until_s = now_s + SUSPENDED_S
            self._pods.look_again(gang.idle.order_until_s, gang.name)

    def suspension_refused(self, gang: Gang, sentence: str, now_s: float, *, for_good: bool) -> None:
        """Record that the owner of a workload couldn't be suspended: its pods keep running."""
        gang.idle.refuse(as_clause(sentence).rstrip(".") if for_good else "")
        self._run_on(gang, sentence, now_s)
        self._registry.dirty[gang] = None

    def restart_accepted(self, gang: Gang, now_s: float, *, is_certain: bool) -> None:
        """Record that the owner of a workload was suspended instead of evictions, or probably was."""
        if gang.restart.is_under_way:
            gang.restart.until_s, gang.restart.is_certain = now_s + SUSPENDED_S, is_certain
            self._pods.look_again(gang.restart.until_s, gang.name)
            for tracked in gang.pods():
                self._budgets.accepted(tracked)

    def restart_refused(self, gang: Gang, sentence: str, now_s: float, *, for_good: bool) -> None:
        """Record that the owner of a workload doesn't stop its pods: they keep running.

        `for_good`: from now on these pods are evicted, but not later pods of the workload.
        """
        gang.restart.end()
        for tracked in gang.pods():
            tracked.suspends = for_good
        self._run_on(gang, sentence, now_s)
        self._registry.dirty[gang] = None

    def _restart_late(self, gang: Gang) -> None:
        """Let pods keep running that a suspension should have stopped. The next stop evicts them."""
        restart, now_s = gang.restart, self._pods.now_s
        if all(tracked.deleting or not tracked.evicted for tracked in gang.pods()):
            restart.until_s = None
        elif restart.is_shown:
            self.restart_refused(gang, "Its controller deletes no pods.", now_s, for_good=True)
        else:
            self.restart_refused(gang, "Its owner isn't suspended.", now_s, for_good=restart.is_certain)

    def _run_on(self, gang: Gang, sentence: str, now_s: float) -> None:
        for tracked in gang.pods():
            self.stop_refused(tracked, None, sentence, now_s)

    def stop_failed(self, tracked: TrackedPod, now_s: float) -> None:
        """Record that a pod could not be stopped: it keeps running, as if it had just been started."""
        if tracked.evicted and tracked.gang is not None:
            tracked.evicted = False
            self._budgets.withdrawn(tracked)
            self._pods.moving.pop(tracked.key, None)
            tracked.gang.exits(tracked, now_s, PodExit.LOST, "It could not be told to stop.")
            tracked.start = tracked.gang.next_start()
            self._registry.dirty[tracked.gang] = None
