"""Recovery: the state of each workload from its journal record and the directories of its starts.

Starts whose supervisors died without an outcome are concluded here; running starts are found again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from weir.control.journal import WorkloadRecord
from weir.control.port import CancelRequested, Fact, PodExit, PodExited, PodRunning, StatusRecovered
from weir.control.start_gates import closed_gates
from weir.local.files.job_files import UnreadableFile
from weir.local.machine.environment import GangRank, PortPool
from weir.local.machine.machine import Machine
from weir.local.pods.running_pods import LocalWorkload, RunningPod
from weir.local.pods.start_times import StartTimes
from weir.local.processes.orphan_cleanup import conclude_start, kill_with_supervisor
from weir.local.processes.pod_processes import PodProcesses
from weir.local.records.job_messages import read_messages
from weir.local.records.pod_files import own_directory
from weir.local.records.pod_records import RUNG, SAVED, JobMessage, StartRecord, TimeBounds
from weir.local.records.state_dir import StartOutcome, StateDir, StoredStart
from weir.model.workloads import Workload
from weir.state.events import Checkpointed, Nominated, Placement, PodKey, WorkloadSubmitted, WorkloadSuspended

MAX_STARTS_AHEAD = 100_000
"""Largest start number of a directory beyond the last known start; Weir made none with a larger one."""


@dataclass(slots=True)
class RecoveredWorkload:
    """A workload as recovery found it."""

    local_workload: LocalWorkload
    facts: list[Fact] = field(default_factory=list)
    runs: list[RunningPod] = field(default_factory=list)
    notes: list[tuple[PodKey, JobMessage]] = field(
        default_factory=list
    )  # the last report by kind, rung and pod
    unreadable: list[tuple[PodKey, str]] = field(default_factory=list)  # sentences about ignored records
    saved_s: float | None = None


def recover(
    record: WorkloadRecord,
    home: StateDir,
    machine: Machine,
    ports: PortPool,
    known: Mapping[str, RunningPod],
    start_times: StartTimes,
    processes: PodProcesses,
) -> RecoveredWorkload:
    """Recover a workload from its record and directories. The starts in `known` are watched already."""
    workload, name, now_s = record.workload, record.workload.name, start_times.now_s()
    found = RecoveredWorkload(
        LocalWorkload(workload, record.launch, record.nomination), saved_s=record.saved_s
    )
    last: dict[PodKey, StoredStart] = {}
    highest = 0
    started_s: dict[PodKey, float] = {}
    for start, group, index in home.numbers(record.launch.uid):
        pod = PodKey(name, group, index)
        if not _is_plausible(workload, pod) or start > record.status.starts + MAX_STARTS_AHEAD:
            continue
        found.local_workload.starts_of[pod] = found.local_workload.starts_of.get(pod, 0) + 1
        highest = max(highest, start)
        if start <= record.status.settled:
            continue
        seen = home.start(record.launch.uid, start, group, index)
        if seen.spec is not None or home.start_name(seen.directory) in known:  # else it was never started
            last[pod] = seen
            started_s[pod] = seen.spec.at_s if isinstance(seen.spec, StartRecord) else now_s
    facts = found.facts
    facts.append(WorkloadSubmitted(workload, record.submitted_at_s, record.status.ran_s))
    facts += closed_gates(record)
    if highest or record.status.starts:
        status = replace(record.status, starts=max(record.status.starts, highest))
        facts.append(StatusRecovered(name, status))
    exits = [
        _pod(found, pod, seen, home, machine, ports, known, start_times, processes)
        for pod, seen in _by_start(last)
    ]
    if found.saved_s is not None:
        facts.append(Checkpointed(name, found.saved_s))
    found.local_workload.nomination = _unused_nomination(record.nomination, started_s)
    if found.local_workload.nomination is not None:
        facts.append(found.local_workload.nomination)
    facts += [exit_ for exit_ in exits if exit_ is not None]
    if record.suspended is not None:
        facts.append(WorkloadSuspended(name, True, record.suspended))
    if record.withdrawn_s is not None:
        facts.append(CancelRequested(name, record.withdrawn_s))
    return found


def _is_plausible(workload: Workload, pod: PodKey) -> bool:
    """Return True if the workload has such a pod: anyone may make a directory."""
    return pod.group < len(workload.groups) and pod.index < workload.groups[pod.group].count


def _by_start(last: dict[PodKey, StoredStart]) -> list[tuple[PodKey, StoredStart]]:
    return sorted(last.items(), key=lambda item: item[1].start)


def checked_start(seen: StoredStart, pod: PodKey) -> StartRecord | UnreadableFile:
    """Return the spec of a start, if it can be read and belongs to this start."""
    spec = seen.spec
    if isinstance(spec, StartRecord) and (PodKey(*spec.pod), spec.start) != (pod, seen.start):
        return UnreadableFile("start.json", "belongs to another start")
    assert spec is not None
    return spec


def _pod(
    found: RecoveredWorkload,
    pod: PodKey,
    seen: StoredStart,
    home: StateDir,
    machine: Machine,
    ports: PortPool,
    known: Mapping[str, RunningPod],
    start_times: StartTimes,
    processes: PodProcesses,
) -> PodExited | None:
    """Recover the last start of a pod: report it as running, and its exit if it has ended."""
    now_s = start_times.now_s()
    watched = known.get(home.start_name(seen.directory))
    if watched is not None:  # its records aren't needed; the watcher reports its end
        found.facts.append(PodRunning(watched.place, seen.start, watched.at_s, watched.stopping))
        found.local_workload.restore_rank(pod, watched.gang_rank, ports)
        watched.noted, watched.complained = _notes(
            found, pod, seen.directory, start_times.span(watched), watched.complained
        )
        return None
    spec = checked_start(seen, pod)
    if isinstance(spec, UnreadableFile):
        return _unreadable(found, pod, seen, spec, home, machine, now_s, processes)
    over: StartOutcome | None = None
    with suppress(OSError):  # processes remain, or the disk is full: the pod keeps its devices
        over = conclude_start(seen.directory, spec.cgroups, start_times.latest_s(spec), processes)
    node, at_s = machine.node, min(spec.at_s, now_s)
    place = Placement(pod, node.name, tuple(at for at in spec.devices if at < node.gpus))
    found.facts.append(PodRunning(place, seen.start, at_s, seen.stopping))
    noted, complained = _notes(found, pod, seen.directory, start_times.span(spec))
    if over is not None:
        return over.exited(pod, seen.start, at_s, start_times.latest_s(spec))
    gang_rank = GangRank(*spec.gang_rank)
    found.local_workload.restore_rank(pod, gang_rank, ports)
    run = RunningPod(
        place, seen.uid, seen.start, seen.directory, at_s, gang_rank, spec.cgroups, spec.boot_s, spec.boot
    )
    run.stopping, run.noted, run.complained = seen.stopping, noted, complained
    found.runs.append(run)
    return None


def _unreadable(
    found: RecoveredWorkload,
    pod: PodKey,
    seen: StoredStart,
    order: UnreadableFile,
    home: StateDir,
    machine: Machine,
    now_s: float,
    processes: PodProcesses,
) -> PodExited | None:
    """End a start whose spec can't be read, and count it as lost."""
    sentence = f"Its spec can't be read: {order.sentence}"
    request = found.local_workload.workload.groups[pod.group].request
    groups = machine.groups_of(home.start_name(seen.directory), request)
    with suppress(OSError):  # the next recovery tries again
        kill_with_supervisor(seen.directory, groups, now_s, processes)
    found.facts.append(PodRunning(Placement(pod, machine.node.name, ()), seen.start, now_s, seen.stopping))
    return PodExited(pod, seen.start, PodExit.LOST, now_s, sentence, own_loss=True)


def _notes(
    found: RecoveredWorkload, pod: PodKey, directory: str, span: TimeBounds, complained: bool = False
) -> tuple[int, bool]:
    """Read a job's messages. Return the position, and True if unreadable messages were reported."""
    try:
        read = read_messages(own_directory(directory), 0, span)
    except OSError:
        return 0, complained
    if read.unreadable is not None and not complained:
        found.unreadable.append((pod, f"Its messages are ignored: {read.unreadable.sentence}"))
    last = {(note.kind, note.step if note.kind == RUNG else None): note for note in read.notes}
    found.notes += [(pod, note) for note in last.values()]
    for note in read.notes:
        if note.kind == SAVED:
            found.saved_s = max(note.at_s, found.saved_s or 0.0)
    return read.position, complained or read.unreadable is not None


def _unused_nomination(nomination: Nominated | None, started_s: dict[PodKey, float]) -> Nominated | None:
    """Return the nomination without pods that have started since it was made."""
    if nomination is None:
        return None
    rest = tuple(place for place in nomination.places if started_s.get(place.pod, -1.0) < nomination.at_s)
    return Nominated(nomination.workload, rest, nomination.at_s, nomination.freed_by) if rest else None
