"""The cluster behind the backend port: what its objects come to, and the writes that carry effects out.

Two threads meet here. Reflectors and outcomes of writes come in on the thread that talks to the API
server and wait in the inbox; control asks and orders on its own. The picture is behind one lock, which is
never held for longer than some hundreds of changes take, because the last look before a binding is sent
takes it too.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from structlog import get_logger

from weir.api.answers import Explanation
from weir.control.port import (
    Effect,
    EndWorkload,
    Fact,
    PodExited,
    PodRunning,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    StartPod,
    StopPod,
)
from weir.engine.overcommit import OvercommittedNode
from weir.kubernetes.api.reflector import Change
from weir.kubernetes.crd.shared_node_rules import SharedNodeRules
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gang_facts import forget_facts
from weir.kubernetes.state.gangs import Gang
from weir.kubernetes.state.node_usage import PodUsage
from weir.kubernetes.state.queue_view import QueueView, view_of
from weir.kubernetes.state.tracked_pod import GPUS_KEY, START_KEY, TrackedPod
from weir.kubernetes.state.unreadable import UnreadableObject
from weir.kubernetes.writes.condition_reasons import UNREADABLE_POD
from weir.kubernetes.writes.event_bodies import preempted, regarding_pod, unreadable_event
from weir.kubernetes.writes.final_conditions import ended
from weir.kubernetes.writes.node_taints import NodeTaints
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    Evict,
    Outcome,
    Preparation,
    Write,
    WriteDelayed,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteUnknown,
)
from weir.kubernetes.writes.overcommit import overcommit_event, stuck_event
from weir.kubernetes.writes.pending_pods import condition
from weir.kubernetes.writes.queue_finalizers import QueueFinalizers, leaving_messages
from weir.kubernetes.writes.shared_node_list import SharedNodeList
from weir.kubernetes.writes.shared_nodes import SharedNodes
from weir.kubernetes.writes.status_fields import nominations
from weir.kubernetes.writes.status_values import nomination_status
from weir.kubernetes.writes.statuses import StatusWriter
from weir.kubernetes.writes.volume_binding import preparations
from weir.model.policy import BudgetPolicy
from weir.model.reasons import EvictionCause
from weir.state.events import Placement, PodStopping, WorkloadChanged, WorkloadSubmitted

AT_ONCE = 256
"""Changes taken in while the lock is held."""
FEW = 32
"""So many pods that start or stop are no burst."""
_LOG = get_logger(__name__)
See = Callable[[ClusterState, list[Change[Any]], float], None]


class KubernetesBackend:
    """Backend of one cluster.

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
        self.reasons: dict[str, Explanation] = {}  # why workloads wait, as somebody finds out
        self.statuses = StatusWriter(cluster_state, self.reasons)
        self._taints = NodeTaints(cluster_state.node_states)
        self._shared_list = SharedNodeList(cluster_state.node_states, namespace)
        self._shared = SharedNodes(cluster_state, self.reasons, shared_nodes or SharedNodeRules())
        self._stuck: set[str] = set()  # over-committed nodes of which people know that they stay so
        self.protection = QueueFinalizers(cluster_state.quota_objects, cluster_state.registry)
        self._submit = submit
        self.wake = wake
        self._clock = clock
        self._lock = threading.Lock()
        self._inbox: deque[tuple[See, Sequence[Change[Any]]]] = deque()
        self._outcomes: deque[tuple[Write, Outcome]] = deque()
        self._to_say: list[
            EmitEvent
        ] = []  # with the next facts: handing over each by itself costs more than it
        self._handing_over: Fact | None = None  # the fact that control is taking in
        self._whole = True
        self._attended = False
        self.binding = 0  # bindings under way

    # From the thread that talks to the API server

    def deliver(self, resource: str) -> Callable[[Sequence[Change[Any]]], None]:
        """Return the function that takes in the changes of a resource."""

        def see(cluster_state: ClusterState, changes: list[Change[Any]], now_s: float) -> None:
            cluster_state.see(resource, changes, now_s)

        return self._taker(see)

    def deliver_owners(self) -> Callable[[Sequence[Change[Any]]], None]:
        """Return the function that takes in the changes of a kind of owner."""
        return self._taker(ClusterState.see_owners)

    def _taker(self, see: See) -> Callable[[Sequence[Change[Any]]], None]:
        def take(changes: Sequence[Change[Any]]) -> None:
            self._inbox.append((see, changes))
            if self._attended:
                self.wake()
            else:
                self._take_in()

        return take

    def unreadable(self, kinds: Mapping[tuple[str, str], str]) -> None:
        """Set the kinds of owners, by apiVersion and kind, that can't be read here, and why."""
        with self._lock:
            self.cluster_state.resolver.set_unreadable(kinds)
            stale = bool(self.cluster_state.resolver.stale)
        if stale:
            self.wake()

    def awaited_kinds(self) -> set[tuple[str, str]]:
        """Return the kinds, by apiVersion and kind, of owners that pods name and that aren't known."""
        with self._lock:
            return self.cluster_state.resolver.owners.awaited()

    def told(self, write: Write, outcome: Outcome) -> None:
        """Take in the outcome of a write."""
        if isinstance(write, Bind | Evict):
            self._outcomes.append((write, outcome))
            self.wake()
        elif isinstance(outcome, WriteRefused | WriteNotSent):
            if isinstance(write.about, Gang):
                self._outcomes.append((write, outcome))
            if isinstance(outcome, WriteRefused) and not _is_of_leaving(outcome):
                _LOG.warning("write_refused", status=outcome.status, why=outcome.sentence)

    def check(self, write: Bind | Evict) -> str:
        """Return why a binding must not be sent after all, by the newest state; empty if it may."""
        if isinstance(write, Evict):
            return self._no_longer_needed(write)
        about: tuple[TrackedPod, int, PodUsage] = write.about  # type: ignore[assignment]
        tracked, start, ours = about
        self._take_in()
        with self._lock:
            if not tracked.assumed or tracked.written_start != start or tracked.deleting:
                return "It was to be bound to another place since."
            return self.cluster_state.node_states.refusal(tracked.key, ours)

    def _no_longer_needed(self, write: Evict) -> str:
        """Return why nobody needs an eviction any more; empty if somebody does."""
        if not write.needed_by:
            return ""
        self._take_in()
        with self._lock:
            gang = self.cluster_state.registry.named.get(write.needed_by)
            if gang is None or gang.is_over() is not None or gang.nomination is None:
                return f"{write.needed_by} doesn't need its room any more."
        return ""

    # The port

    def connect(self) -> None:
        """Make the next `events` tell the whole state, without the workloads at which control failed."""
        broke_at, self._handing_over = self._handing_over, None
        with self._lock:
            gang = None if broke_at is None else self.cluster_state.registry.named.get(_workload_of(broke_at))
            if gang is not None:
                self.cluster_state.quarantine(gang, f"the scheduler broke at {type(broke_at).__name__} of it")
        self._shared_list.forget()
        self._whole = self._attended = True

    def leave(self) -> None:
        """Nobody asks for events any more: what is heard is taken in as it comes, and doesn't pile up."""
        self._attended = False

    def events(self) -> Iterable[Fact]:
        """As the port says."""
        self._take_in()
        with self._lock:
            now_s = self._clock()
            if self._whole:
                self._whole = False
                self.cluster_state.retell()
            facts = self.cluster_state.facts(now_s)
            said: list[Write | EmitEvent] = [*self._to_say, *self._shared_list.take(now_s)]
            said += [*self._taints.take(now_s), *self._shared.take(now_s)]
            self._to_say = []
            said += [overcommit_event(each) for each in self.cluster_state.overcommitted.take()]
            for unread in self.cluster_state.unreadable.take():
                said += _of_unreadable(unread, now_s)
        if said:
            self._submit(said)
        return self._handed_over(facts)

    def _handed_over(self, facts: Sequence[Fact]) -> Iterator[Fact]:
        """Yield these facts, remembering which one control is taking in."""
        for fact in facts:
            self._handing_over = fact
            yield fact
        self._handing_over = None

    def apply(self, effects: Sequence[Effect]) -> None:
        """As the port says: what is ordered here is carried out on the other thread."""
        now_s = self._clock()
        writes: list[Write | EmitEvent] = []
        with self._lock:
            for effect in effects:
                try:
                    writes += self._carry_out(effect, now_s)
                except Exception as error:  # noqa: BLE001 - the others are carried out
                    gang = self.cluster_state.registry.named.get(_workload(effect))
                    if gang is not None:
                        self.cluster_state.leave_out(gang, error)
                        self.wake()
        if writes:
            self._submit(writes)

    # What the control thread asks beside its turns

    def queue_view(self) -> QueueView:
        """Return what is written of queues, as it is now."""
        with self._lock:
            return view_of(
                self.cluster_state,
                leaving_messages(self.cluster_state.quota_objects, self.cluster_state.registry.users),
            )

    @property
    def due_s(self) -> float | None:
        """Return when to ask for facts without a change from the API server."""
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
        """Return True if people may have to be told something, or an object protected."""
        return self.statuses.has_work or self.protection.has_work

    def reasons_changed(self, names: Iterable[str]) -> None:
        """Note that these workloads wait for another reason now."""
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
        """Tell people of over-committed nodes on which nothing may be stopped, of each once."""
        with self._lock:
            over = self.cluster_state.overcommitted.of(nodes)
            fresh = [each for each in over if each.node not in self._stuck]
            self._stuck = {each.node for each in over}
        if fresh:
            self._submit([stuck_event(each) for each in fresh])

    def tell_people(self, now_s: float) -> None:
        """Write what people are to read, as far as it has changed."""
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
        return self.binding > FEW or self.cluster_state.moving(now_s) > FEW

    # Below

    def _take_in(self) -> None:
        """Bring the picture up to what has been heard."""
        while self._inbox or self._outcomes:
            with self._lock:
                if self._inbox:
                    self._take_some()
                now_s = self._clock()
                for _ in range(min(AT_ONCE, len(self._outcomes))):
                    write, outcome = self._outcomes.popleft()
                    try:
                        self._came_of(write, outcome, now_s)
                    except Exception as error:  # noqa: BLE001 - the others have to be heard
                        _LOG.error("outcome_not_taken_in", exc_info=error)

    def _take_some(self) -> None:
        """Take in the oldest changes. They leave the queue once they are in; each contains its own fault."""
        see, changes = self._inbox[0]
        try:
            see(self.cluster_state, list(changes[:AT_ONCE]), self._clock())
        except Exception as error:  # noqa: BLE001 - it isn't of one object: taking them in again wouldn't help
            _LOG.error("changes_not_taken_in", count=len(changes), exc_info=error)
        self._inbox.popleft()
        if len(changes) > AT_ONCE:
            self._inbox.appendleft((see, changes[AT_ONCE:]))

    def _carry_out(self, effect: Effect, now_s: float) -> Iterator[Write | EmitEvent]:
        if isinstance(effect, StartPod):
            yield from self._start(effect, now_s)
        elif isinstance(effect, StopPod):
            yield from self._stop(effect, now_s)
        else:
            gang = self.cluster_state.registry.named.get(_workload(effect))
            if gang is None:
                return
            keep = self.statuses.keep
            if isinstance(effect, ReserveNomination):
                gang.set_nomination(effect.nomination)
                room = {"nomination": nomination_status(gang, effect.nomination)}
                yield from keep(gang, room, now_s, urgent=True)
                yield from nominations(gang, {place.pod: place.node for place in effect.nomination.places})
            elif isinstance(effect, ReleaseNomination):
                left = gang.nomination.places if gang.nomination is not None else ()
                gang.set_nomination(None)
                yield from keep(gang, {"nomination": None}, now_s, urgent=True)
                yield from nominations(gang, {place.pod: None for place in left})
            elif isinstance(effect, SaveProgress):
                gang.remember(effect.status)
                self.cluster_state.registry.changed[gang] = None
            elif isinstance(effect, EndWorkload):
                gang.ending = effect
                if effect.cause is not None:
                    gang.verdict = effect.how
                    forget_facts(gang)
                    self.cluster_state.registry.dirty[gang] = None
                self.cluster_state.registry.changed[gang] = None

    def _start(self, effect: StartPod, now_s: float) -> Iterator[Write | EmitEvent]:
        place = effect.place
        gang = self.cluster_state.registry.named.get(place.pod.workload)
        if gang is None:
            return
        tracked = gang.at(place.pod)
        if tracked is None or tracked.holds or tracked.wait:
            gang.never_started(place.pod, effect.start, now_s)
            self.cluster_state.registry.dirty[gang] = None
            self.wake()
            return
        if self.cluster_state.registry.is_nominated(gang):
            gang.set_nomination(None)
            self.cluster_state.registry.forget_nomination(gang)
            yield from self.statuses.keep(gang, {"nomination": None}, now_s)
        ours = self.cluster_state.assume(tracked, place, effect.start, now_s)
        words = {START_KEY: str(effect.start)}
        if place.devices:
            words[GPUS_KEY] = ",".join(map(str, place.devices))
        about = (tracked, effect.start, ours)
        before = _too_few(tracked, place) or self._before(tracked, place.node)
        if isinstance(before, str):
            self.cluster_state.refused(tracked, effect.start, before, now_s)
            self.wake()
        else:
            self.binding += 1
            yield Bind(gang.key.namespace, tracked.name, tracked.uid, place.node, words, about, before)

    def _before(self, tracked: TrackedPod, name: str) -> tuple[Preparation, ...] | str:
        """Return the writes for the pod's volumes before its binding, or why it can't be bound there."""
        resolver, node = self.cluster_state.resolver, self.cluster_state.node_states.node(name)
        pod = resolver.pod(tracked.key)
        if node is None or not pod.spec.volumes:
            return ()  # without a node the last look before the binding says so
        return preparations(pod, node, resolver.inventory)

    def _stop(self, effect: StopPod, now_s: float) -> Iterator[Write]:
        gang = self.cluster_state.registry.named.get(effect.pod.workload)
        tracked = None if gang is None else gang.at(effect.pod)
        if gang is None or tracked is None or not tracked.holds or tracked.told != effect.start:
            return
        by_plan = isinstance(effect.cause, EvictionCause)
        self.cluster_state.stops(tracked, now_s, by_plan=by_plan)
        self.statuses.stops(gang, effect, now_s)
        self.cluster_state.registry.changed[gang] = None
        because = preempted(gang, tracked, effect)
        yield Evict(
            gang.key.namespace,
            tracked.name,
            tracked.uid,
            None,
            because,
            (tracked, effect.start, None),
            ended(effect),
            insists=not by_plan,
            overrides=effect.overrides,
            needed_by=(effect.cause.by or "") if isinstance(effect.cause, EvictionCause) else "",
        )

    def _came_of(self, write: Write, outcome: Outcome, now_s: float) -> None:
        """Under the lock: what became of a write."""
        if isinstance(write, Bind):
            self.binding -= 1
        if isinstance(write.about, Gang):
            self.statuses.not_written(write.about, now_s)
            return
        about: tuple[TrackedPod, int, PodUsage | None] = write.about  # type: ignore[assignment]
        tracked, start, _ = about
        gang = tracked.gang
        if gang is None:
            return
        if isinstance(write, Bind):
            if isinstance(outcome, WriteDone):
                note = f"{tracked.name} is placed on {write.node}."
                self._to_say.append(
                    EmitEvent(regarding_pod(gang, tracked), "Scheduled", note, action="Binding")
                )
            elif isinstance(outcome, WriteUnknown):
                self.cluster_state.doubt(tracked, start, now_s)
            elif isinstance(outcome, WriteRefused | WriteNotSent):
                again = isinstance(outcome, WriteNotSent)
                self.cluster_state.refused(tracked, start, outcome.sentence, now_s, again=again)
        elif isinstance(outcome, WriteDone):
            self.cluster_state.budgets.accepted(tracked)
        elif isinstance(outcome, WriteDelayed):
            self.statuses.say(gang, "HeldUp", outcome.sentence, "Evicting")
        elif isinstance(outcome, WriteUnknown | WriteNotSent) or (
            isinstance(outcome, WriteRefused) and outcome.status != 404
        ):
            self._not_stopped(write, tracked, outcome.sentence, now_s)

    def _not_stopped(self, write: Write, tracked: TrackedPod, sentence: str, now_s: float) -> None:
        """Take an eviction that failed: a plan chooses again, control itself orders the stop again."""
        if not isinstance(write, Evict) or write.insists or tracked.gang is None:
            self.cluster_state.not_stopped(tracked, now_s)
            return
        self.cluster_state.stop_refused(tracked, write.needed_by or None, sentence, now_s)
        self.statuses.say(tracked.gang, "EvictionRefused", sentence, "Evicting")


def _too_few(tracked: TrackedPod, place: Placement) -> str:
    """Return what is wrong with the devices of a placement; nothing if they are as many as the pod asks for.

    A binding without its devices would take them from pods that hold them, and nothing after it would notice.
    """
    wanted = 0 if tracked.info is None else tracked.info.request.devices
    if len(place.devices) == wanted:
        return ""
    _LOG.error("devices_missing", pod=tracked.key, node=place.node, wanted=wanted, given=place.devices)
    return f"It asks for {wanted} devices and was given {len(place.devices)}."


def _is_of_leaving(refusal: WriteRefused) -> bool:
    """Return True if the object is gone, is another one, or its namespace is being deleted."""
    return refusal.status in (404, 409) or (
        refusal.status == 403 and refusal.sentence.endswith("because it is being terminated")
    )


def _of_unreadable(unread: UnreadableObject, now_s: float) -> Iterator[Write | EmitEvent]:
    event = unreadable_event(unread)
    if event is not None:
        yield event
    if unread.resource == "pods" and unread.uid:
        namespace, _, name = unread.key.rpartition("/")
        yield condition(namespace, name, unread.uid, UNREADABLE_POD, unread.sentence, now_s)


def _workload(effect: Effect) -> str:
    if isinstance(effect, StartPod):
        return effect.place.pod.workload
    if isinstance(effect, StopPod):
        return effect.pod.workload
    return effect.nomination.workload if isinstance(effect, ReserveNomination) else effect.workload


def _workload_of(fact: Fact) -> str:
    """Return the workload that a fact is about; empty if it is about none."""
    if isinstance(fact, WorkloadSubmitted | WorkloadChanged):
        return fact.workload.name
    if isinstance(fact, PodRunning):
        return fact.place.pod.workload
    if isinstance(fact, PodStopping | PodExited):
        return fact.pod.workload
    return str(getattr(fact, "workload", ""))
