"""Gates that keep workloads from their first start: set at the submission and after a restart.

A backend opens them: on one machine `weir.local.server.submissions.start_conditions`, on a cluster
`weir.kubernetes.state.workloads.start_conditions`. Since gates are closed from the submission on, nothing
starts too early.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from weir.control.journal import Dependency, DependencyCondition, WorkloadRecord
from weir.control.port import Gate, GateChanged
from weir.state.events import WorkloadOutcome

NAMED_MAX = 3
"""Limit of workloads that a reason names."""
_PHRASES = {
    DependencyCondition.STARTED: "to start",
    DependencyCondition.SUCCEEDED: "to succeed",
    DependencyCondition.FAILED: "to fail or be stopped",
    DependencyCondition.ENDED: "to end",
}
_WANTED = {
    DependencyCondition.SUCCEEDED: "succeeds",
    DependencyCondition.FAILED: "fails",
}


def is_met(
    condition: DependencyCondition, *, has_started: bool, outcome: WorkloadOutcome | None
) -> bool | None:
    """Return True if a workload meets a condition, False if it never will, None if it may yet."""
    if condition is DependencyCondition.STARTED:
        return True if has_started or outcome is not None else None
    if outcome is None:
        return None
    if condition is DependencyCondition.ENDED:
        return True
    return (outcome is WorkloadOutcome.SUCCEEDED) is (condition is DependencyCondition.SUCCEEDED)


def never_met(
    workload: str, dependency: str, condition: DependencyCondition, outcome: WorkloadOutcome
) -> str:
    """Return the sentence about a condition that can't be met any more."""
    ended = "was stopped" if outcome is WorkloadOutcome.STOPPED else outcome.value
    return f"{workload} was to start only if {dependency} {_WANTED[condition]}, and {dependency} {ended}."


def closed_gates(record: WorkloadRecord) -> list[GateChanged]:
    """Return the gates of a workload that has never started."""
    if record.status.starts:
        return []
    conditions, gates = record.conditions, []
    if conditions.begin_wall_s is not None:
        gates.append(begin_gate(record.workload.name, conditions.begin_wall_s))
    if conditions.dependencies:
        gates.append(dependency_gate(record.workload.name, conditions.dependencies))
    return gates


def begin_gate(workload: str, begin_wall_s: float, until_s: float | None = None) -> GateChanged:
    """Return the closed gate of a workload that begins at a time of the wall clock."""
    begin_time = f"{datetime.fromtimestamp(begin_wall_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return GateChanged(workload, True, f"it begins at {begin_time}", Gate.BEGIN_TIME, until_s)


def dependency_gate(workload: str, dependencies: Sequence[Dependency]) -> GateChanged:
    """Return the closed gate of a workload that depends on others."""
    phrases = [
        f"{dependency.name} {_PHRASES[dependency.condition]}" for dependency in dependencies[:NAMED_MAX]
    ]
    left = len(dependencies) - len(phrases)
    rest = f", and for {left} more" if left else ""
    return GateChanged(workload, True, f"it waits for {', for '.join(phrases)}{rest}", Gate.DEPENDENCY)
