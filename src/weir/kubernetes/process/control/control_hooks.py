"""Hooks around the steps of the control loop of a cluster: reasons, statuses, counts."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from time import perf_counter

from structlog import get_logger

from weir.control.fault_isolation import SET_ASIDE
from weir.control.idle_lifecycle import (
    IDLE_SUSPENDED,
    IDLE_WARNING,
    PROTECTION_LOST,
    PROTECTION_RESTORED,
)
from weir.control.loop import Control
from weir.engine.overcommit import GRACE_S
from weir.engine.plan import Plan
from weir.kubernetes.api.gc_control import collector_paused, freeze, thaw
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.scheduler_settings import ShareMemoryRules
from weir.kubernetes.process.control.decision_log import DecisionLog
from weir.kubernetes.process.control.long_stops import LongStops
from weir.kubernetes.process.control.overcommit_relief import OvercommitController
from weir.kubernetes.process.control.queue_statuses import QueueStatuses
from weir.kubernetes.process.control.renewal import LOOK_EVERY_S, is_outgrown
from weir.kubernetes.process.control.scheduling_counters import SchedulingCounters
from weir.kubernetes.process.control.share_memory_relief import ShareMemoryController
from weir.kubernetes.query.cluster.summary import ClusterSummary, SchedulableDemand, cluster_summary
from weir.kubernetes.state.gangs.owner_state import suspension_refusal
from weir.kubernetes.writes.operations import EmitEvent, Write
from weir.model.policy import Policy
from weir.model.reasons import Reason, ReasonCode, as_clause
from weir.service.control_thread import BeginAgain
from weir.service.pending_reasons import PendingReasons, explanation
from weir.state.cluster import Cluster
from weir.state.events import Event, NoteAdded, PodAssigned, WorkloadEnded
from weir.state.runtime_history import RuntimeHistory
from weir.state.usage_history import UsageHistory

_IDLE_REASONS = {
    IDLE_WARNING: "IdleWarning",
    PROTECTION_LOST: "ProtectionLost",
    PROTECTION_RESTORED: "ProtectionRestored",
    IDLE_SUSPENDED: "IdleSuspended",
}
"""Reasons of Events, by the kind of a note."""
_LOG = get_logger(__name__)
PEOPLE_EVERY_S = 0.5
QUEUES_EVERY_S = 3.0
QUEUES_AT_LEAST_EVERY_S = 30.0
"""Interval of queue statuses without a change in the engine, such as for refused workloads."""


class ClusterControlHooks:
    """Hooks around the steps of the control thread; observes decisions of control."""

    def __init__(
        self,
        backend: KubernetesBackend,
        policy: Policy,
        clock: Callable[[], float],
        *,
        overcommit_grace_s: float = GRACE_S,
    ) -> None:
        self.backend = backend
        self._healing = OvercommitController(backend, overcommit_grace_s)
        self._long_stops = LongStops(backend)
        self._shares = ShareMemoryController(backend, self._healing.decide, self._healing.is_needed)
        self.policy = policy
        self.wake: Callable[[], None] = lambda: None
        self.submit: Callable[[Sequence[Write | EmitEvent]], None] = lambda _: None
        self._clock = clock
        self._reasons = PendingReasons(backend.reasons)
        self._queues = QueueStatuses()
        self._people_next_s = self._queues_next_s = self._queues_due_s = 0.0
        self._changes = -1
        self._begins = True
        self._paused = ExitStack()  # pauses garbage collection during the first step
        self.counts = SchedulingCounters()
        self.numbers = ClusterSummary()
        self.cycle = 0  # number of the last plan
        self._log = DecisionLog()
        self._control: Control | None = None
        self._began = 0.0  # begin of the present step
        self._size_looked_s = 0.0
        # Learned history of a former control, for a new one
        self._learned: tuple[UsageHistory, RuntimeHistory] | None = None

    def set_overcommit_grace(self, grace_s: float) -> None:
        """Wait for so long from now on before pods are stopped on a node with too many devices in use."""
        self._healing.grace_s = grace_s

    def set_share_memory(self, rules: ShareMemoryRules) -> None:
        """Treat pods beyond their share of a GPU's memory by these rules from now on."""
        self._shares.rules = rules

    def connect(self) -> Control:
        """Return a new control, whose next facts are the whole state."""
        self._paused.close()
        self._begins = True
        self.backend.connect()
        self.backend.reasons.clear()
        self._reasons = PendingReasons(self.backend.reasons)
        self._queues.forget()
        self._changes = -1
        self._log.forget()
        self.counts.connected(self._clock())
        if self._control is not None:
            self._control = None
            thaw()
        self._control = Control(
            self.backend,
            self.policy,
            self._clock,
            readers=(self,),
            decide=self._shares.decide,
            must_decide=self._shares.is_needed,
            isolates_faults=True,
            suspension_refusal=self._suspension_refusal,
        )
        if self._learned is not None:
            self._control.cluster.usage, self._control.cluster.runtimes = self._learned
            self._learned = None
        return self._control

    def _suspension_refusal(self, name: str) -> str:
        """Return why Weir can't suspend the workload of this name, as a clause; empty if it can."""
        return self.backend.read(
            lambda state: suspension_refusal(state.in_control.gang_of(name), state.resolver.owners)
        )

    def before_step(self, now_s: float) -> None:
        """Prepare for a step. The first one creates everything, and hardly any garbage."""
        self._began = perf_counter()
        control = self._control
        if control is not None and now_s >= self._size_looked_s + LOOK_EVERY_S:
            self._size_looked_s = now_s
            if is_outgrown(control.cluster, len(self.backend.cluster_state.resolver.marks)):
                self._learned = control.cluster.usage, control.cluster.runtimes
                _LOG.info(
                    "begins_again", nodes=len(control.cluster.nodes), selectors=len(control.cluster.marks)
                )
                raise BeginAgain
        if control is not None and control.policy is not self.policy:
            control.policy = self.policy  # set by another thread
        if self._begins:
            self._paused.enter_context(collector_paused())

    def after_step(self, control: Control, now_s: float) -> None:  # noqa: ARG002 - part of the protocol
        """Take note of a completed step."""
        self.counts.cycles.add(perf_counter() - self._began)
        if self._begins:
            self._begins = False
            freeze()
            self._paused.close()

    def happened(self, event: Event) -> None:
        """Count an event; a workload that runs, or is over, doesn't wait any more."""
        if self._control is not None:
            self.counts.happened(self._control.cluster, event)
        if isinstance(event, PodAssigned):
            self.backend.reasons.pop(event.place.pod.workload, None)
            self._note_allocation(event)
        elif isinstance(event, NoteAdded):
            if (reason := _IDLE_REASONS.get(event.kind)) is not None:
                warning = event.sentence if event.kind in (IDLE_WARNING, PROTECTION_LOST) else ""
                self.backend.note(event.workload, reason, event.sentence, idle_warning=warning)
            elif event.kind == SET_ASIDE:
                self._show_fault(event)
        elif isinstance(event, WorkloadEnded):
            self.backend.reasons.pop(event.workload, None)
            self._log.ended(event.workload)

    def _show_fault(self, note: NoteAdded) -> None:
        """Show why a workload is set aside: no decision has a reason for it any more."""
        shown = explanation(Reason(ReasonCode.SUSPENDED, as_clause(note.sentence).rstrip(".")))
        assert shown is not None
        self.backend.reasons[note.workload] = shown
        self.backend.reasons_changed([note.workload])

    def _note_allocation(self, event: PodAssigned) -> None:
        """Count how long a replica of a service waited for its GPUs."""
        waited_s = self.backend.note_allocation(event.place.pod, event.at_s)
        if waited_s is not None and self._control is not None:
            self.counts.replica_waited(self._control.cluster, event, waited_s)

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:  # noqa: ARG002 - as readers are called
        """Count and log a plan."""
        assert self._control is not None
        self.cycle += 1
        self.counts.decided(self._control.cluster, plan, took_s)
        self._log.decided(self._control.cluster, plan, self.cycle, took_s)

    def _changed(self, cluster: Cluster) -> int:
        """Return a number that grows with everything that statuses of queues depend on."""
        state = self.backend.cluster_state
        return cluster.changes + state.quota_objects.changes + state.registry.changes

    def on_idle(self, control: Control, now_s: float) -> float | None:
        """Update texts for people between steps; return the time of the next call, None if none is needed."""
        backend, cluster = self.backend, control.cluster
        changed = self._reasons.update(control, now_s)
        backend.reasons_changed(changed)
        backend.tell_waiting(now_s)
        stops = self._long_stops.take(cluster, self.policy.life.max_stop_grace, now_s)
        if stops:
            self.submit(stops)
        self._log.waits(cluster, changed, backend.reasons, self.cycle)
        if now_s >= self._people_next_s:
            backend.tell_people(now_s)
            self._people_next_s = self._clock() + PEOPLE_EVERY_S
        if now_s >= self._queues_next_s and (
            self._changed(cluster) != self._changes or now_s >= self._queues_due_s
        ):
            self._changes = self._changed(cluster)
            view = backend.queue_view()
            runnable = SchedulableDemand.of(cluster, view, backend.reasons)
            over = backend.overcommitted()
            self.numbers = cluster_summary(cluster, self.policy, now_s, view, runnable, backend.reasons, over)
            self.counts.keep(self.numbers.queues.keys())
            patches = list(self._queues.take(view, self.numbers))
            if patches:
                self.submit(patches)
            of_queues = {f"{kind} {name}": why for (kind, name), why in view.refused.items()}
            self._log.refused({**of_queues, **view.refused_workloads})
            self._queues_due_s = now_s + QUEUES_AT_LEAST_EVERY_S
            self._queues_next_s = self._clock() + QUEUES_EVERY_S
        due_s = backend.due_s
        if due_s is not None and due_s <= now_s:
            self.wake()
        times = [backend.people_due_s(), due_s, self._queues_due_s]
        if self._reasons.is_behind:
            times.append(now_s)
        if backend.has_news:
            times.append(self._people_next_s)
        if self._changed(cluster) != self._changes:
            times.append(self._queues_next_s)
        return min((time_s for time_s in times if time_s is not None), default=None)
