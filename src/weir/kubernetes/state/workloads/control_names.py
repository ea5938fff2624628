"""Workloads by the names under which control knows them.

A Job may get the name of one that was deleted a moment ago. Facts and effects name workloads. So an effect of
the first one's end would be carried out on the second one. Control therefore hears of the second one once the
effects of that end are carried out.
"""

from weir.kubernetes.state.gangs.gang import Gang


class ControlNames:
    """Workloads that control has heard of, one for each name at a time."""

    def __init__(self) -> None:
        self._reported: dict[str, Gang] = {}
        self._ended: set[str] = set()  # names of the workloads whose ends are among the next facts

    def gang_of(self, name: str) -> Gang | None:
        """Return the workload that a fact or an effect means; None if it is gone."""
        return self._reported.get(name)

    def has_to_wait(self, gang: Gang) -> bool:
        """Return True if the end of another workload of its name is among the next facts."""
        return gang.name in self._ended and self._reported.get(gang.name) is not gang

    def note_end(self, gang: Gang) -> None:
        """Note that control hears of the end of a workload."""
        self._ended.add(gang.name)

    def note_facts(self, gang: Gang, *, was_reported: bool) -> None:
        """Note that control hears of a workload, or that it doesn't any more."""
        if gang.reported is not None:
            self._reported[gang.name] = gang
        elif was_reported:
            self.note_end(gang)

    def facts_are_complete(self) -> None:
        """Note that control gets the next facts now."""
        self._ended.clear()

    def forget(self, gang: Gang) -> None:
        """Forget a workload that is gone."""
        if self._reported.get(gang.name) is gang:
            del self._reported[gang.name]
