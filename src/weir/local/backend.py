"""Implement the backend port on this machine: effects become directories and signals, exits become facts.

The control thread carries effects out. The watcher's thread notices everything else (a supervisor exits, a
job sends a message, the node process dies) and puts facts into the inbox. A start with unwritable or
unreadable records affects only its own workload.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path

from weir.control.clock import Clock
from weir.control.journal import Journal, Keepable, WorkloadRecord
from weir.control.port import (
    Effect,
    EndWorkload,
    Fact,
    PodExit,
    PodExited,
    ReleaseNomination,
    ReserveNomination,
    StartPod,
    StopPod,
)
from weir.control.start_gates import closed_gates
from weir.local.files import job_files
from weir.local.machine.environment import GangRank, PortPool
from weir.local.machine.local_node import LocalNode, NodeService
from weir.local.machine.machine import Machine
from weir.local.node.orders import RemoveOrder
from weir.local.pods.gpu_memory_limits import GpuMemoryLimits
from weir.local.pods.message_reader import JobMessageReader
from weir.local.pods.recovery import Recovery
from weir.local.pods.running_pods import LocalWorkload, RunningPod
from weir.local.pods.start_times import StartTimes
from weir.local.pods.supervisor_watch import SupervisorWatch
from weir.local.processes.fd_watcher import FdWatcher
from weir.local.processes.node_client import NodeLink, OwnNode
from weir.local.processes.own_processes import OwnProcesses
from weir.local.processes.pod_processes import PodProcesses, UsersProcesses
from weir.local.records import pod_files
from weir.local.records.job_messages import WakeupSocket
from weir.local.records.pod_records import JobMessage
from weir.local.records.start_files import write_stop
from weir.local.records.state_dir import StateDir
from weir.local.starts.requests import StartRequests
from weir.local.starts.spec import conclude_earlier_start, write_start_spec
from weir.state.events import Checkpointed, NodeSet, PodKey, QueuesSet, WorkloadChanged, WorkloadSubmitted

LOG_MAX = 1 << 30
"""Default limit of the output kept of each start, in bytes."""


def _nothing(*_: object) -> None: ...


class LocalBackend(NodeService):
    """Starts, watches and stops the pods of one pool on this machine.

    `wake` is called, from any thread, when there are facts for control; `noted`, from the
    watcher's thread, with each message of a job (after recovery only the last of each kind); `refused`, from
    any thread, with a sentence about records of a start that can't be read.
    `log_max`: bytes of output that are kept of each start of a pod; 0 for all. `shared_node`: the node
    process of a pool for several users; None for a pool of this process's own user.
    """

    def __init__(
        self,
        journal: Journal,
        home: Path,
        machine: Machine,
        clock: Clock | None = None,
        wake: Callable[[], None] = _nothing,
        noted: Callable[[PodKey, int, JobMessage], None] = _nothing,
        refused: Callable[[PodKey, int, str], None] = _nothing,
        log_max: int = LOG_MAX,
        shared_node: NodeLink | None = None,
    ) -> None:
        self.home = StateDir(home, shared=shared_node is not None)
        self.home.occupy()
        self.node = LocalNode(machine)
        self._log_max = log_max
        self._journal = journal
        self._clock = clock or Clock()
        self._start_times = StartTimes(self._clock)
        self._wake = wake
        self._noted = noted
        self._refused = refused
        self._lock = threading.Lock()
        self._inbox: list[Fact] = []
        self._workloads: dict[str, LocalWorkload] = {}
        self._running: dict[str, RunningPod] = {}  # by UID/START-GROUP-INDEX
        self._saved: dict[str, float] = {}  # checkpoints that aren't stored yet
        self._unsaved_effects: list[Keepable] = []  # effects that aren't stored yet
        self._ports = PortPool()
        self._relist_due = True
        self._newer: dict[str, WorkloadRecord] = {}  # changes committed during a read of the whole state
        self._watch = FdWatcher()
        self._notes = JobMessageReader(
            self._watch, self._start_times.span, self._on_checkpoint, noted, refused
        )
        self._wakeups = WakeupSocket(self.home.path, self._on_wakeup, shared=self.home.shared)
        self._watch.add(self._wakeups.fileno(), self._wakeups.read)
        self._requests = StartRequests(
            self.home, self.node, self._watch, self._lock, self._running, self._workloads
        )
        self._node = self._requests.connect(shared_node or OwnNode(str(self.home.path), machine.groups))
        self.processes: PodProcesses = OwnProcesses()
        if shared_node is not None:
            self.processes = UsersProcesses(self._node)
            self.home.remove = lambda uid, checkpoints: self._node.call(RemoveOrder(uid, checkpoints))
        self._supervisors = SupervisorWatch(
            *(self.home, self._watch, self._lock, self._running, self._start_times, self._clock),
            *(self._finish, self.processes),
        )
        self._node.on_forked = self._supervisors.on_forked
        self._node.on_unready = self._supervisors.on_unready
        self.gpu_memory = GpuMemoryLimits(self.node, self._watch, self._lock, self._running, self._workloads)
        if shared_node is not None:
            self.gpu_memory.connect(self._node)

    def close(self) -> None:
        """Close everything except the pods: they keep running, and recovery finds them."""
        self._watch.close()
        self._node.close()
        self._wakeups.close()
        for run in self._running.values():
            self._supervisors.close_pidfd(run)
        self.home.leave()

    @property
    def trouble(self) -> str | None:
        """Return why the ends of pods can't be noticed now; None if they can."""
        return self._watch.trouble

    # The backend port

    def events(self) -> Iterable[Fact]:
        """Return the facts that control doesn't know yet.

        Raises:
            OSError: the whole state couldn't be read; the next call tries again.
        """
        if self._relist_due:
            facts = self._relist()
            self._relist_due = False
            return facts
        with self._lock:
            facts, self._inbox = self._inbox, []
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry effects out: first stops, then all records in one write, then starts.

        Raises:
            OSError: a step failed; call `connect`, and let a new control begin with the whole state.
        """
        keep: list[Keepable] = []
        starts: list[StartPod] = []
        for effect in effects:
            if isinstance(effect, StopPod):
                self._stop(effect)
            elif isinstance(effect, StartPod):
                starts.append(effect)
            else:
                keep.append(effect)
        if keep:
            self._keep(keep)
        if starts:
            self._start_all(starts)

    def connect(self) -> None:
        """Let the next `events` return the whole state again."""
        self._relist_due = True

    # Committed changes, from any thread

    def submitted(self, record: WorkloadRecord) -> None:
        """Add a new workload."""
        with self._lock:
            local = self._workloads.get(record.workload.name)
            if local is None or local.launch.uid != record.launch.uid:  # recovery may have found it before
                self._workloads[record.workload.name] = LocalWorkload(record.workload, record.launch)
            self._inbox += [WorkloadSubmitted(record.workload, record.submitted_at_s), *closed_gates(record)]
        self._wake()

    def changed(self, record: WorkloadRecord, at_s: float) -> None:
        """Apply the new specification of a workload: its priority or its variables have changed."""
        with self._lock:
            local = self._workloads.get(record.workload.name)
            if self._relist_due:
                self._newer[record.workload.name] = record
            if (local is not None and local.take_over(record)) or self._relist_due:
                self._inbox.append(WorkloadChanged(record.workload, at_s))
        self._wake()

    def tell(self, fact: Fact) -> None:
        """Pass another fact to control: queues were set, a workload was suspended or cancelled."""
        with self._lock:
            self._inbox.append(fact)
        self._wake()

    def pods(self) -> list[RunningPod]:
        """Return copies of all starts of pods that aren't over, for readers on other threads."""
        with self._lock:
            return [copy(run) for run in self._running.values()]

    def is_quiet(self, workload: str) -> bool:
        """Return True if no process of a workload's pods is left but their supervisors."""
        with self._lock:
            runs = [run for run in self._running.values() if run.place.pod.workload == workload]
        for run in runs:
            supervisor = pod_files.signed(run.directory)
            if supervisor is None or (supervisor.lives() and pod_files.descendants(supervisor.pid)):
                return False
        return True

    # Relisting the whole state

    def _relist(self) -> list[Fact]:
        with self._lock:
            self._inbox = []  # the journal and the directories contain these facts
            self._newer.clear()
            self._ports.used.clear()  # recovery adds the ports in use
        facts: list[Fact] = [NodeSet(self.node.machine.node), QueuesSet(self._journal.queues())]
        for record in self._journal.workloads():
            with self._lock:
                watched = dict(self._running)
            recovery = Recovery(
                record, self.home, self.node.machine, self._ports, watched, self._start_times, self.processes
            )
            recovery.recover()
            facts += recovery.facts
            with self._lock:
                if (changed := self._newer.get(record.workload.name)) is not None:
                    recovery.local_workload.take_over(changed)
                self._workloads[record.workload.name] = recovery.local_workload
                for run in recovery.runs:
                    self._watch_recovered(run)
            for pod, note in recovery.notes:
                self._noted(pod, record.launch.uid, note)
            for pod, sentence in recovery.unreadable:
                self._refused(pod, record.launch.uid, sentence)
        if self.node.drained is not None:
            facts.append(self.node.drained)
        self.gpu_memory.on_recovered()
        return [*facts, *self.node.drained_gpus]

    def _watch_recovered(self, run: RunningPod) -> None:
        """Watch a running pod that recovery found. The caller holds the lock."""
        name = self.home.start_name(run.directory)
        if name not in self._running:
            self._running[name] = run
            self._watch.later(0, lambda: self._supervisors.check(run))

    # Effects

    def _keep(self, effects: list[Keepable]) -> None:
        with self._lock:
            saved = {name: at_s for name, at_s in self._saved.items() if name in self._workloads}
            over = {
                effect.workload: self._workloads.get(effect.workload)
                for effect in effects
                if isinstance(effect, EndWorkload)
            }
        owed = list(self._unsaved_effects)
        self._journal.keep([*owed, *effects], saved)
        del self._unsaved_effects[: len(owed)]
        with self._lock:
            for name, at_s in saved.items():
                if self._saved.get(name) == at_s:
                    del self._saved[name]
            for effect in effects:
                if isinstance(effect, ReserveNomination | ReleaseNomination):
                    self._apply_nomination(effect)
            for name, local_workload in over.items():
                if local_workload is not None and self._workloads.get(name) is local_workload:
                    del self._workloads[name]  # unless one of that name was submitted meanwhile

    def _apply_nomination(self, effect: ReserveNomination | ReleaseNomination) -> None:
        name = effect.workload if isinstance(effect, ReleaseNomination) else effect.nomination.workload
        local_workload = self._workloads.get(name)
        if local_workload is not None:
            local_workload.nomination = effect.nomination if isinstance(effect, ReserveNomination) else None

    def _start_all(self, starts: list[StartPod]) -> None:
        together: dict[str, list[PodKey]] = {}
        for effect in starts:
            together.setdefault(effect.place.pod.workload, []).append(effect.place.pod)
        with self._lock:
            ranks = {
                name: self._workloads[name].assign_ranks(places, self._ports)
                for name, places in together.items()
                if name in self._workloads
            }
        for effect in starts:
            pod = effect.place.pod
            if pod.workload in ranks:
                self._start(effect, self._workloads[pod.workload], ranks[pod.workload][pod])

    def _start(self, effect: StartPod, local_workload: LocalWorkload, gang_rank: GangRank) -> None:
        pod, uid = effect.place.pod, local_workload.launch.uid
        directory, at_s = self.home.directory(uid, effect.start, pod.group, pod.index), self._clock()
        groups = None
        try:
            groups = write_start_spec(
                self.home,
                self.node.machine,
                local_workload,
                effect,
                gang_rank,
                at_s,
                self._clock.boot_time_of(at_s),
                self._log_max,
            )
            if groups is None:
                self._conclude_earlier(effect, directory, at_s)
        except OSError as failure:
            if job_files.is_shortage(failure) or not self.home.can_create_starts():
                raise
            sentence = f"It could not be started: {failure.filename or directory}: {failure.strerror}."
            self.tell(PodExited(pod, effect.start, PodExit.FAILED, at_s, sentence))
        finally:
            if groups is None:
                self._release_rank(local_workload, pod, directory)
        if groups is None:
            return
        run = RunningPod(
            effect.place,
            uid,
            effect.start,
            directory,
            at_s,
            gang_rank,
            groups,
            self._clock.boot_time_of(at_s),
            pod_files.boot(),
        )
        with self._lock:
            self._running[self.home.start_name(directory)] = run
            local_workload.starts_of[pod] = local_workload.starts_of.get(pod, 0) + 1
            used = local_workload.use_nomination(pod)
        if used is not None:
            self._unsaved_effects.append(used)
        self._requests.request(run, local_workload)

    def _conclude_earlier(self, effect: StartPod, directory: str, at_s: float) -> None:
        """Conclude a start whose directory existed before: report its end unless it is running."""
        if self.home.start_name(directory) in self._running:
            return
        if (over := conclude_earlier_start(directory, at_s, self.processes)) is not None:
            self.tell(over.exited(effect.place.pod, effect.start, over.at_s, at_s))

    def _release_rank(self, local_workload: LocalWorkload, pod: PodKey, directory: str) -> None:
        """Release the gang rank of a pod that isn't started after all."""
        with self._lock:
            if self.home.start_name(directory) not in self._running:
                local_workload.release_rank(pod, self._ports)

    def _stop(self, effect: StopPod) -> None:
        pod = effect.pod
        local_workload = self._workloads.get(pod.workload)
        if local_workload is None:
            return
        directory = self.home.directory(local_workload.launch.uid, effect.start, pod.group, pod.index)
        if (run := self._running.get(self.home.start_name(directory))) is None:
            return  # the pod has ended
        with suppress(OSError):  # a full disk doesn't prevent the stop: it then uses the grace of the start
            write_stop(directory, effect.grace_s, effect.cause.sentence)
        with self._lock:
            run.stopping = True
            self._supervisors.signal_stop(run)

    # Callbacks in the watcher's thread

    def _finish(self, run: RunningPod, fact: PodExited) -> None:
        """Report the end of a start, after its last messages."""
        self._notes.read(run)
        with self._lock:
            self._running.pop(self.home.start_name(run.directory), None)
            local_workload = self._workloads.get(run.place.pod.workload)
            if local_workload is not None and local_workload.launch.uid == run.uid:
                local_workload.release_rank(run.place.pod, self._ports)
        self.tell(fact)

    def _on_wakeup(self, name: str) -> None:
        with self._lock:
            run = self._running.get(name)
        if run is not None:
            self._notes.on_wakeup(run)

    def _on_checkpoint(self, run: RunningPod, at_s: float) -> None:
        name = run.place.pod.workload
        with self._lock:
            self._saved[name] = at_s
        self.tell(Checkpointed(name, at_s))
