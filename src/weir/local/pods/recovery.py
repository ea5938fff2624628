"""Recovery: the state of each workload from its journal record and the directories of its starts.

Starts whose supervisors died without an outcome are concluded here; running starts are found again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

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
from weir.local.records import pod_files
from weir.local.records.job_messages import read_messages
from weir.local.records.pod_records import RUNG, SAVED, JobMessage, StartRecord, TimeBounds
from weir.local.records.state_dir import StartOutcome, StateDir, read_spec
from weir.model.workloads import Workload
from weir.state.events import Checkpointed, Nominated, Placement, PodKey, WorkloadSubmitted, WorkloadSuspended

MAX_STARTS_AHEAD = 100_000
"""Largest accepted distance of a directory's start number from the last known start."""
Spec = StartRecord | UnreadableFile | None
"""Spec of a start; None if it was never written completely."""


class Recovery:
    """Recovery of one workload: the facts for control, and its starts that still run."""

    def __init__(
        self,
        record: WorkloadRecord,
        home: StateDir,
        machine: Machine,
        ports: PortPool,
        watched: Mapping[str, RunningPod],
        start_times: StartTimes,
        processes: PodProcesses,
    ) -> None:
        """Prepare the recovery of a workload. The starts in `watched` are watched already."""
        self._record = record
        self._home = home
        self._machine = machine
        self._ports = ports
        self._watched = watched
        self._start_times = start_times
        self._processes = processes
        self._saved_s = record.saved_s
        self.local_workload = LocalWorkload(record.workload, record.launch)
        self.facts: list[Fact] = []
        self.runs: list[RunningPod] = []
        self.notes: list[tuple[PodKey, JobMessage]] = []  # the last report by kind, rung and pod
        self.unreadable: list[tuple[PodKey, str]] = []  # sentences about ignored records

    def recover(self) -> None:
        """Recover the workload from its record and directories."""
        record, facts = self._record, self.facts
        name = record.workload.name
        last, highest = self._last_starts()
        facts.append(WorkloadSubmitted(record.workload, record.submitted_at_s, record.status.ran_s))
        facts += closed_gates(record)
        if highest or record.status.starts:
            status = replace(record.status, starts=max(record.status.starts, highest))
            facts.append(StatusRecovered(name, status))
        exits = [
            self._pod(pod, start, spec)
            for pod, (start, spec) in sorted(last.items(), key=lambda item: item[1][0])
        ]
        if self._saved_s is not None:
            facts.append(Checkpointed(name, self._saved_s))
        now_s = self._start_times.now_s()
        started_s = {
            pod: spec.at_s if isinstance(spec, StartRecord) else now_s for pod, (_, spec) in last.items()
        }
        nomination = self.local_workload.nomination = _unused_nomination(record.nomination, started_s)
        if nomination is not None:
            facts.append(nomination)
        facts += [exit_ for exit_ in exits if exit_ is not None]
        if record.suspended is not None:
            facts.append(WorkloadSuspended(name, True, record.suspended))
        if record.withdrawn_s is not None:
            facts.append(CancelRequested(name, record.withdrawn_s))

    def _last_starts(self) -> tuple[dict[PodKey, tuple[int, Spec]], int]:
        """Return the last unsettled start of each pod, and the highest number of a start."""
        record = self._record
        last: dict[PodKey, tuple[int, Spec]] = {}
        highest, starts_of = 0, self.local_workload.starts_of
        for start, group, index in self._home.numbers(record.launch.uid):
            pod = PodKey(record.workload.name, group, index)
            if not _is_plausible(record.workload, pod) or start > record.status.starts + MAX_STARTS_AHEAD:
                continue
            starts_of[pod] = starts_of.get(pod, 0) + 1
            highest = max(highest, start)
            if start <= record.status.settled:
                continue
            directory = self._directory(pod, start)
            spec = read_spec(directory)
            if spec is not None or self._home.start_name(directory) in self._watched:  # else never started
                last[pod] = start, spec
        return last, highest

    def _directory(self, pod: PodKey, start: int) -> str:
        return self._home.directory(self._record.launch.uid, start, pod.group, pod.index)

    def _pod(self, pod: PodKey, start: int, spec: Spec) -> PodExited | None:
        """Recover the last start of a pod: report it as running, and its exit if it has ended."""
        directory = self._directory(pod, start)
        watched = self._watched.get(self._home.start_name(directory))
        if watched is not None:  # its records aren't needed; the watcher reports its end
            self.facts.append(PodRunning(watched.place, start, watched.at_s, watched.stopping))
            self.local_workload.restore_rank(pod, watched.gang_rank, self._ports)
            watched.noted, watched.complained = self._notes(
                pod, directory, self._start_times.span(watched), watched.complained
            )
            return None
        assert spec is not None
        stopping = pod_files.has(directory, pod_files.STOP)
        if isinstance(spec, StartRecord) and (PodKey(*spec.pod), spec.start) != (pod, start):
            spec = UnreadableFile("start.json", "belongs to another start")
        if isinstance(spec, UnreadableFile):
            return self._unreadable(pod, start, spec, stopping=stopping)
        latest_s = self._start_times.latest_s(spec)
        over: StartOutcome | None = None
        with suppress(OSError):  # processes remain, or the disk is full: the pod keeps its devices
            over = conclude_start(directory, spec.cgroups, latest_s, self._processes)
        node, at_s = self._machine.node, min(spec.at_s, self._start_times.now_s())
        place = Placement(pod, node.name, tuple(index for index in spec.devices if index < node.gpus))
        self.facts.append(PodRunning(place, start, at_s, stopping))
        noted, complained = self._notes(pod, directory, self._start_times.span(spec))
        if over is not None:
            return over.exited(pod, start, at_s, self._start_times.latest_s(spec))
        uid, gang_rank = self._record.launch.uid, GangRank(*spec.gang_rank)
        self.local_workload.restore_rank(pod, gang_rank, self._ports)
        run = RunningPod(place, uid, start, directory, at_s, gang_rank, spec.cgroups, spec.boot_s, spec.boot)
        run.stopping, run.noted, run.complained = stopping, noted, complained
        self.runs.append(run)
        return None

    def _unreadable(self, pod: PodKey, start: int, spec: UnreadableFile, *, stopping: bool) -> PodExited:
        """End a start with an unreadable spec, and count it as lost."""
        directory, now_s = self._directory(pod, start), self._start_times.now_s()
        request = self._record.workload.groups[pod.group].request
        groups = self._machine.groups_of(self._home.start_name(directory), request)
        with suppress(OSError):  # the next recovery tries again
            kill_with_supervisor(directory, groups, now_s, self._processes)
        self.facts.append(PodRunning(Placement(pod, self._machine.node.name, ()), start, now_s, stopping))
        sentence = f"Its spec can't be read: {spec.sentence}"
        return PodExited(pod, start, PodExit.LOST, now_s, sentence, own_loss=True)

    def _notes(
        self, pod: PodKey, directory: str, span: TimeBounds, complained: bool = False
    ) -> tuple[int, bool]:
        """Read a job's messages. Return the position, and True if unreadable messages were reported."""
        try:
            read = read_messages(pod_files.own_directory(directory), 0, span)
        except OSError:
            return 0, complained
        if read.unreadable is not None and not complained:
            self.unreadable.append((pod, f"Its messages are ignored: {read.unreadable.sentence}"))
        last = {(note.kind, note.step if note.kind == RUNG else None): note for note in read.notes}
        self.notes += [(pod, note) for note in last.values()]
        for note in read.notes:
            if note.kind == SAVED:
                self._saved_s = max(note.at_s, self._saved_s or 0.0)
        return read.position, complained or read.unreadable is not None


def _is_plausible(workload: Workload, pod: PodKey) -> bool:
    """Return True if the workload can have such a pod: any user may make a directory."""
    return pod.group < len(workload.groups) and pod.index < workload.groups[pod.group].count


def _unused_nomination(nomination: Nominated | None, started_s: dict[PodKey, float]) -> Nominated | None:
    """Return the part of the nomination whose pods haven't started since; None if nothing is left."""
    if nomination is None:
        return None
    rest = tuple(place for place in nomination.places if started_s.get(place.pod, -1.0) < nomination.at_s)
    return Nominated(nomination.workload, rest, nomination.at_s, nomination.freed_by) if rest else None
