"""Outbox of a step: events are reduced at once, effects are applied together at its end."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from weir.control.port import Effect
from weir.engine.plan import Plan
from weir.state.cluster import Cluster
from weir.state.events import Event
from weir.state.reduce import reduce


class Observer(Protocol):
    """Reader that changes nothing: history, metrics, the live stream."""

    def happened(self, event: Event) -> None:
        """Handle an event that was just reduced."""
        ...

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        """Handle a new plan before it is carried out."""
        ...


class EventObserver:
    """Observer that handles events by their class, and ignores plans: their effects appear as events."""

    handlers: Mapping[type, Callable[[Any], None]]

    def happened(self, event: Event) -> None:
        """Handle an event that was just reduced."""
        handle = self.handlers.get(type(event))
        if handle is not None:
            handle(event)

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        """Ignore plans."""


class Outbox:
    """Collects the events and effects of a step, and hands each event to all readers."""

    __slots__ = ("_effects", "cluster", "readers")

    def __init__(self, cluster: Cluster, readers: Sequence[Observer]) -> None:
        self.cluster = cluster
        self.readers = tuple(readers)
        self._effects: list[Effect] = []

    def happen(self, event: Event) -> None:
        """Emit an event: reduce it and show it to the observers."""
        reduce(self.cluster, event)
        for reader in self.readers:
            reader.happened(event)

    def order(self, effect: Effect) -> None:
        """Enqueue an effect for the end of the step."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """Return the effects enqueued since the last call."""
        effects, self._effects = self._effects, []
        return effects
