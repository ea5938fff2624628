"""Supervisor of one pod: starts its process, stops it on request, and records its outcome.

It outlives the server and the node process. As the kernel's "child subreaper" it adopts all processes that
the pod leaves behind, so none escapes by forking. It ends when none is left. The pod is over when its first
process is; the supervisor then stops the remaining ones.

It runs with the rights of the pod's user. Weir's records reach it as open files (`start_files`) alone.

Standard library only; runs in a fork of the node process.
"""

import os
import resource
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from weir.local import cgroups
from weir.local.containers import leftovers
from weir.local.files import job_files
from weir.local.files.job_files import UnreadableFile
from weir.local.records import pod_files, pod_records, start_files
from weir.local.records.pod_records import RESTARTS, StartRecord
from weir.local.records.start_files import StartFiles
from weir.local.supervisor.cgroup_usage import GroupUsage
from weir.local.supervisor.leader import Leader, NotStarted
from weir.local.supervisor.output import OutputFile
from weir.model.plain_text import printable

_AGAIN_S = 0.05
_AGAIN_MAX_S = 1.0
"""Interval of checks after a kill; processes blocked in the kernel die late."""
_ENTERED_KILLS_MAX = 20
_FULL_DISK_S = 1.0
_HANGING_S = 10.0
"""Time in which a file system answers, or the output of the job says that it doesn't."""
_GROUP_READS = 0o640
SIGNALS = (signal.SIGTERM, signal.SIGCHLD)
"""Signals that a supervisor waits for. They are blocked before it is forked."""


def supervise(
    files: StartFiles, own: str, leader: Leader, groups: Sequence[cgroups.Cgroup], *, shared: bool
) -> None:
    """Supervise a start whose leader was forked and waits, until nothing of it is left.

    `own` is the job's own directory, `groups` are the control groups that its leader is in. `shared`: the
    server runs as another user, and reads output and messages as the group of the directory.
    """
    start = pod_records.parse_start(start_files.read(files.spec))
    if not isinstance(start, StartRecord):
        why = "it is gone." if start is None else start.sentence
        write_exit(files, {"lost": True, "error": f"Its spec can't be read: {why}"})
        return
    try:
        pod_files.sign(files.lock)
        supervisor = Supervisor(files, _open(own, shared=shared), start, leader, groups)
        supervisor.start()
    except _DirectoryUnusable as failure:
        write_exit(files, {"at_s": start.now_s(), **not_started(str(failure))})
        return
    except OSError as failure:
        write_exit(files, {"at_s": start.now_s(), **not_started(f"{failure.strerror}.")})
        return
    supervisor.watch()
    write_exit(files, {"at_s": start.now_s(), **supervisor.ended()})


def not_started(why: str) -> dict[str, object]:
    """Return the record of a start that could not be carried out."""
    return {"code": None, "error": f"It could not be started: {why}"}


def write_exit(files: StartFiles, ended: dict[str, object]) -> None:
    """Write the exit, with retries while the disk is full; until then the start counts as running."""
    while True:
        try:
            start_files.write(files.exit, ended)
        except OSError as failure:
            if not job_files.is_shortage(failure):
                return
            time.sleep(_FULL_DISK_S)
        else:
            return


class _DirectoryUnusable(Exception):
    """The job's own directory, or its output in it, has the wrong type."""


class Supervisor:
    """Starts the processes of one pod, and waits for their end."""

    def __init__(
        self,
        files: StartFiles,
        opened: tuple[int, int],
        start: StartRecord,
        leader: Leader,
        groups: Sequence[cgroups.Cgroup],
    ) -> None:
        self._files = files
        self._start = start
        self._cgroups = groups
        self._usage = GroupUsage(groups)
        self._waiting = leader
        self._leader = -1
        self._status: int | None = None  # wait status of the leader, after its end
        self._problem: str | None = None  # cause of a failed start
        self._lost = False  # True: the command ran before, so another start may succeed
        self._stopped = False  # True: a stop was requested before the leader ended
        self._started_s = 0.0
        self._says_hanging = False
        self._kill_at: float | None = None  # monotonic time of the kill
        self._own, self._log = opened
        self._output = OutputFile(self._log, start.log_max)

    def start(self) -> None:
        """Start the command, unless a stop was requested before."""
        if start_files.read(self._files.stop):
            self._stopped = True
            self._waiting.dismiss()
            return
        self._started_s = self._start.now_s()
        try:
            self._waiting.go(self._log, self._waits)
        except NotStarted as failure:
            # Its file system may not be mounted yet, or not answer, as after a reboot of the machine
            self._lost = self._ran_before
            error = failure.error
            remedy = error.condition if self._lost else error.advice
            self._problem = f"{error.problem} {remedy}".rstrip()
            self._say(self._problem)
            self._status = failure.code << 8
            return
        self._leader = self._waiting.pid
        running = {
            "supervisor": os.getpid(),
            "leader": self._leader,
            "leader_ticks": pod_files.started_ticks(self._leader),
            "started_s": self._started_s,
            "cgroups": [cgroup.path for cgroup in self._cgroups],
        }
        with suppress(OSError):  # the file is for inspection only: the lock identifies the supervisor
            start_files.write(self._files.running, running, synced=False)

    def _waits(self) -> bool:
        """Say in the output that a file system hangs; return False once a stop was requested."""
        if signal.SIGTERM in signal.sigpending():
            self._stopped = True
            return False
        if not self._says_hanging and self._start.now_s() - self._started_s >= _HANGING_S:
            self._says_hanging = True
            self._say(f"the file system of {self._start.directory}, or of its program, doesn't answer yet")
        return True

    @property
    def _ran_before(self) -> bool:
        """Return True if an earlier start of the workload began its command."""
        return self._start.environment.get(RESTARTS, "0") != "0"

    def watch(self) -> None:
        """Watch until nothing of the pod is left."""
        again_s = _AGAIN_S
        while self._reap():
            left_s = None if self._kill_at is None else self._kill_at - time.monotonic()
            if left_s is not None and left_s <= 0:
                self._kill()
                left_s = again_s
                again_s = min(2 * again_s, _AGAIN_MAX_S)
            if _wait(_sooner(left_s, self._output.due_s())) == signal.SIGTERM:
                self._stop()
            self._output.look()
        self._output.look(last=True)
        for cgroup in self._cgroups:
            _end_entered(cgroup)
            cgroup.remove()
        leftovers.remove(self._own)
        os.close(self._log)  # a deleted one occupies a full disk, on which the exit must be written

    def ended(self) -> dict[str, object]:
        """Return the record of the outcome."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = self._status
        return {
            "code": None if status is None or os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "stopped": self._stopped,
            "lost": self._lost,
            "error": self._problem,
            "out_of_memory": self._usage.ran_out,
            "memory_limit": self._usage.memory_limit,
            "memory_peak": self._usage.memory_peak,
            "started_s": self._started_s,
            "cpu_s": used.ru_utime + used.ru_stime,
            "max_rss": used.ru_maxrss * 1024,
        }

    def _reap(self) -> bool:
        """Collect exited processes; return True if any are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._leader and self._status is None:
                self._leader_gone(status)

    def _leader_gone(self, status: int) -> None:
        self._status = status
        if problem := leftovers.problem(self._own):
            self._problem = printable(problem, pod_records.SENTENCE_MAX)
            # Its image may have been removed, or its registry not answer
            self._lost = self._ran_before and status == leftovers.AGAIN << 8
        self._usage.read()
        if self._usage.ran_out:
            self._say(_out_of_memory(self._usage))
        if self._usage.pids_refused:
            self._say("it was refused more processes or threads than a pod may have here (--pids-max)")
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._start.grace_s
            self._tell_what_is_left()
        elif self._stopped:
            self._tell_orphans()

    def _say(self, sentence: str) -> None:
        """Write a sentence into the pod's output."""
        line = f"weir: {printable(sentence, pod_records.SENTENCE_MAX)}\n"
        with suppress(OSError):
            os.write(self._log, line.encode(errors="replace"))

    def _stop(self) -> None:
        """Stop on request: notice to the group, and an end to its time."""
        text = start_files.read(self._files.stop)
        grace_s = pod_records.parse_grace(text)
        if grace_s is None:
            grace_s = self._start.grace_s
        job_files.make_file(self._own, pod_files.STOP, text or b"{}")
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        if self._status is None and self._leader > 0:
            self._stopped = True
            with suppress(ProcessLookupError):
                os.killpg(self._leader, signal.SIGTERM)
                os.killpg(self._leader, signal.SIGCONT)  # a stopped process gets signals only after SIGCONT
        else:
            self._tell_what_is_left()

    def _tell_what_is_left(self) -> None:
        if _has_children():
            for pid in pod_files.descendants(os.getpid()):
                _tell(pid)

    def _tell_orphans(self) -> None:
        """Send the stop signal to orphans in other process groups than the leader's.

        For example, a runtime that is stopped while it starts its container ends alone and leaves the
        container.
        An orphan passes the signal on to its children.
        """
        for pid in pod_files.children(os.getpid()):
            with suppress(ProcessLookupError):
                if os.getpgid(pid) != self._leader:
                    _tell(pid)

    def _kill(self) -> None:
        for cgroup in self._cgroups:
            cgroup.kill()
        for pid in pod_files.descendants(os.getpid()):
            _signal(pid, signal.SIGKILL)


def _end_entered(cgroup: cgroups.Cgroup) -> None:
    """End processes that entered the group of a pod from outside, such as those of `weir exec`."""
    for _ in range(_ENTERED_KILLS_MAX):
        if not cgroup.processes():
            return
        cgroup.kill()
        time.sleep(_AGAIN_S)


def _open(own: str, *, shared: bool) -> tuple[int, int]:
    """Open the job's own directory and its output; the descriptors stay valid if names change."""
    place = job_files.open_directory(own)
    if not isinstance(place, int):
        raise _DirectoryUnusable(_why(place, own))
    log = job_files.open_file(own, pod_files.LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if not isinstance(log, int):
        raise _DirectoryUnusable(_why(log, own))
    if shared:
        os.fchmod(log, _GROUP_READS)
        job_files.make_file(place, pod_files.NOTES, b"", _GROUP_READS)
    os.set_blocking(log, True)  # the job inherits it as output, and expects a blocking file
    return place, log


def _why(place: UnreadableFile | None, own: str) -> str:
    return f"its own directory {own} is gone." if place is None else f"in {own}: {place.sentence}"


def _sooner(one_s: float | None, other_s: float | None) -> float | None:
    times = [time_s for time_s in (one_s, other_s) if time_s is not None]
    return min(times, default=None)


def _wait(most_s: float | None) -> int:
    """Wait for the next signal; return 0 if none comes in time."""
    if most_s is None:
        return signal.sigwaitinfo(SIGNALS).si_signo
    got = signal.sigtimedwait(SIGNALS, max(0.0, most_s))
    return 0 if got is None else got.si_signo


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _tell(pid: int) -> None:
    _signal(pid, signal.SIGTERM)
    _signal(pid, signal.SIGCONT)  # a stopped process gets signals only after SIGCONT


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _out_of_memory(usage: GroupUsage) -> str:
    if usage.memory_limit:
        return "it used more memory than it asked for, and was ended"
    return "the machine ran out of memory, and it was ended"
