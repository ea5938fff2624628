"""The cluster behind the backend port: facts from its objects, and writes that carry out effects.

Two threads meet here. Reflectors and outcomes of writes come in on the thread that talks to the API
server and wait in the inbox. Control asks and orders on its own. The cluster's state is behind one lock,
which is never held for longer than some hundreds of changes take. The last check before a binding is sent
takes it too.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from structlog import get_logger

from weir.api.answers import Explanation
from weir.control.port import Effect, Fact
from weir.engine.overcommit import OvercommittedNode
from weir.kubernetes.api.changes import Change
from weir.kubernetes.crd.scheduler_settings import SharedNodeRules
from weir.kubernetes.effect_writes import (
    EffectWrites,
    nominations_first,
    workload_of_effect,
    workload_of_fact,
)
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.gangs.services import note_allocation
from weir.kubernetes.state.nodes.usage import PodUsage
from weir.kubernetes.state.queue_view import QueueView, view_of
from weir.kubernetes.writes.nodes.shared_node_list import SharedNodeList
from weir.kubernetes.writes.nodes.shared_nodes import SharedNodes
from weir.kubernetes.writes.nodes.taints import NodeTaints
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    Evict,
    Outcome,
    SuspendOwner,
    Write,
    WriteNotSent,
    WriteRefused,
    is_of_leaving,
)
from weir.kubernetes.writes.pods.claim_writes import release_write
from weir.kubernetes.writes.queue_finalizers import QueueFinalizers, leaving_messages
from weir.kubernetes.writes.statuses.overcommit import overcommit_event, stuck_event
from weir.kubernetes.writes.statuses.statuses import StatusWriter
from weir.kubernetes.writes.statuses.unreadable import unreadable_writes
from weir.model.policy import BudgetPolicy
from weir.state.events import PodKey

AT_ONCE = 256
"""Number of changes that are processed while the lock is held."""
FEW = 32
"""Up to this number, starting and stopping pods are no burst."""
_LOG = get_logger(__name__)
T = TypeVar("T")
See = Callable[[ClusterState, list[Change[Any]], float], None]


class KubernetesBackend:
    """Turns objects of the API server into facts for control, and control's effects into writes.

    `submit` takes writes to be carried out, from any thread; `wake` asks control to step.
    """

    def __init__(
        self,
        cluster_state: ClusterState,
        submit: Callable[[Sequence[Write | EmitEvent]], None],
        wake: Callable[[], None],
        clock: Callable[[], float],
        *,
        shared_nodes: SharedNodeRules | None = None,
        namespace: str = "",
    ) -> None:
        self.cluster_state = cluster_state
        self.reasons: dict[str, Explanation] = {}  # reasons of pending workloads, from a background search
        self.statuses = StatusWriter(cluster_state, self.reasons)
        self._taints = NodeTaints(cluster_state.node_states)
        self._shared_list = SharedNodeList(cluster_state.node_states, namespace)
        self._shared = SharedNodes(cluster_state, self.reasons, shared_nodes or SharedNodeRules())
        self._stuck: set[str] = set()  # over-committed nodes, already reported as permanent
        self.protection = QueueFinalizers(cluster_state.quota_objects, cluster_state.registry)
        self._submit = submit
        self.wake = wake
        self._clock = clock
        self._lock = threading.Lock()
        self._inbox: deque[tuple[See, Sequence[Change[Any]]]] = deque()
        self._outcomes: deque[tuple[Write, Outcome]] = deque()
        self._told: deque[Fact] = deque()  # facts that don't come from the API server
        self._effects = EffectWrites(cluster_state, self.statuses, wake)
        self._handing_over: Fact | None = None  # the fact that control is processing
        self._whole = True
        self._attended = False

    # Calls from the API server's thread

    def deliver(self, resource: str) -> Callable[[Sequence[Change[Any]]], None]:
        """Return the function that processes the changes of a resource."""

        def see(cluster_state: ClusterState, changes: list[Change[Any]], now_s: float) -> None:
            cluster_state.see(resource, changes, now_s)

        return self._taker(see)

    def deliver_owners(self) -> Callable[[Sequence[Change[Any]]], None]:
        """Return the function that processes the changes of a kind of owner."""
        return self._taker(ClusterState.see_owners)

    def _taker(self, see: See) -> Callable[[Sequence[Change[Any]]], None]:
        def take(changes: Sequence[Change[Any]]) -> None:
            self._inbox.append((see, changes))
            if self._attended:
                self.wake()
            else:
                self._take_in()

        return take

    def unreadable(self, kinds: Mapping[tuple[str, str], str], absent: frozenset[tuple[str, str]]) -> None:
        """Set the kinds of owners that can't be read, with the reasons; `absent` ones have no objects."""
        with self._lock:
            is_news = self.cluster_state.set_unreadable(kinds, absent)
        if is_news:
            self.wake()

    def group_kinds(self) -> set[str]:
        """Return the kinds of pod groups that pods name."""
        with self._lock:
            return set(self.cluster_state.resolver.groups.named)

    def set_unserved_groups(self, kinds: Mapping[str, str]) -> None:
        """Set the kinds of pod groups that can't be read here, and why."""
        with self._lock:
            self.cluster_state.resolver.groups.set_unserved(kinds)
        self.wake()

    def awaited_kinds(self) -> set[tuple[str, str]]:
        """Return the apiVersion and kind of unknown owners in pods' references."""
        with self._lock:
            return self.cluster_state.resolver.owners.awaited()

    def take_outcome(self, write: Write, outcome: Outcome) -> None:
        """Process the outcome of a write."""
        if isinstance(write, Bind | Evict | SuspendOwner):
            self._outcomes.append((write, outcome))
            self.wake()
        elif isinstance(outcome, WriteRefused | WriteNotSent):
            if isinstance(write.about, Gang):
                self._outcomes.append((write, outcome))
            if isinstance(outcome, WriteRefused) and not is_of_leaving(outcome):
                _LOG.warning("write_refused", status=outcome.status, why=outcome.sentence)

    def tell(self, facts: Iterable[Fact]) -> None:
        """Deliver these facts with the next ones, if control is running."""
        if self._attended:
            self._told.extend(facts)
            self.wake()

    def check(self, write: Bind | Evict | SuspendOwner) -> str:
        """Return the cause why a binding or stop must not be sent, by the newest state; empty if it may."""
        if not isinstance(write, Bind) and not write.needed_by:
            return ""
        self._take_in()
        with self._lock:
            if not isinstance(write, Bind):
                return self._effects.no_longer_needed(write)
            about: tuple[TrackedPod, int, PodUsage] = write.about  # type: ignore[assignment]
            tracked, start, usage = about
            if not tracked.assumed or tracked.written_start != start or tracked.deleting:
                return "A newer decision gives it another node."
            return self.cluster_state.node_states.refusal(tracked.key, usage)

    # The backend port

    def connect(self) -> None:
        """Report the whole state with the next `events`, without workloads at which control failed."""
        broke_at, self._handing_over = self._handing_over, None
        with self._lock:
            gang = (
                None
                if broke_at is None
                else self.cluster_state.in_control.gang_of(workload_of_fact(broke_at))
            )
            if gang is not None:
                self.cluster_state.quarantine(gang, f"the scheduler broke at {type(broke_at).__name__} of it")
        self._shared_list.forget()
        self._told.clear()
        self._whole = self._attended = True

    def leave(self) -> None:
        """Apply changes at once from now on, because no control reads events."""
        self._attended = False

    def events(self) -> Iterable[Fact]:
        """Yield the facts since the last call, and queue the writes that they need."""
        self._take_in()
        with self._lock:
            now_s = self._clock()
            if self._whole:
                self._whole = False
                self.cluster_state.retell()
            facts = self.cluster_state.facts(now_s)
            writes: list[Write | EmitEvent] = [*self._effects.take(now_s), *self._shared_list.take(now_s)]
            writes += [*self._taints.take(now_s), *self._shared.take(now_s)]
            writes += map(release_write, self.cluster_state.claims.take_idle())
            writes += [overcommit_event(overcommit) for overcommit in self.cluster_state.overcommitted.take()]
            for unread in self.cluster_state.unreadable.take():
                writes += unreadable_writes(unread, now_s)
        if writes:
            self._submit(writes)
        told = [self._told.popleft() for _ in range(len(self._told))]
        return self._handed_over([*facts, *told])

    def facts_only(self) -> Iterable[Fact]:
        """Return the facts for a replica that doesn't lead: no write follows, and none is noted."""
        self._take_in()
        with self._lock:
            if self._whole:
                self._whole = False
                self.cluster_state.retell()
            facts = self.cluster_state.facts(self._clock())
        return self._handed_over(facts)

    def read(self, look: Callable[[ClusterState], T]) -> T:
        """Return the result of a function on the state, which doesn't change meanwhile.

        Any thread may call it.
        """
        with self._lock:
            return look(self.cluster_state)

    def _handed_over(self, facts: Sequence[Fact]) -> Iterator[Fact]:
        """Yield these facts, and remember the one that control is processing."""
        for fact in facts:
            self._handing_over = fact
            yield fact
        self._handing_over = None

    def apply(self, effects: Sequence[Effect]) -> None:
        """Queue the writes that effects need. Another thread sends them and begins at once."""
        now_s, effects = self._clock(), nominations_first(effects)
        for begin in range(0, len(effects), AT_ONCE):
            writes: list[Write | EmitEvent] = []
            with self._lock:
                for effect in effects[begin : begin + AT_ONCE]:
                    writes += self._carried_out(effect, now_s)
            if writes:
                self._submit(writes)

    def _carried_out(self, effect: Effect, now_s: float) -> list[Write | EmitEvent]:
        """Return the writes of an effect; a workload whose effect fails is left out."""
        try:
            return list(self._effects.carry_out(effect, now_s))
        except Exception as error:  # noqa: BLE001 - the others are carried out
            gang = self.cluster_state.in_control.gang_of(workload_of_effect(effect))
            if gang is not None:
                self.cluster_state.leave_out(gang, error)
                self.wake()
            return []

    # Calls of the control thread outside its steps

    def queue_view(self) -> QueueView:
        """Return the present values of queues for the store."""
        with self._lock:
            return view_of(
                self.cluster_state,
                leaving_messages(self.cluster_state.quota_objects, self.cluster_state.registry.users),
            )

    @property
    def due_s(self) -> float | None:
        """Return when `events` has to be called even without a change; None if it needn't be.

        The answer is None if there is no such time.
        """
        with self._lock:
            times = (
                *(self.cluster_state.due_s, self._taints.due_s),
                *(self._shared.due_s, self._shared_list.due_s),
            )
            return min((time_s for time_s in times if time_s is not None), default=None)

    def people_due_s(self) -> float | None:
        """Return when the next status is due; None if none is."""
        with self._lock:
            due_s = (self.statuses.due_s, self.protection.due_s)
            return min((time_s for time_s in due_s if time_s is not None), default=None)

    @property
    def has_news(self) -> bool:
        """Return True if events or protections are due."""
        return self.statuses.has_work or self.protection.has_work

    def reasons_changed(self, names: Iterable[str]) -> None:
        """Record that these workloads have another pending reason now."""
        with self._lock:
            self.statuses.reasons_changed(names)

    def set_budget_rules(self, rules: BudgetPolicy) -> None:
        """Go by these settings for disruption budgets from now on."""
        with self._lock:
            self.cluster_state.budgets.set_rules(rules)

    def set_scale_up_over_quota(self, is_on: bool) -> None:
        """Say from now on whether pods over quota ask an autoscaler for nodes."""
        with self._lock:
            self.statuses.scale_up_over_quota = is_on

    def set_shared_nodes(self, rules: SharedNodeRules) -> None:
        """Set nodes aside for shares by these rules from now on."""
        with self._lock:
            self._shared.set_rules(rules)

    def unreadable_counts(self) -> dict[str, int]:
        """Return how many objects of each resource can't be read."""
        with self._lock:
            return self.cluster_state.unreadable.counts()

    def overcommitted(self) -> list[OvercommittedNode]:
        """Return the nodes with more devices in use than they have."""
        with self._lock:
            return list(self.cluster_state.overcommitted.nodes.values())

    def note_stuck(self, nodes: Collection[str]) -> None:
        """Emit an event for each over-committed node without evictable pods, once."""
        with self._lock:
            over = self.cluster_state.overcommitted.among(nodes)
            fresh = [overcommit for overcommit in over if overcommit.node not in self._stuck]
            self._stuck = {overcommit.node for overcommit in over}
        if fresh:
            self._submit([stuck_event(overcommit) for overcommit in fresh])

    def note(self, workload: str, reason: str, sentence: str, *, idle_warning: str | None = None) -> None:
        """Emit an event about a workload; None keeps its idle warning."""
        with self._lock:
            gang = self.cluster_state.in_control.gang_of(workload)
            if gang is not None:
                gang.idle.warning = gang.idle.warning if idle_warning is None else idle_warning
                self.statuses.say(gang, reason, sentence, "Measuring")

    def tell_people(self, now_s: float) -> None:
        """Write changed texts for people."""
        with self._lock:
            writes = [*self.statuses.take(now_s, busy=self._is_busy(now_s)), *self.protection.take(now_s)]
        if writes:
            self._submit(writes)

    def tell_waiting(self, now_s: float) -> None:
        """Write why workloads wait that have a new reason."""
        with self._lock:
            writes = self.statuses.take_waiting(now_s, busy=self._is_busy(now_s))
        if writes:
            self._submit(writes)

    def _is_busy(self, now_s: float) -> bool:
        return self._effects.binding > FEW or self.cluster_state.orders.moving(now_s) > FEW

    @property
    def binding(self) -> int:
        """Return the number of bindings without an answer yet."""
        return self._effects.binding

    def note_allocation(self, pod: PodKey, at_s: float) -> float | None:
        """Record that a pod gets its GPUs; return its wait if it is a replica of a service, else None."""
        with self._lock:
            gang = self.cluster_state.in_control.gang_of(pod.workload)
            tracked = None if gang is None else gang.pod_at(pod)
            return None if gang is None or tracked is None else note_allocation(gang, tracked, at_s)

    # Below

    def _take_in(self) -> None:
        """Apply all received changes to the state."""
        while self._inbox or self._outcomes:
            with self._lock:
                if self._inbox:
                    self._take_some()
                now_s = self._clock()
                for _ in range(min(AT_ONCE, len(self._outcomes))):
                    write, outcome = self._outcomes.popleft()
                    try:
                        self._effects.take_outcome(write, outcome, now_s)
                    except Exception as error:  # noqa: BLE001 - the others have to be heard
                        _LOG.error("outcome_not_taken_in", exc_info=error)

    def _take_some(self) -> None:
        """Process the oldest changes. They leave the queue afterwards; each contains its own fault."""
        see, changes = self._inbox[0]
        try:
            see(self.cluster_state, list(changes[:AT_ONCE]), self._clock())
        except Exception as error:  # noqa: BLE001 - it isn't of one object: taking them in again wouldn't help
            _LOG.error("changes_not_taken_in", count=len(changes), exc_info=error)
        self._inbox.popleft()
        if len(changes) > AT_ONCE:
            self._inbox.appendleft((see, changes[AT_ONCE:]))
