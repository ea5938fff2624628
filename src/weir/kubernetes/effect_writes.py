"""Effects of control as writes, and their outcomes as facts. The backend holds its lock around both."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from structlog import get_logger

from weir.control.port import (
    Effect,
    EndWorkload,
    Fact,
    KeepSuspension,
    PodExited,
    PodRunning,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    StartPod,
    StopPod,
)
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.owner_restarts import OwnerRestarts
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.facts import forget_facts
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.gangs.owner_state import maker_of
from weir.kubernetes.state.nodes.usage import PodUsage
from weir.kubernetes.state.owners.scheduling_groups import is_native
from weir.kubernetes.state.owners.stated import statement
from weir.kubernetes.translate.bound_pods import GPUS_KEY, MEMORY_KEY, START_KEY
from weir.kubernetes.translate.gpu_sharing import is_share
from weir.kubernetes.writes.operations import (
    AllocateClaim,
    Bind,
    EmitEvent,
    Evict,
    Outcome,
    Preparation,
    SuspendOwner,
    Write,
    WriteDelayed,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteUnknown,
)
from weir.kubernetes.writes.pods.claim_writes import allocation_write
from weir.kubernetes.writes.pods.final_conditions import ended
from weir.kubernetes.writes.pods.stop_grace import shortened_grace_s
from weir.kubernetes.writes.pods.volume_binding import preparations
from weir.kubernetes.writes.statuses.event_bodies import preempted, regarding_pod
from weir.kubernetes.writes.statuses.fields import nominations
from weir.kubernetes.writes.statuses.statuses import StatusWriter
from weir.kubernetes.writes.statuses.values import nomination_status
from weir.model.reasons import EvictionCause
from weir.state.events import (
    Nominated,
    Placement,
    PodKey,
    PodStopping,
    WorkloadChanged,
    WorkloadOutcome,
    WorkloadSubmitted,
)

_LOG = get_logger(__name__)


class EffectWrites:
    """Writes that carry effects out; `binding` is the number of bindings without an answer yet.

    Kubernetes Events are for people only. The backend sends them together with the next facts, because single
    ones cost more.
    """

    def __init__(self, cluster_state: ClusterState, statuses: StatusWriter, wake: Callable[[], None]) -> None:
        self.binding = 0
        self._events: list[EmitEvent] = []
        # Bindings without a slot, because their devices are being prepared
        self._await_devices: set[tuple[str, int]] = set()
        self._state = cluster_state
        self._statuses = statuses
        self._wake = wake
        self._restarts = OwnerRestarts(cluster_state, statuses)

    def take(self, now_s: float) -> Iterator[Write | EmitEvent]:
        """Yield events, and writes that resume owners without remaining pods."""
        events, self._events = self._events, []
        yield from events
        yield from self._restarts.take(now_s)

    def carry_out(self, effect: Effect, now_s: float) -> Iterator[Write | EmitEvent]:
        """Yield the writes that carry an effect out."""
        if isinstance(effect, StartPod):
            yield from self._start(effect, now_s)
        elif isinstance(effect, StopPod):
            yield from self._stop(effect, now_s)
        else:
            gang = self._state.in_control.gang_of(workload_of_effect(effect))
            if gang is None:
                return
            keep = self._statuses.keep
            if isinstance(effect, ReserveNomination):
                whole = _with_earlier(gang.nomination, effect.nomination)
                gang.set_nomination(whole)
                status = {"nomination": nomination_status(gang, whole)}
                yield from keep(gang, status, now_s, urgent=True)
                yield from nominations(gang, {place.pod: place.node for place in effect.nomination.places})
            elif isinstance(effect, ReleaseNomination):
                left = gang.nomination.places if gang.nomination is not None else ()
                gang.set_nomination(None)
                yield from keep(gang, {"nomination": None}, now_s, urgent=True)
                yield from nominations(gang, {place.pod: None for place in left})
            elif isinstance(effect, KeepSuspension):
                gang.idle.order(effect.reason)
                self._state.registry.dirty[gang] = self._state.registry.changed[gang] = None
                owner = maker_of(gang)
                path = path_of(owner.api_version, "jobs", owner.namespace, owner.name)
                self._wake()
                yield SuspendOwner(path, owner.uid, gang)
            elif isinstance(effect, SaveProgress):
                if effect.status.idle.unprotected != gang.life.idle.unprotected:
                    self._state.registry.dirty[gang] = None
                if not effect.status.idle.notices:
                    gang.idle.warning = ""
                gang.remember(effect.status)
                self._state.registry.changed[gang] = None
            elif isinstance(effect, EndWorkload):
                self._end(gang, effect)

    def _end(self, gang: Gang, effect: EndWorkload) -> None:
        """Record that control ended a workload. One that only leaves its project has no end yet."""
        if gang.is_over() is not None or effect.cause or effect.how is not WorkloadOutcome.STOPPED:
            gang.ending = effect
        if effect.cause is not None:
            gang.verdict = effect.how
            forget_facts(gang)
            self._state.registry.dirty[gang] = None
        self._state.registry.changed[gang] = None

    def _start(self, effect: StartPod, now_s: float) -> Iterator[Write | EmitEvent]:
        place = effect.place
        gang = self._state.in_control.gang_of(place.pod.workload)
        if gang is None:
            return
        tracked = gang.pod_at(place.pod)
        if tracked is None or tracked.holds or tracked.wait:
            gang.never_started(place.pod, effect.start, now_s)
            self._state.registry.dirty[gang] = None
            self._wake()
            return
        if self._state.registry.is_nominated(gang) and not _is_beside(gang.nomination, place.pod):
            gang.set_nomination(None)
            self._state.registry.forget_nomination(gang)
            yield from self._statuses.keep(gang, {"nomination": None}, now_s)
        usage = self._state.orders.start_assumed(tracked, place, effect.start, now_s)
        words = {START_KEY: str(effect.start), **self._owner(gang, tracked)}
        if place.devices:
            words[GPUS_KEY] = ",".join(map(str, place.devices))
            words |= self._memory_limit(tracked, place.node)
        about = (tracked, effect.start, usage)
        before = _too_few(tracked, place) or self._before(tracked, place.node)
        if isinstance(before, str):
            self._state.orders.start_refused(tracked, effect.start, before, now_s)
            self._wake()
        else:
            self.binding += 1
            yield Bind(gang.key.namespace, tracked.name, tracked.uid, place.node, words, about, before)

    def _owner(self, gang: Gang, tracked: TrackedPod) -> dict[str, str]:
        """Return the annotation with the topmost owner of a pod."""
        owner, info = maker_of(gang), tracked.info
        if is_native(owner.api_version) or info is None:
            return {}
        controller = self._state.resolver.controller(tracked.key)
        return statement(owner, info.derived.role, controller, pod=tracked.name)

    def _memory_limit(self, tracked: TrackedPod, name: str) -> dict[str, str]:
        """Return the bytes of each device that a share may use; nothing where their memory is unknown."""
        node = self._state.node_states.node(name)
        if tracked.info is None or node is None or not is_share(tracked.info.request):
            return {}
        limit = tracked.info.request.memory_on(node.gpu_memory)
        return {MEMORY_KEY: str(limit)} if limit else {}

    def _before(self, tracked: TrackedPod, name: str) -> tuple[Preparation | AllocateClaim, ...] | str:
        """Return the writes for a pod's volumes and claims before its binding, or why it can't be bound."""
        resolver, node = self._state.resolver, self._state.node_states.node(name)
        pod = resolver.pod(tracked.key)
        claims = self._state.claims
        has_claims = bool(pod.spec.resource_claims or claims.extended.name(pod))
        if node is None or not (pod.spec.volumes or has_claims):
            return ()  # without a node, the check before the binding decides
        of_volumes = preparations(pod, node, resolver.inventory)
        if isinstance(of_volumes, str) or not has_claims:
            return of_volumes
        allocations = claims.allocate(tracked.key, pod, node)
        if isinstance(allocations, str):
            return f"{allocations[:1].upper()}{allocations[1:]}."
        return (*of_volumes, *(allocation_write(pod, allocation) for allocation in allocations))

    def _stop(self, effect: StopPod, now_s: float) -> Iterator[Write | EmitEvent]:
        gang = self._state.in_control.gang_of(effect.pod.workload)
        tracked = None if gang is None else gang.pod_at(effect.pod)
        if gang is None or tracked is None or not tracked.holds or tracked.reported_start != effect.start:
            return
        by_plan = isinstance(effect.cause, EvictionCause)
        self._state.orders.stop_ordered(tracked, now_s, by_plan=by_plan)
        yield from self._statuses.stops(gang, effect, now_s)
        self._state.registry.changed[gang] = None
        if gang.idle.is_ordered and not by_plan:
            return  # its controller deletes the pods of a suspended Job
        because = preempted(gang, tracked, effect)
        needed_by = (effect.cause.by or "") if isinstance(effect.cause, EvictionCause) else ""
        if by_plan and (suspensions := self._restarts.stop(gang, tracked, needed_by)) is not None:
            yield because
            yield from suspensions
            self._wake()
            return
        yield Evict(
            gang.key.namespace,
            tracked.name,
            tracked.uid,
            shortened_grace_s(tracked, effect.grace_s),
            because,
            (tracked, effect.start, None),
            ended(effect),
            insists=not by_plan,
            overrides=effect.overrides,
            needed_by=needed_by,
        )

    def no_longer_needed(self, write: Evict | SuspendOwner) -> str:
        """Return why an eviction for another workload isn't needed any more; empty if it is."""
        gang = self._state.registry.named.get(write.needed_by)
        if gang is None or gang.is_over() is not None or gang.nomination is None:
            return f"{write.needed_by} doesn't need the capacity any more."
        return ""

    def take_outcome(self, write: Write, outcome: Outcome, now_s: float) -> None:
        """Bring the state up to the outcome of a write."""
        if isinstance(write, SuspendOwner):
            self._suspension_sent(write, outcome, now_s)
            return
        if isinstance(write.about, Gang):
            self._statuses.not_written(write.about, now_s)
            return
        about: tuple[TrackedPod, int, PodUsage | None] = write.about  # type: ignore[assignment]
        tracked, start, _ = about
        has_waited = isinstance(write, Bind) and self._count_binding((tracked.key, start), outcome)
        gang = tracked.gang
        if gang is None:
            return
        if isinstance(write, Bind):
            if isinstance(outcome, WriteDone):
                note = f"{tracked.name} is placed on {write.node}."
                self._events.append(
                    EmitEvent(regarding_pod(gang, tracked), "Scheduled", note, action="Binding")
                )
            elif isinstance(outcome, WriteDelayed):
                subject = regarding_pod(gang, tracked)
                self._events.append(EmitEvent(subject, "DevicesPending", outcome.sentence, action="Binding"))
            elif isinstance(outcome, WriteUnknown):
                self._state.orders.start_doubted(tracked, start, now_s)
            elif isinstance(outcome, WriteRefused | WriteNotSent):
                again = isinstance(outcome, WriteNotSent)
                self._state.orders.start_refused(
                    tracked, start, outcome.sentence, now_s, again=again, is_settled=has_waited
                )
        elif isinstance(outcome, WriteDone):
            self._state.budgets.accepted(tracked)
        elif isinstance(outcome, WriteDelayed):
            self._statuses.say(gang, "HeldUp", outcome.sentence, "Evicting")
        elif isinstance(outcome, WriteUnknown | WriteNotSent) or (
            isinstance(outcome, WriteRefused) and outcome.status != 404
        ):
            self._not_stopped(write, tracked, outcome.sentence, now_s)

    def _count_binding(self, start: tuple[str, int], outcome: Outcome) -> bool:
        """Count a binding as finished once it is done, or waits for its devices.

        Return True if it has waited for devices: all writes for its claims are done.
        """
        has_waited = start in self._await_devices
        self.binding -= not has_waited
        if isinstance(outcome, WriteDelayed):
            self._await_devices.add(start)
        else:
            self._await_devices.discard(start)
        return has_waited

    def _suspension_sent(self, write: SuspendOwner, outcome: Outcome, now_s: float) -> None:
        gang, orders = write.about, self._state.orders
        if not isinstance(gang, Gang):
            return  # the owner shows whether it was resumed
        if write.restarts:
            self._restarts.take_outcome(gang, outcome, now_s)
        elif isinstance(outcome, WriteDone | WriteUnknown):
            orders.suspension_accepted(gang, now_s)
        elif isinstance(outcome, WriteNotSent):
            orders.suspension_refused(gang, outcome.sentence, now_s, for_good=False)
        elif isinstance(outcome, WriteRefused):
            orders.suspension_refused(gang, outcome.sentence, now_s, for_good=True)
            self._statuses.say(gang, "SuspensionRefused", outcome.sentence, "Measuring")

    def _not_stopped(self, write: Write, tracked: TrackedPod, sentence: str, now_s: float) -> None:
        """Process a failed eviction: a plan chooses again, control repeats its own stops."""
        if not isinstance(write, Evict) or write.insists or tracked.gang is None:
            self._state.orders.stop_failed(tracked, now_s)
            return
        self._state.orders.stop_refused(tracked, write.needed_by or None, sentence, now_s)
        self._statuses.say(tracked.gang, "EvictionRefused", sentence, "Evicting")


def _with_earlier(earlier: Nominated | None, later: Nominated) -> Nominated:
    """Return the nomination of a workload, extended by those of earlier plans."""
    if earlier is None:
        return later
    places = {place.pod: place for place in (*later.places, *earlier.places)}
    freed_by = tuple(dict.fromkeys((*earlier.freed_by, *later.freed_by)))
    return replace(later, places=tuple(places[pod] for pod in sorted(places)), freed_by=freed_by)


def _is_beside(nomination: Nominated | None, pod: PodKey) -> bool:
    """Return True if a pod starts in free capacity, while capacity is freed for others of its workload."""
    return nomination is not None and all(place.pod != pod for place in nomination.places)


def _too_few(tracked: TrackedPod, place: Placement) -> str:
    """Return the error if a placement has another number of devices than the request; else an empty text.

    A binding without its devices would use those of other pods, and no later check would notice.
    """
    wanted = 0 if tracked.info is None else tracked.info.request.devices
    if len(place.devices) == wanted:
        return ""
    _LOG.error("devices_missing", pod=tracked.key, node=place.node, wanted=wanted, given=place.devices)
    return f"It asks for {wanted} devices and was given {len(place.devices)}."


def nominations_first(effects: Sequence[Effect]) -> list[Effect]:
    """Return effects, nominations first, since an eviction is sent only while its nomination exists."""
    return sorted(effects, key=lambda effect: not isinstance(effect, ReserveNomination | ReleaseNomination))


def workload_of_effect(effect: Effect) -> str:
    """Return the workload of an effect."""
    if isinstance(effect, StartPod):
        return effect.place.pod.workload
    if isinstance(effect, StopPod):
        return effect.pod.workload
    return effect.nomination.workload if isinstance(effect, ReserveNomination) else effect.workload


def workload_of_fact(fact: Fact) -> str:
    """Return the workload that a fact is about; empty for other facts."""
    if isinstance(fact, WorkloadSubmitted | WorkloadChanged):
        return fact.workload.name
    if isinstance(fact, PodRunning):
        return fact.place.pod.workload
    if isinstance(fact, PodStopping | PodExited):
        return fact.pod.workload
    return str(getattr(fact, "workload", ""))
