"""Conditions for the first start of a workload: a time, and the outcome of others of its namespace.

Names are looked up when they matter, because objects of a cluster may be created in any order. A condition
that was met stays met, even if the other workload is deleted before this one starts.
"""

from collections.abc import Callable, Iterable

from weir.control.journal import Dependency, DependencyCondition
from weir.control.port import Gate, GateChanged
from weir.control.start_gates import begin_gate, dependency_gate, is_met, never_met
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.workloads.registry import WorkloadRegistry, outcome_of_phase
from weir.kubernetes.translate.annotations import Annotations

_JOB = "job-"
"""Prefix of the Workload of a Job, which people name without it."""


class StartConditionGates:
    """Opens and closes the gates of workloads that have never started."""

    def __init__(self, registry: WorkloadRegistry, look_again: Callable[[float, str], None]) -> None:
        """Create the gates. `look_again` has the facts of a workload asked for again at a time."""
        self._registry, self._look_again = registry, look_again
        # Workloads that wait, by possible names of the other workload
        self._dependents: dict[str, dict[Gang, None]] = {}
        self._awaited: dict[Gang, list[str]] = {}  # these names by waiting workload

    def dependents(self, names: Iterable[str]) -> list[Gang]:
        """Return the workloads with a condition on any of these."""
        return [gang for name in names for gang in self._dependents.get(name, ())]

    def forget(self, gang: Gang) -> None:
        """Forget a deleted workload."""
        self._await(gang, [])

    def facts(self, gang: Gang, now_s: float) -> list[GateChanged]:
        """Return the changes of a workload's gates since the last call; none if control doesn't have it."""
        if gang.reported is None:
            return []
        names: list[str] = []
        before, gates = gang.reported_start_gates, self._gates(gang, now_s, names)
        self._await(gang, names)
        gang.reported_start_gates = gates
        opened = [GateChanged(gang.name, False, gate=gate) for gate in before if gate not in gates]
        changes = [*opened, *(change for gate, change in gates.items() if before.get(gate) != change)]
        for change in changes:
            if change.until_s is not None:
                self._look_again(change.until_s, gang.name)
        return changes

    def _gates(self, gang: Gang, now_s: float, awaited: list[str]) -> dict[Gate, GateChanged]:
        """Return the closed gates of a workload, and add the names that it waits for to `awaited`."""
        assert gang.head is not None
        closed_gates: dict[Gate, GateChanged] = {}
        wanted = gang.head.annotations
        if gang.life.starts or any(tracked.holds for tracked in gang.pods()):
            return closed_gates
        if wanted.begin_s is not None and wanted.begin_s > now_s:
            closed_gates[Gate.BEGIN_TIME] = begin_gate(gang.name, wanted.begin_s, wanted.begin_s)
        unmet = []
        for dependency in _dependencies(wanted):
            if dependency in gang.met_conditions:
                continue
            names = _names(gang, dependency.name)
            met, sentence = self._look(gang, dependency, names)
            if met:
                gang.met_conditions.add(dependency)
                continue
            awaited += names
            if sentence:
                closed_gates[Gate.DEPENDENCY] = GateChanged(gang.name, True, sentence, Gate.DEPENDENCY)
            unmet.append(dependency)
        if unmet:
            closed_gates.setdefault(Gate.DEPENDENCY, dependency_gate(gang.name, unmet))
        return closed_gates

    def _look(self, gang: Gang, dependency: Dependency, names: tuple[str, ...]) -> tuple[bool, str]:
        """Return True if a dependency is met, or the sentence about one that waiting alone won't meet."""
        for name in names:
            other, workload_object = self._registry.named.get(name), self._registry.objects.get(name)
            if other is gang:
                return False, f"it names itself in a condition for its start: {dependency.name}"
            if other is None and workload_object is None:
                continue
            outcome = None
            if other is not None:
                outcome, workload_object = other.is_over(), self._registry.object_of(other)
            if outcome is None and workload_object is not None:
                outcome = outcome_of_phase(workload_object.status.phase)
            started = workload_object is not None and workload_object.status.started_at is not None
            started = started or (
                other is not None
                and bool(other.life.starts or any(tracked.holds for tracked in other.pods()))
            )
            met = is_met(dependency.condition, has_started=started, outcome=outcome)
            if met is False and outcome is not None:
                never = never_met(gang.name, dependency.name, dependency.condition, outcome)
                return False, f"{never[:-1]}: delete it, or remove its annotation"
            return met is True, ""
        namespace = gang.key.namespace
        return False, f"it waits for {dependency.name}, and {namespace} has no workload of that name yet"

    def _await(self, gang: Gang, names: list[str]) -> None:
        """Register the names that a workload waits for."""
        before = self._awaited.pop(gang, [])
        if names:
            self._awaited[gang] = names
        for name in names:
            self._dependents.setdefault(name, {})[gang] = None
        for name in set(before).difference(names):
            gangs = self._dependents[name]
            del gangs[gang]
            if not gangs:
                del self._dependents[name]


def _names(gang: Gang, name: str) -> tuple[str, str]:
    """Return the names of Workloads that a name in a condition may mean, the likelier one first."""
    return f"{gang.key.namespace}/{_JOB}{name}", f"{gang.key.namespace}/{name}"


def _dependencies(wanted: Annotations) -> list[Dependency]:
    by_condition = (
        (wanted.after, DependencyCondition.STARTED),
        (wanted.after_ok, DependencyCondition.SUCCEEDED),
        (wanted.after_not_ok, DependencyCondition.FAILED),
        (wanted.after_any, DependencyCondition.ENDED),
    )
    return [Dependency(name, 0, condition) for names, condition in by_condition for name in names or ()]
