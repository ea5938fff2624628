"""This machine behind the backend port: effects become directories and signals, ends become facts.

Effects are carried out in the thread of control. What happens by itself (a supervisor ends, a job
notes something, the nursery dies) is noticed in the thread of the watch and waits in the inbox.
A start that can't be written down, or whose records can't be read, costs that workload and no other.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
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
from weir.local import job_files, pod_files
from weir.local.environment import GangRank, PortPool
from weir.local.fd_watcher import FdWatcher
from weir.local.fork_client import ForkClient
from weir.local.job_message_reader import JobMessageReader
from weir.local.job_messages import WakeupSocket
from weir.local.machine import Machine
from weir.local.orphan_cleanup import conclude_start, kill_all
from weir.local.pod_records import JobMessage
from weir.local.recovery import exit_fact, recover
from weir.local.running_pods import LocalWorkload, PodSnapshot, RunningPod
from weir.local.start_spec import conclude_earlier_start, write_start_spec
from weir.local.start_times import StartTimes
from weir.local.state_dir import StateDir
from weir.state.events import Checkpointed, NodeSet, PodKey, QueuesSet, WorkloadSubmitted

LOG_MOST = 1 << 30
"""Bytes of output kept of each start of a pod, where nothing else is said."""
_AGAIN_S, _AFTER_FAILURE_S = 0.02, 1.0
_MASKED_LOOKS_MOST = 100
_ASKED_AT_ONCE = 64
"""So many starts are asked of a new nursery before its answers are heard."""


def _nothing(*_: object) -> None:
    """Take a call that has no receiver."""


class LocalBackend:
    """The pods of one pool on this machine.

    `wake` is called, from any thread, when there is something for control to take in; `noted`, from
    the watch's thread, with each note of a job (at a relist only with the last of each kind); `refused`, from
    any thread, with what can't be read of a start, in a sentence.
    `log_most`: bytes of output that are kept of each start of a pod; 0 for all.
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
        log_most: int = LOG_MOST,
    ) -> None:
        self.home = StateDir(home)
        self.home.occupy()
        self.machine = machine
        self._log_most = log_most
        self._journal = journal
        self._clock = clock or Clock()
        self._moments = StartTimes(self._clock)
        self._wake = wake
        self._noted = noted
        self._refused = refused
        self._lock = threading.Lock()
        self._inbox: list[Fact] = []
        self._launched: dict[str, LocalWorkload] = {}
        self._runs: dict[str, RunningPod] = {}  # by UID/START-GROUP-INDEX
        self._saved: dict[str, float] = {}  # not yet kept
        self._owed: list[Keepable] = []  # promised room that was used, not yet kept
        self._ports = PortPool()
        self._whole = True
        self._watch = FdWatcher()
        self._notes = JobMessageReader(self._watch, self._moments.span, self._saved_state, noted, refused)
        self._pokes = WakeupSocket(self.home.path, self._poked)
        self._watch.add(self._pokes.fileno(), self._pokes.read)
        self._nursery = ForkClient(self._watch, self._born, self._nursery_died)

    def close(self) -> None:
        """Let go of everything but the pods: they run on, and are found again."""
        self._watch.close()
        self._nursery.close()
        self._pokes.close()
        for run in self._runs.values():
            self._let_go(run)
        self.home.leave()

    @property
    def trouble(self) -> str | None:
        """Return why the ends of pods aren't noticed; None if they are."""
        return self._watch.trouble

    # The port

    def events(self) -> Iterable[Fact]:
        """What control doesn't know yet.

        Raises:
            OSError: the whole picture couldn't be made; asking again tries again.
        """
        if self._whole:
            facts = self._picture()
            self._whole = False
            return facts
        with self._lock:
            facts, self._inbox = self._inbox, []
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry effects out: stops first, then what is to be remembered, in one, then starts.

        Raises:
            OSError: it broke off; `connect`, and let a new control begin with the whole picture.
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
        """The next `events` is the whole picture again."""
        self._whole = True

    # What people do, said after it is committed; from any thread

    def submitted(self, kept: WorkloadRecord) -> None:
        """A workload is new."""
        with self._lock:
            known = self._launched.get(kept.workload.name)
            if known is None or known.launch.uid != kept.launch.uid:  # a relist may have found it before
                self._launched[kept.workload.name] = LocalWorkload(kept.workload, kept.launch)
            self._inbox.append(WorkloadSubmitted(kept.workload, kept.submitted_at_s))
        self._wake()

    def tell(self, fact: Fact) -> None:
        """Something else is true: queues were set, a workload is held or withdrawn."""
        with self._lock:
            self._inbox.append(fact)
        self._wake()

    def foreign(self, devices: tuple[int, ...]) -> None:
        """Devices that processes outside the pool use: nothing is started on them."""
        self.machine = replace(self.machine, node=replace(self.machine.node, foreign_devices=devices))
        self.tell(NodeSet(self.machine.node))

    def pods(self) -> list[PodSnapshot]:
        """All starts of pods that aren't over."""
        with self._lock:
            return [run.now() for run in self._runs.values()]

    def is_quiet(self, workload: str) -> bool:
        """Return True if no process of a workload's pods is left but their supervisors."""
        with self._lock:
            runs = [run for run in self._runs.values() if run.place.pod.workload == workload]
        for run in runs:
            supervisor = pod_files.signed(run.directory)
            if supervisor is None or (supervisor.lives() and pod_files.descendants(supervisor.pid)):
                return False
        return True

    # The whole picture

    def _picture(self) -> list[Fact]:
        with self._lock:
            self._inbox = []  # all of it is in the journal or in the directories by now
            self._ports.used.clear()  # those in use are found again
        facts: list[Fact] = [NodeSet(self.machine.node), QueuesSet(self._journal.queues())]
        for kept in self._journal.workloads():
            with self._lock:
                known = dict(self._runs)
            found = recover(kept, self.home, self.machine, self._ports, known, self._moments)
            facts += found.facts
            with self._lock:
                self._launched[kept.workload.name] = found.launched
                for run in found.runs:
                    self._found(run)
            for pod, note in found.notes:
                self._noted(pod, kept.launch.uid, note)
            for pod, sentence in found.unreadable:
                self._refused(pod, kept.launch.uid, sentence)
        return facts

    def _found(self, run: RunningPod) -> None:
        """A pod runs: one that isn't watched yet is from now on. Under the lock."""
        name = self.home.name_of(run.directory)
        if name not in self._runs:
            self._runs[name] = run
            self._watch.later(0, lambda: self._look(run))

    # Effects

    def _keep(self, effects: list[Keepable]) -> None:
        with self._lock:
            saved = {name: at_s for name, at_s in self._saved.items() if name in self._launched}
            over = {
                effect.workload: self._launched.get(effect.workload)
                for effect in effects
                if isinstance(effect, EndWorkload)
            }
        owed = list(self._owed)
        self._journal.keep([*owed, *effects], saved)
        del self._owed[: len(owed)]
        with self._lock:
            for name, at_s in saved.items():
                if self._saved.get(name) == at_s:
                    del self._saved[name]
            for effect in effects:
                if isinstance(effect, ReserveNomination | ReleaseNomination):
                    self._room_kept(effect)
            for name, launched in over.items():
                if launched is not None and self._launched.get(name) is launched:
                    del self._launched[name]  # unless one of that name was submitted meanwhile

    def _room_kept(self, effect: ReserveNomination | ReleaseNomination) -> None:
        name = effect.workload if isinstance(effect, ReleaseNomination) else effect.promised.workload
        launched = self._launched.get(name)
        if launched is not None:
            launched.promised = effect.promised if isinstance(effect, ReserveNomination) else None

    def _start_all(self, starts: list[StartPod]) -> None:
        together: dict[str, list[PodKey]] = {}
        for effect in starts:
            together.setdefault(effect.place.pod.workload, []).append(effect.place.pod)
        with self._lock:
            seats = {
                name: self._launched[name].sit(places, self._ports)
                for name, places in together.items()
                if name in self._launched
            }
        for effect in starts:
            pod = effect.place.pod
            if pod.workload in seats:
                self._start(effect, self._launched[pod.workload], seats[pod.workload][pod])

    def _start(self, effect: StartPod, launched: LocalWorkload, seat: GangRank) -> None:
        pod, uid = effect.place.pod, launched.launch.uid
        directory = self.home.directory(uid, effect.start, pod.group, pod.index)
        at_s, groups = self._clock(), None
        try:
            groups = write_start_spec(
                self.home,
                self.machine,
                launched,
                effect,
                seat,
                at_s,
                self._clock.boot_time_of(at_s),
                self._log_most,
            )
            if groups is None:
                self._found_before(effect, directory, at_s)
        except OSError as failure:
            if job_files.is_shortage(failure) or not self.home.takes_starts():
                raise
            sentence = f"It could not be started: {failure.filename or directory}: {failure.strerror}."
            self.tell(PodExited(pod, effect.start, PodExit.FAILED, at_s, sentence))
        finally:
            if groups is None:
                self._unseat(launched, pod, directory)
        if groups is None:
            return
        run = RunningPod(
            effect.place,
            uid,
            effect.start,
            directory,
            at_s,
            seat,
            groups,
            self._clock.boot_time_of(at_s),
            pod_files.boot(),
        )
        with self._lock:
            self._runs[self.home.name_of(directory)] = run
            launched.starts_of[pod] = launched.starts_of.get(pod, 0) + 1
            used = launched.placed(pod)
        if used is not None:
            self._owed.append(used)
        self._nursery.ask(directory)

    def _found_before(self, effect: StartPod, directory: str, at_s: float) -> None:
        """The start was carried out before, or somebody made its directory: it is watched, or it is over."""
        if self.home.name_of(directory) in self._runs:
            return
        over = conclude_earlier_start(directory, at_s)
        if over is not None:
            self.tell(exit_fact(effect.place.pod, effect.start, over, over.at_s, at_s))

    def _unseat(self, launched: LocalWorkload, pod: PodKey, directory: str) -> None:
        """A pod that isn't started after all has no place in its gang."""
        with self._lock:
            if self.home.name_of(directory) not in self._runs:
                launched.stands(pod, self._ports)

    def _stop(self, effect: StopPod) -> None:
        launched = self._launched.get(effect.pod.workload)
        if launched is None:
            return
        directory = self.home.directory(launched.launch.uid, effect.start, effect.pod.group, effect.pod.index)
        run = self._runs.get(self.home.name_of(directory))
        if run is None:
            return  # it is over
        with suppress(OSError):  # on a full disk it is stopped all the same, with the grace of its start
            said = {"grace_s": effect.grace_s, "cause": effect.cause.sentence}
            pod_files.write(directory, pod_files.STOP, said, synced=False)
        with self._lock:
            run.stopping = True
            self._signal_stop(run)

    def _signal_stop(self, run: RunningPod) -> None:
        """Under the lock: nobody closes the process meanwhile."""
        if run.process >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(run.process, signal.SIGTERM)
                signal.pidfd_send_signal(run.process, signal.SIGCONT)

    # What happens by itself, in the thread of the watch

    def _born(self, directory: str, process: int | None) -> None:
        """The nursery has forked a supervisor, or says that it was over at once."""
        with self._lock:
            run = self._runs.get(self.home.name_of(directory))
            if run is not None and run.process < 0 and process is not None:
                self._adopt(run, process)
                return
        if process is not None:
            os.close(process)
        if run is not None and run.process < 0:
            self._look(run)

    def _adopt(self, run: RunningPod, process: int) -> None:
        """Watch this process as its supervisor. Under the lock."""
        run.process = process
        run.since_s = self._clock()
        self._watch.add(process, lambda: self._gone(run))
        if run.stopping:
            self._signal_stop(run)

    def _gone(self, run: RunningPod) -> None:
        with self._lock:
            self._let_go(run)
        self._look(run)

    def _let_go(self, run: RunningPod) -> None:
        if run.process >= 0:
            self._watch.drop(run.process)
            os.close(run.process)
            run.process = -1

    def _look(self, run: RunningPod) -> None:
        """Nobody watches this start: is it over, and if not, who is its supervisor? Whatever fails, again."""
        again_s: float | None = _AFTER_FAILURE_S
        try:
            with suppress(OSError):  # what is left of it doesn't end, or the machine is short of something
                again_s = self._look_once(run)
        finally:
            if again_s is not None:
                self._watch.later(again_s, lambda: self._look(run))

    def _look_once(self, run: RunningPod) -> float | None:
        """Look; in how long to look again, if at all."""
        if self._runs.get(self.home.name_of(run.directory)) is not run or run.process >= 0:
            return None
        latest_s = self._moments.latest_s(run)
        over = conclude_start(run.directory, run.groups, latest_s)
        if over is not None:
            self._notes.read(run)
            self._over(run, exit_fact(run.place.pod, run.start, over, run.at_s, latest_s))
            return None
        process = pod_files.open_supervisor(run.directory)
        if process is not None:
            with self._lock:
                self._adopt(run, process)
            return None
        run.masked_looks += 1
        if run.masked_looks % _MASKED_LOOKS_MOST == 0:
            kill_all(run.directory, run.groups)  # its job has taken the lock of a supervisor it ended
        return _AGAIN_S

    def _over(self, run: RunningPod, fact: PodExited) -> None:
        with self._lock:
            self._runs.pop(self.home.name_of(run.directory), None)
            launched = self._launched.get(run.place.pod.workload)
            if launched is not None and launched.launch.uid == run.uid:
                launched.stands(run.place.pod, self._ports)
        self.tell(fact)

    def _nursery_died(self) -> None:
        """Ask again for what wasn't answered. A supervisor that has one already, or is over, refuses."""
        with self._lock:
            asked = [run for run in self._runs.values() if run.process < 0]
        for at in range(0, len(asked), _ASKED_AT_ONCE):
            some = asked[at : at + _ASKED_AT_ONCE]
            self._watch.later(0, lambda some=some: self._ask_again(some))  # type: ignore[misc]

    def _ask_again(self, runs: list[RunningPod]) -> None:
        for run in runs:
            if run.process < 0:
                self._nursery.ask(run.directory)

    def _poked(self, name: str) -> None:
        with self._lock:
            run = self._runs.get(name)
        if run is not None:
            self._notes.poked(run)

    def _saved_state(self, run: RunningPod, at_s: float) -> None:
        name = run.place.pod.workload
        with self._lock:
            self._saved[name] = at_s
        self.tell(Checkpointed(name, at_s))
