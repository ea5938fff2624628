"""Event log: one sentence for each workload and step, however many pods it has.

Observes control, and the facts and effects between control and the backend. The state that a control finds
when it connects isn't news. The pool service records submissions and acts of people, the journal ends.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from weir.api.answers import EventRow
from weir.control.outbox import EventObserver
from weir.control.port import Effect, Fact, LifecycleCause, LifecycleRule, PodExit, PodExited, StopPod
from weir.local.server.views.pool_view import PoolView
from weir.local.server.views.workload_view import WorkloadView
from weir.model.reasons import EvictionCause, EvictionRule, as_clause, rule_phrase
from weir.model.resources import span
from weir.state.events import NodeLost, NodeSet, Nominated, NoteAdded, PodAssigned, PodStopped
from weir.store.history.events import STOPPING
from weir.store.records import HistoryEvent
from weir.store.workloads.journal import TELL_OF_END

PODS_NAMED_MAX = 4
_TOLD_OTHERWISE = frozenset(
    (LifecycleRule.WITHDRAWN.value, LifecycleRule.SUSPENDED.value, LifecycleRule.GANG_FAILED.value)
)
"""Causes that other events already report."""
RECLAIMS_MAX = 4096
"""Number of workloads whose reclaims are remembered, the latest ones."""
ENDING_MAX = 1024
"""Number of workloads whose reason to end is remembered, the latest ones."""


class EventLog(EventObserver):
    """Events since the last step, as sentences."""

    def __init__(self, view: PoolView) -> None:
        self._view = view
        self._events: list[HistoryEvent] = []
        self._assigned: dict[str, list[PodAssigned]] = {}
        self._stops: dict[tuple[str, str], list[StopPod]] = {}
        self._gone: dict[str, PodStopped] = {}
        self._nodes: dict[str, object] = {}
        self._reclaims: dict[str, dict[str, None]] = {}  # projects that a workload reclaims from
        self._ending: dict[int, str] = {}  # rule that ends a workload, by its number
        self._connected_s = 0.0
        self._now_s = 0.0
        self.handlers = {
            PodAssigned: self._on_assigned,
            PodStopped: self._on_stopped,
            Nominated: self._on_nominated,
            NoteAdded: self._on_note,
            NodeSet: self._on_node_set,
            NodeLost: self._on_node_lost,
        }

    def begin(self, now_s: float) -> None:
        """Start a new connection: facts from before it aren't news."""
        self._connected_s = self._now_s = now_s

    def step(self, now_s: float) -> None:
        """Begin a step at this time."""
        self._now_s = now_s

    def facts(self, facts: Iterable[Fact]) -> None:
        """Report failed and lost pods among the facts that control takes in next."""
        for fact in facts:
            if isinstance(fact, PodExited) and fact.how in (PodExit.FAILED, PodExit.LOST):
                line = self._view.workloads.get(fact.pod.workload)
                if line is not None:
                    pod = line.pod_name(fact.pod)
                    ending = "failed" if fact.how is PodExit.FAILED else "was lost"
                    sentence = f"Pod {pod} {ending}: {as_clause(fact.sentence or 'for an unknown reason.')}"
                    self._add(line, fact.at_s, fact.how.value, sentence, of_pod=pod, start=fact.start)

    def effects(self, effects: Iterable[Effect]) -> None:
        """Handle effects that were carried out."""
        for effect in effects:
            if isinstance(effect, StopPod):
                key = (effect.pod.workload, effect.cause.sentence)
                self._stops.setdefault(key, []).append(effect)

    def take(self, ending: Collection[str] = ()) -> list[HistoryEvent]:
        """Return the events since the last call. Workloads that are `ending` don't wait again."""
        for name in ending:
            self._gone.pop(name, None)
        if self._assigned or self._stops or self._gone:
            self._add_pod_events()
        taken, self._events = self._events, []
        return taken

    # Events by workload

    def _add_pod_events(self) -> None:
        for name, assigned in self._assigned.items():
            line = self._view.workloads.get(name)
            if line is not None:
                self._add_start(line, assigned)
        for (name, _), stops in self._stops.items():
            line = self._view.workloads.get(name)
            cause = stops[0].cause
            if line is not None and (
                not isinstance(cause, LifecycleCause) or cause.rule is LifecycleRule.GANG_FAILED
            ):
                self._add_stop(line, stops)  # other causes have their own events
        for name, event in self._gone.items():
            line = self._view.workloads.get(name)
            if line is not None and not line.pods and line.ended is None:
                kept = f" with {span(line.ran_s)} of its run kept" if line.ran_s >= 1 else ""
                sentence = f"{name} has stopped and is pending again{kept}."
                self._add(
                    line,
                    event.at_s,
                    "stopped",
                    sentence,
                    ran_s=line.ran_s,
                    lost_s=line.lost_s,
                    gpus=line.devices,
                    rule=line.stopped_by,
                )
        self._assigned.clear()
        self._stops.clear()
        self._gone.clear()

    def _add_start(self, line: WorkloadView, assigned: Sequence[PodAssigned]) -> None:
        nodes = list(dict.fromkeys(event.place.node for event in assigned))
        pods = len(assigned)
        text = f"{pods} pods of {line.spec.name} start" if line.spec.pods > 1 else f"{line.spec.name} starts"
        where = f"{nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
        devices = [device for event in assigned for device in event.place.devices]
        on = f", device{'s' * (len(devices) != 1)} {_listed(devices)}" if devices and len(nodes) == 1 else ""
        self._add(
            line,
            assigned[0].at_s,
            "started",
            f"{text} on {where}{on}.",
            pods=pods,
            nodes=nodes[:PODS_NAMED_MAX],
            devices=devices[:PODS_NAMED_MAX],
            waited_s=max(0.0, assigned[0].at_s - line.waits_since_s),
        )
        lenders = self._reclaims.pop(line.spec.name, None)
        if lenders is not None:
            waited_s = max(0.0, assigned[0].at_s - line.waits_since_s)
            after = f"after {span(waited_s)}, from {_listed(list(lenders))}"
            sentence = f"{line.spec.project} got GPUs of its quota back {after}."
            self._add(line, assigned[0].at_s, "quota_met", sentence, waited_s=waited_s, gpus=line.devices)

    def _add_stop(self, line: WorkloadView, stops: Sequence[StopPod]) -> None:
        cause = stops[0].cause
        numbers: dict[str, Any] = {"rule": cause.rule.value, "pods": len(stops)}
        if isinstance(cause, EvictionCause) and cause.rule is EvictionRule.RECLAIM_QUOTA and cause.by:
            self._reclaims.setdefault(cause.by, {})[line.spec.project] = None
            while len(self._reclaims) > RECLAIMS_MAX:
                del self._reclaims[next(iter(self._reclaims))]
        if isinstance(cause, LifecycleCause):
            others = "The other pod is" if len(stops) == 1 else f"{len(stops)} other pods are"
            sentence = f"{others} stopped: {as_clause(cause.sentence)}"
        else:
            gains = None if cause.by is None else self._view.workloads.get(cause.by)
            numbers.update(
                by=cause.by,
                by_user=None if gains is None else gains.spec.user,
                by_project=None if gains is None else gains.spec.project,
                cause=cause.sentence,
                choice=cause.choice,
                **cause.numbers,
            )
            verb = "moves" if stops[0].moves else "is"
            sentence = (
                f"{line.spec.name} {verb} to another place for {cause.by} ({rule_phrase(cause.rule)})."
                if stops[0].moves
                else f"{line.spec.name} {verb} {cause.sentence.rstrip('.')}."
            )
        self._add(line, self._now_s, STOPPING, sentence, **numbers)

    # Events

    def _on_assigned(self, event: PodAssigned) -> None:
        if event.at_s >= self._connected_s:
            self._assigned.setdefault(event.place.pod.workload, []).append(event)

    def _on_stopped(self, event: PodStopped) -> None:
        self._gone[event.pod.workload] = event

    def _on_nominated(self, event: Nominated) -> None:
        line = self._view.workloads.get(event.workload)
        if line is not None and event.at_s >= self._connected_s and event.freed_by:
            names = _listed(event.freed_by)
            sentence = f"Capacity is being freed for {event.workload}: {names} must stop."
            self._add(line, event.at_s, "nominated", sentence, freed_by=list(event.freed_by))

    def _on_note(self, event: NoteAdded) -> None:
        line = self._view.workloads.get(event.workload)
        if line is not None and event.kind not in _TOLD_OTHERWISE and self._is_news(line, event):
            numbers: dict[str, Any] = dict(event.numbers)
            self._add(line, event.at_s, event.kind, event.sentence, **numbers)

    def _is_news(self, line: WorkloadView, event: NoteAdded) -> bool:
        """Return False for the reason of an end that an earlier control has reported."""
        if event.kind not in TELL_OF_END:
            return True
        news = self._ending.get(line.uid) != event.kind
        self._ending[line.uid] = event.kind
        while len(self._ending) > ENDING_MAX:
            del self._ending[next(iter(self._ending))]
        return news

    def _on_node_set(self, event: NodeSet) -> None:
        previous = self._nodes.get(event.node.name)
        self._nodes[event.node.name] = event.node
        if previous is not None and previous != event.node:
            self._events.append(HistoryEvent(self._now_s, "node", f"Node {event.node.name} changed."))

    def _on_node_lost(self, event: NodeLost) -> None:
        self._nodes.pop(event.name, None)
        self._events.append(HistoryEvent(self._now_s, "node", f"Node {event.name} is gone."))

    def _add(
        self,
        line: WorkloadView,
        at_s: float,
        kind: str,
        sentence: str,
        /,
        of_pod: str | None = None,
        **numbers: Any,
    ) -> None:
        spec = line.spec
        self._events.append(
            HistoryEvent(
                at_s,
                kind,
                sentence,
                uid=line.uid,
                workload=spec.name,
                project=spec.project,
                pod=of_pod,
                numbers=numbers,
            )
        )


def _listed(items: Sequence[object]) -> str:
    hidden = len(items) - PODS_NAMED_MAX
    named = ", ".join(map(str, items[:PODS_NAMED_MAX]))
    return f"{named} and {hidden} more" if hidden > 0 else named


def event_row(happening: HistoryEvent) -> EventRow:
    """Return an event as the API shows it."""
    return EventRow.model_construct(
        id=happening.id,
        at_s=happening.at_s,
        kind=happening.kind,
        workload=happening.workload,
        project=happening.project,
        pod=happening.pod,
        sentence=happening.sentence,
        numbers=dict(happening.numbers),
    )
