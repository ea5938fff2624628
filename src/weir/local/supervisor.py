"""Supervisor of one pod: starts its process, stops it on request, and records its outcome.

It outlives the server. As the kernel's "child subreaper" it adopts all processes that the pod leaves
behind, so none escapes by forking, and it ends when none is left. The pod is over when its first process
is; the supervisor then stops the remaining ones.

Standard library only; runs in a fork of the fork server.
"""

import ctypes
import os
import resource
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from weir.local import cgroups, job_files, pod_files, pod_records, secret_files, spawn_errors
from weir.local.job_files import UnreadableFile
from weir.local.output import OutputFile
from weir.local.pod_records import StartRecord

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""Exit codes of a shell for a missing command, and for one that isn't executable."""
_SUBREAPER = 36
_AGAIN_S = 0.05
_AGAIN_MOST_S = 1.0
"""Interval of checks after a kill; processes blocked in the kernel die late."""
_FULL_DISK_S = 1.0
_OOM_ADJUST = b"500"
"""Where memory ends and no limit holds, the kernel ends a job before it ends the pool."""

_ALL_SIGNALS = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def supervise(directory: str) -> None:
    """Be the supervisor of the start in this directory, unless it has one or is over."""
    os.setsid()
    _prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGCHLD))
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    lock = pod_files.take_lock(directory)
    if not isinstance(lock, int) or pod_files.has(directory, pod_files.EXIT):
        return
    start = pod_records.parse_start(pod_files.read(directory, pod_files.START))
    if start is None:
        return
    if isinstance(start, UnreadableFile):
        _write_exit(directory, {"lost": True, "error": f"Its spec can't be read: {start.sentence}"})
        return
    try:
        pod_files.sign(lock)
        supervisor = Supervisor(directory, start)
        supervisor.start()
    except _DirectoryUnusable as failure:
        ended = {"code": None, "error": f"It could not be started: {failure}"}
        _write_exit(directory, {"at_s": start.now_s(), **ended})
        return
    except OSError as failure:
        ended = {"code": None, "error": f"It could not be started: {failure.strerror}."}
        _write_exit(directory, {"at_s": start.now_s(), **ended})
        return
    supervisor.watch()
    _write_exit(directory, {"at_s": start.now_s(), **supervisor.ended()})


def _write_exit(directory: str, ended: dict[str, object]) -> None:
    """Say how it ended, though the disk be full for a while: until then it isn't known to be over."""
    while True:
        try:
            pod_files.write(directory, pod_files.EXIT, ended)
        except OSError as failure:
            if not job_files.is_shortage(failure):
                return  # its directory is gone or something else is in its place: the pool sees that itself
            time.sleep(_FULL_DISK_S)
        else:
            return


class _DirectoryUnusable(Exception):
    """The job's own directory, or its output in it, has the wrong type."""


class _NotSpawnable(Exception):
    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Supervisor:
    """The processes of one pod."""

    def __init__(self, directory: str, start: StartRecord) -> None:
        self._directory = directory
        self._start = start
        self._cgroups = [cgroups.Cgroup(*words) for words in start.cgroups]
        self._leader = -1
        self._status: int | None = None  # of the leader, once it is gone
        self._problem: str | None = None  # why the command could not be started
        self._stopped = False  # a stop was requested before the leader exited
        self._started_s = 0.0
        self._kill_at: float | None = None  # on the monotonic clock
        self._own, self._log = _own(directory)
        self._output = OutputFile(self._log, start.log_most)

    def start(self) -> None:
        """Start the command, unless a stop was requested before."""
        if pod_files.has(self._directory, pod_files.STOP):
            self._stopped = True
            return
        self._cgroups = [cgroup for cgroup in self._cgroups if cgroup.make()]
        self._started_s = self._start.now_s()
        try:
            self._leader = self._spawn(self._log)
        except _NotSpawnable as failure:
            self._problem = str(failure)
            self._say(self._problem)
            self._status = failure.code << 8
            return
        _prefer_to_end(self._leader)
        running = {
            "supervisor": os.getpid(),
            "leader": self._leader,
            "leader_ticks": pod_files.started_ticks(self._leader),
            "started_s": self._started_s,
            "cgroups": [cgroup.path for cgroup in self._cgroups],
        }
        with suppress(OSError):  # only for inspection: the pod runs without it, and the lock identifies us
            pod_files.write(self._directory, pod_files.RUNNING, running, synced=False)

    def watch(self) -> None:
        """Until nothing of the pod is left."""
        again_s = _AGAIN_S
        while self._reap():
            left_s = None if self._kill_at is None else self._kill_at - time.monotonic()
            if left_s is not None and left_s <= 0:
                self._kill()
                left_s = again_s
                again_s = min(2 * again_s, _AGAIN_MOST_S)
            if _wait(_sooner(left_s, self._output.due_s())) == signal.SIGTERM:
                self._stop()
            self._output.look()
        self._output.look(last=True)
        for cgroup in self._cgroups:
            cgroup.remove()

    def ended(self) -> dict[str, object]:
        """Return the record of the outcome."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = self._status
        return {
            "code": None if status is None or os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "stopped": self._stopped,
            "error": self._problem,
            "out_of_memory": any(cgroup.ran_out for cgroup in self._cgroups),
            "memory_limit": max((cgroup.memory_limit for cgroup in self._cgroups), default=0),
            "memory_peak": max((cgroup.memory_peak for cgroup in self._cgroups), default=0),
            "started_s": self._started_s,
            "cpu_s": used.ru_utime + used.ru_stime,
            "max_rss": used.ru_maxrss * 1024,
        }

    def _spawn(self, log: int) -> int:
        """Start the command where it belongs; its process.

        A child is born in the groups of its parent, so this process visits them for that moment.
        """
        start = self._start
        command, environment = start.command, _with_secrets(start)
        try:
            os.chdir(start.directory)
        except (OSError, ValueError) as failure:
            problem = _problem(failure)
            self._say(f"the directory {start.directory}: {problem}")
            raise _NotSpawnable(NOT_RUNNABLE, spawn_errors.bad_directory(problem)) from None
        program = _found(command, environment.get("PATH", os.defpath))
        self._cgroups = [cgroup for cgroup in self._cgroups if cgroup.join()]
        own_mask = os.umask(start.umask)
        try:
            return os.posix_spawn(
                program,
                command,
                environment,
                file_actions=(
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ),
                setpgroup=0,
                setsigmask=(),
                setsigdef=_ALL_SIGNALS,  # whatever the server was started with, or Python ignores
            )
        except FileNotFoundError:
            raise _NotSpawnable(NOT_FOUND, spawn_errors.not_found(command)) from None
        except (OSError, ValueError) as failure:
            sentence = spawn_errors.not_runnable(command, _problem(failure))
            raise _NotSpawnable(NOT_RUNNABLE, sentence) from None
        finally:
            os.umask(own_mask)
            for cgroup in self._cgroups:
                cgroup.leave()
            os.chdir("/")

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
        for cgroup in self._cgroups:
            cgroup.see()
            if cgroup.ran_out:
                self._say(_out_of_memory(cgroup))
            if cgroup.pids_refused:
                self._say("it was refused more processes or threads than a pod may have here (--pids-max)")
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._start.grace_s
            self._tell_what_is_left()

    def _say(self, sentence: str) -> None:
        """Write a sentence into the pod's log."""
        line = f"weir: {pod_records.printable(sentence, pod_records.SENTENCE_MOST)}\n"
        with suppress(OSError):
            os.write(self._log, line.encode(errors="replace"))

    def _stop(self) -> None:
        """Told to stop: notice to the group, and an end to its time."""
        text = pod_files.read(self._directory, pod_files.STOP)
        grace_s = pod_records.parse_grace(text)
        if grace_s is None:
            grace_s = self._start.grace_s
        job_files.make_file(self._own, pod_files.STOP, text if isinstance(text, bytes) else b"{}")
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        if self._status is None:
            self._stopped = True
            with suppress(ProcessLookupError):
                os.killpg(self._leader, signal.SIGTERM)
                os.killpg(self._leader, signal.SIGCONT)  # a stopped one gets notice only when it goes on
        else:
            self._tell_what_is_left()

    def _tell_what_is_left(self) -> None:
        if _has_children():
            for pid in pod_files.descendants(os.getpid()):
                _signal(pid, signal.SIGTERM)
                _signal(pid, signal.SIGCONT)

    def _kill(self) -> None:
        for cgroup in self._cgroups:
            cgroup.kill()
        for pid in pod_files.descendants(os.getpid()):
            _signal(pid, signal.SIGKILL)


def _own(directory: str) -> tuple[int, int]:
    """Make and open the job's own directory and its output; the descriptors stay valid if names change."""
    pod_files.make_own(directory)
    own = pod_files.own_directory(directory)
    place = job_files.open_directory(own)
    if not isinstance(place, int):
        raise _DirectoryUnusable(_why(place, own))
    log = job_files.open_file(own, pod_files.LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if not isinstance(log, int):
        raise _DirectoryUnusable(_why(log, own))
    os.set_blocking(log, True)  # the job has it as its output, and need not know how it was opened
    return place, log


def _why(place: UnreadableFile | None, own: str) -> str:
    return f"its own directory {own} is gone." if place is None else f"in {own}: {place.sentence}"


def _with_secrets(start: StartRecord) -> dict[str, str]:
    """Return the environment of the process, with the values of the secrets that the spec names."""
    if start.secrets is None:
        return start.environment
    file, names = start.secrets
    try:
        return {**start.environment, **secret_files.values(file, names)}
    except secret_files.SecretNotSet as failure:
        raise _NotSpawnable(NOT_RUNNABLE, str(failure)) from None
    except OSError as failure:
        raise _NotSpawnable(NOT_RUNNABLE, f"its secrets can't be read: {failure.strerror}") from None


def _sooner(one_s: float | None, other_s: float | None) -> float | None:
    times = [each for each in (one_s, other_s) if each is not None]
    return min(times, default=None)


def _wait(most_s: float | None) -> int:
    """Wait for the next signal; return 0 if none comes in time."""
    signals = (signal.SIGTERM, signal.SIGCHLD)
    if most_s is None:
        return signal.sigwaitinfo(signals).si_signo
    got = signal.sigtimedwait(signals, max(0.0, most_s))
    return 0 if got is None else got.si_signo


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _found(command: Sequence[str], path: str) -> str:
    """Return the file a command means, by the path of the environment it is to have."""
    program = command[0]
    if "/" in program:
        return program
    there = False
    for directory in path.split(os.pathsep):
        candidate = f"{directory or '.'}/{program}"
        if not os.path.isfile(candidate):
            continue
        if os.access(candidate, os.X_OK):
            return candidate
        there = True
    if there:
        raise _NotSpawnable(NOT_RUNNABLE, spawn_errors.not_runnable(command, "permission denied"))
    raise _NotSpawnable(NOT_FOUND, spawn_errors.not_found(command))


def _problem(failure: OSError | ValueError) -> str:
    reason = failure.strerror if isinstance(failure, OSError) else None
    text = reason or str(failure)
    return text[:1].lower() + text[1:]


def _out_of_memory(cgroup: cgroups.Cgroup) -> str:
    if cgroup.memory_limit:
        return "it used more memory than it asked for, and was ended"
    return "the machine ran out of memory, and it was ended"


def _prefer_to_end(pid: int) -> None:
    with suppress(OSError):
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, _OOM_ADJUST)
        finally:
            os.close(fd)
