"""A backend whose facts and effects a test can look at, repeat and hand over late."""

from collections.abc import Iterable, Sequence

from weir.control.port import Backend, Effect, EndWorkload, Fact


class RecordedBackend:
    """Pass facts and effects on; `repeats` carries every batch of effects out twice."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.repeats = False
        self.facts: list[Fact] = []
        self.effects: list[Effect] = []

    def events(self) -> Iterable[Fact]:
        """Return the backend's facts."""
        facts = list(self.inner.events())
        self.facts += facts
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry effects out, once or twice."""
        self.effects += effects
        self.inner.apply(effects)
        if self.repeats:
            self.inner.apply(effects)

    def ends(self, workload: str) -> list[EndWorkload]:
        """Return the ends of a workload."""
        return [
            effect
            for effect in self.effects
            if isinstance(effect, EndWorkload) and effect.workload == workload
        ]
