"""Facts of a workload for control: differences from the last reported facts.

Any number of changes between two looks make one difference.
"""

from collections.abc import Container, Iterator
from dataclasses import replace

from weir.control.port import (
    Fact,
    GateChanged,
    IdleExcused,
    PodExit,
    PodRunning,
    StatusRecovered,
    WorkloadFinished,
    WorkloadProgress,
)
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.gangs.workload import absent_pods, closed_gate, workload_of
from weir.kubernetes.translate.annotations import PREFIX, Annotations
from weir.state.events import (
    Checkpointed,
    HistoryRestored,
    Placement,
    PodKey,
    PodStopping,
    WorkloadChanged,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)


def new_facts(gang: Gang, now_s: float, is_node: Container[str]) -> list[Fact]:
    """Return the facts of a workload that control doesn't have yet. `is_node`: nodes that control knows."""
    for tracked in gang.pods():
        if tracked.reported_start and tracked.node not in is_node:
            gang.exits(tracked, now_s, PodExit.LOST, f"Node {tracked.node} is gone.")
            tracked.start = 0  # if the node comes back, the pod has a new start
    facts, gang.exit_facts = gang.exit_facts, []
    if gang.reported is None and not gang.is_schedulable:
        return []
    if gang.reported is not None and _is_concluded(gang):
        facts.append(_finished(gang, now_s))
        return facts
    if gang.head is None or gang.project is None:
        return facts
    workload, absent = workload_of(gang, is_node), absent_pods(gang, is_node)
    if gang.reported is None:
        facts.append(WorkloadSubmitted(workload, now_s, gang.life.ran_s, absent))
        gang.reported_gate = None
    elif workload != gang.reported or absent != gang.reported_absent:
        facts.append(WorkloadChanged(workload, now_s, absent))
    gang.reported, gang.reported_absent = workload, absent
    facts += _stored_facts(gang, now_s, is_node)
    gang.idle.settle(now_s, is_suspended=gang.head.derived.suspended)
    gang.restart.settle(is_suspended=gang.head.derived.suspended)
    gate = closed_gate(gang, absent)
    if gate != gang.reported_gate:
        facts.append(GateChanged(gang.name, gate is not None, gate or ""))
        gang.reported_gate = gate
    if not gang.idle.is_reported:
        gang.idle.is_reported = True
        facts.append(WorkloadSuspended(gang.name, False))  # from now on the gate suspends it
    if gang.nomination is not None and not gang.nomination_reported:
        facts.append(gang.nomination)
    gang.nomination_reported = True
    facts += _reported_facts(gang, gang.head.annotations, now_s)
    return facts


def _reported_facts(gang: Gang, stated: Annotations, now_s: float) -> Iterator[Fact]:
    """Yield the checkpoint and the extension that its pods report, or that annotations state."""
    reported = gang.job_report
    # No checkpoint in the future
    saved_s = min(max(stated.checkpointed_s or 0.0, reported.checkpointed_s), now_s)
    if saved_s > gang.checkpointed_s:
        gang.checkpointed_s = saved_s
        yield Checkpointed(gang.name, saved_s)
    for until_s, by, why in (
        (stated.extended_until_s or 0.0, f"The annotation {PREFIX}idle-extended-until", ""),
        (reported.busy_until_s, "", reported.busy_why),
    ):
        if until_s > max(gang.idle.extended_until_s, now_s):
            gang.idle.extended_until_s = until_s
            yield IdleExcused(gang.name, until_s, now_s, by, why)


def _stored_facts(gang: Gang, now_s: float, is_node: Container[str]) -> Iterator[Fact]:
    """Yield the running pods, the first time between the facts that its object stores."""
    is_new, gang.status_reported = not gang.status_reported, True
    if is_new:
        progress = _with_starts_of_pods(gang)
        gang.starts = max(gang.starts, progress.starts)  # control counts starts up to this number as known
        yield StatusRecovered(gang.name, progress)
    yield from _running(gang, now_s, is_node)
    if is_new and gang.is_short:
        yield HistoryRestored(gang.name, None, min(gang.short_since_s or now_s, now_s))


def _with_starts_of_pods(gang: Gang) -> WorkloadProgress:
    """Return its progress with the starts that its pods name: pods on unknown nodes have a number, too."""
    named = (tracked.claimed.start for tracked in gang.pods() if tracked.claimed is not None)
    last = max(named, default=0)
    return gang.life if last <= gang.life.starts else replace(gang.life, starts=last)


def _is_concluded(gang: Gang) -> bool:
    """Return True if control has nothing to do with it any more."""
    if any(pod.holds for pod in gang.pods()):
        return gang.newer
    return gang.newer or gang.project is None or gang.is_over() is not None


def _finished(gang: Gang, now_s: float) -> WorkloadFinished:
    over = gang.is_over() or WorkloadOutcome.STOPPED
    for tracked in gang.pods():
        tracked.reported_start, tracked.reported_stopping = 0, False
    forget_facts(gang)
    return WorkloadFinished(gang.name, over, now_s)


def forget_facts(gang: Gang) -> None:
    """Forget all facts that control got of a workload."""
    gang.reported, gang.reported_absent, gang.reported_gate = None, frozenset(), None
    gang.reported_start_gates = {}
    gang.status_reported = gang.nomination_reported = False
    gang.checkpointed_s = 0.0
    for tracked in gang.pods():
        tracked.reported_start, tracked.reported_stopping = 0, False
    gang.exit_facts.clear()


def _running(gang: Gang, now_s: float, is_node: Container[str]) -> Iterator[Fact]:
    for tracked in gang.pods():
        if not tracked.holds or tracked.node not in is_node or not tracked.settled:
            continue
        pod = PodKey(gang.name, tracked.group, tracked.index)
        if not tracked.reported_start:
            if tracked.start <= max(gang.life.settled, gang.exited):
                tracked.start = gang.next_start()
            gang.starts = max(gang.starts, tracked.start)
            place = Placement(pod, tracked.node, tracked.devices)
            yield PodRunning(place, tracked.start, min(tracked.at_s or now_s, now_s), tracked.stopping)
            tracked.reported_start, tracked.reported_stopping = tracked.start, tracked.stopping
        elif tracked.stopping and not tracked.reported_stopping:
            tracked.reported_stopping = True
            if tracked.deleting and not tracked.evicted:
                yield PodStopping(pod, now_s)
