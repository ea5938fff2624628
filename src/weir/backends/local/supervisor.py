"""One supervisor per started pod: starts its process, stops it when told, writes how it ended.

It outlives the server. It adopts whatever the pod's processes leave behind (as the kernel's
"child subreaper"), so nothing escapes it by forking away, and it ends when nothing is left.
The pod is over when its first process is: what that leaves behind is told to stop.

Standard library only; runs in a fork of the nursery.
"""

import ctypes
import os
import resource
import signal
import stat
import time
from contextlib import suppress
from typing import Any

from weir.backends.local import cgroups, pods
from weir.backends.local.output import Output

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""What a shell answers for a command that isn't there, and for one that can't be run."""
_SUBREAPER = 36
_AGAIN_S = 0.05
_AGAIN_MOST_S = 1.0
"""How long until what was killed is looked at again; processes in the kernel's hands die late."""
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
    lock = pods.take_lock(directory)
    if lock is None:
        return
    start = pods.read(directory, pods.START)
    if start is None or pods.has(directory, pods.EXIT):
        return
    try:
        pods.sign(lock)
        supervisor = Supervisor(directory, start)
        supervisor.start()
    except OSError as failure:
        _write_exit(directory, {"code": None, "error": f"It could not be started: {failure.strerror}."})
        return
    supervisor.watch()
    _write_exit(directory, supervisor.ended())


def _write_exit(directory: str, ended: dict[str, object]) -> None:
    """Say how it ended, though the disk be full for a while: until then it isn't known to be over."""
    while True:
        try:
            pods.write(directory, pods.EXIT, {"at_s": time.time(), **ended})
        except FileNotFoundError:
            return  # the pool's home is gone, and with it whoever would want to know
        except OSError:
            time.sleep(_FULL_DISK_S)
        else:
            return


class _NotSpawnable(Exception):
    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Supervisor:
    """The processes of one pod."""

    def __init__(self, directory: str, start: dict[str, Any]) -> None:
        self._directory = directory
        self._start = start
        self._cgroups = [cgroups.Cgroup(*words) for words in start["cgroups"]]
        self._leader = -1
        self._status: int | None = None  # of the leader, once it is gone
        self._stopped = False  # told to stop before the leader was gone
        self._started_s = 0.0
        self._kill_at: float | None = None  # on the monotonic clock
        self._output = Output(f"{directory}/{pods.LOG}", start.get("log_most", 0))

    def start(self) -> None:
        """Start the command, unless it was told to stop before."""
        if pods.has(self._directory, pods.STOP):
            self._stopped = True
            return
        self._cgroups = [cgroup for cgroup in self._cgroups if cgroup.make()]
        log = os.open(
            f"{self._directory}/{pods.LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._started_s = time.time()
        try:
            self._leader = self._spawn(log)
        except _NotSpawnable as failure:
            self._say(str(failure))
            self._status = failure.code << 8
            return
        finally:
            os.close(log)
        _prefer_to_end(self._leader)
        running = {
            "supervisor": os.getpid(),
            "leader": self._leader,
            "leader_ticks": pods.started_ticks(self._leader),
            "started_s": self._started_s,
            "cgroups": [cgroup.path for cgroup in self._cgroups],
        }
        with suppress(OSError):  # for those who look; it runs all the same, and the lock says who we are
            pods.write(self._directory, pods.RUNNING, running, synced=False)

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
        """How it ended."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = self._status
        return {
            "code": None if status is None or os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "stopped": self._stopped,
            "out_of_memory": any(cgroup.ran_out for cgroup in self._cgroups),
            "started_s": self._started_s,
            "cpu_s": used.ru_utime + used.ru_stime,
            "max_rss": used.ru_maxrss * 1024,
        }

    def _spawn(self, log: int) -> int:
        """Start the command where it belongs; its process.

        A child is born in the groups of its parent, so this process visits them for that moment.
        """
        start = self._start
        command, environment = start["command"], start["environment"]
        try:
            os.chdir(start["directory"])
        except OSError as failure:
            raise _NotSpawnable(
                NOT_RUNNABLE, f"the directory {start['directory']}: {failure.strerror}"
            ) from None
        program = _found(command[0], environment.get("PATH", os.defpath))
        self._cgroups = [cgroup for cgroup in self._cgroups if cgroup.join()]
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
            raise _NotSpawnable(NOT_FOUND, f"{command[0]} was not found") from None
        except (OSError, ValueError) as failure:
            raise _NotSpawnable(NOT_RUNNABLE, f"{command[0]} could not be started: {failure}") from None
        finally:
            for cgroup in self._cgroups:
                cgroup.leave()
            os.chdir("/")

    def _reap(self) -> bool:
        """Take in what exited; whether anything is left."""
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
                self._say("it used more memory than it asked for, and was ended")
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._start["grace_s"]
            self._tell_what_is_left()

    def _say(self, sentence: str) -> None:
        """To whoever reads the pod's log."""
        with suppress(OSError):
            log = os.open(f"{self._directory}/{pods.LOG}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.write(log, f"weir: {sentence}\n".encode(errors="replace"))
            finally:
                os.close(log)

    def _stop(self) -> None:
        """Told to stop: notice to the group, and an end to its time."""
        said = pods.read(self._directory, pods.STOP) or {}
        grace_s = said.get("grace_s", self._start["grace_s"])
        assert isinstance(grace_s, int | float)
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
            for pid in pods.descendants(os.getpid()):
                _signal(pid, signal.SIGTERM)
                _signal(pid, signal.SIGCONT)

    def _kill(self) -> None:
        for cgroup in self._cgroups:
            cgroup.kill()
        for pid in pods.descendants(os.getpid()):
            _signal(pid, signal.SIGKILL)


def _sooner(one_s: float | None, other_s: float | None) -> float | None:
    times = [each for each in (one_s, other_s) if each is not None]
    return min(times, default=None)


def _wait(most_s: float | None) -> int:
    """The next signal for us; 0 if none comes in time."""
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


def _found(command: str, path: str) -> str:
    """The file a command means, by the path of the environment it is to have."""
    if "/" in command:
        return command
    for directory in path.split(os.pathsep):
        candidate = f"{directory or '.'}/{command}"
        if os.access(candidate, os.X_OK) and not stat.S_ISDIR(os.stat(candidate).st_mode):
            return candidate
    raise _NotSpawnable(NOT_FOUND, f"{command} was not found")


def _prefer_to_end(pid: int) -> None:
    with suppress(OSError):
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, _OOM_ADJUST)
        finally:
            os.close(fd)
