"""What a Weir in front of a cluster does around the steps of its control loop: reasons, statuses, counts."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from structlog import get_logger

from weir.backends.kubernetes.api.collector import collector_paused, freeze
from weir.backends.kubernetes.backend import KubernetesBackend
from weir.backends.kubernetes.writing.writes import Emit, Write
from weir.cluster.events import Event, PodAssigned, WorkloadEnded
from weir.control.loop import Control
from weir.decide.plan import Plan
from weir.model.policy import Policy
from weir.server.queue_statuses import QueueStatuses
from weir.server.reasons import Reasons

PEOPLE_EVERY_S = 0.5
QUEUES_EVERY_S = 3.0
_LOG = get_logger(__name__)


class ClusterHooks:
    """Runs around the steps of the control thread, and reads what control decides."""

    def __init__(self, backend: KubernetesBackend, policy: Policy, clock: Callable[[], float]) -> None:
        self.backend = backend
        self.policy = policy
        self.wake: Callable[[], None] = lambda: None
        self.submit: Callable[[Sequence[Write | Emit]], None] = lambda _: None
        self._clock = clock
        self._reasons = Reasons(backend.reasons)
        self._queues = QueueStatuses()
        self._people_next_s = self._queues_next_s = 0.0
        self._changes = -1
        self._begins = True
        self._paused = ExitStack()  # the collector, in a first step
        self.plans = 0
        self.planning_s = 0.0

    def connect(self) -> Control:
        """A new control; the next facts are the whole picture."""
        self._paused.close()
        self._begins = True
        self.backend.connect()
        self.backend.reasons.clear()
        self._reasons = Reasons(self.backend.reasons)
        self._queues.forget()
        self._changes = -1
        return Control(self.backend, self.policy, self._clock, readers=(self,))

    def begins(self, now_s: float) -> None:  # noqa: ARG002 - the first is like any other
        """A step begins. The first one makes all there is, and hardly any garbage."""
        if self._begins:
            self._paused.enter_context(collector_paused())

    def stepped(self, control: Control, now_s: float) -> None:  # noqa: ARG002 - what was made stays
        """A step was carried out whole."""
        if self._begins:
            self._begins = False
            freeze()
            self._paused.close()

    def happened(self, event: Event) -> None:
        """What runs, or is over, doesn't wait."""
        if isinstance(event, PodAssigned):
            self.backend.reasons.pop(event.place.pod.workload, None)
        elif isinstance(event, WorkloadEnded):
            self.backend.reasons.pop(event.workload, None)

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:  # noqa: ARG002 - it shows in what happens
        """How long planning takes."""
        self.plans += 1
        self.planning_s += took_s
        if plan.acts:
            _LOG.debug(
                "planned",
                binds=len(plan.binds),
                evictions=len(plan.evictions),
                promises=len(plan.promises),
                took_s=round(took_s, 4),
            )

    def rests(self, control: Control, now_s: float) -> float | None:
        """Between steps: what people are told."""
        backend, cluster = self.backend, control.cluster
        changed = self._reasons.turn(cluster, self.policy, now_s)
        backend.reasons_changed(changed)
        backend.tell_waiting(now_s)
        if now_s >= self._people_next_s:
            backend.tell_people(now_s)
            self._people_next_s = self._clock() + PEOPLE_EVERY_S
        if now_s >= self._queues_next_s and cluster.changes != self._changes:
            self._changes = cluster.changes
            patches = list(self._queues.take(backend.queue_view(), cluster, self.policy, now_s))
            if patches:
                self.submit(patches)
            self._queues_next_s = self._clock() + QUEUES_EVERY_S
        due_s = backend.due_s
        if due_s is not None and due_s <= now_s:
            self.wake()
        times = [self._reasons.due_s(cluster), backend.people_due_s(), due_s]
        if backend.statuses.has_work:
            times.append(self._people_next_s)
        if cluster.changes != self._changes:
            times.append(self._queues_next_s)
        return min((time_s for time_s in times if time_s is not None), default=None)
