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
import sys
import time
from contextlib import suppress
from typing import Any

from weir.backends.local import cgroups, pods

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""What a shell answers for a command that isn't there, and for one that can't be run."""
_SUBREAPER = 36
_AGAIN_S = 0.05
"""How long until what was killed is looked at again; processes in the kernel's hands die late."""
_FULL_DISK_S = 1.0
_OOM_ADJUST = b"500"
"""Where memory ends and no limit holds, the kernel ends a job before it ends the pool."""

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def supervise(directory: str) -> None:
    """Be the supervisor of the start in this directory, unless it has one or is over."""
    os.setsid()
    _prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGCHLD))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
        except OSError:
            time.sleep(_FULL_DISK_S)
        else:
            return


class Supervisor:
    """The processes of one pod."""

    def __init__(self, directory: str, start: dict[str, Any]) -> None:
        self._directory = directory
        self._start = start
        self._cgroups = [cgroups.Cgroup(*words) for words in start["cgroups"]]
        self._leader = 0
        self._status: int | None = None  # of the leader, once it is gone
        self._stopped = False  # told to stop before the leader was gone
        self._started_s = 0.0
        self._kill_at: float | None = None  # on the monotonic clock

    def start(self) -> None:
        """Start the command, unless it was told to stop before."""
        if pods.has(self._directory, pods.STOP):
            self._stopped = True
            return
        self._cgroups = [cgroup for cgroup in self._cgroups if cgroup.make()]
        log = os.open(
            f"{self._directory}/{pods.LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        pods.write(self._directory, pods.RUNNING, {"supervisor": os.getpid()}, synced=False)
        self._started_s = time.time()
        self._leader = os.fork()
        if self._leader == 0:
            self._become_the_job(log)
        with suppress(OSError):  # whoever is first of the two; later it has become the job
            os.setpgid(self._leader, self._leader)
        os.close(log)
        running = {
            "supervisor": os.getpid(),
            "leader": self._leader,
            "leader_ticks": pods.started_ticks(self._leader),
            "started_s": self._started_s,
        }
        with suppress(OSError):  # it runs already, and the first writing of it said enough to find it
            pods.write(self._directory, pods.RUNNING, running, synced=False)

    def watch(self) -> None:
        """Until nothing of the pod is left."""
        while self._reap():
            left_s = None if self._kill_at is None else self._kill_at - time.monotonic()
            if left_s is not None and left_s <= 0:
                self._kill()
                left_s = _AGAIN_S
            if _wait(left_s) == signal.SIGTERM:
                self._stop()
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

    def _become_the_job(self, log: int) -> None:
        """In the child: never returns."""
        code = NOT_RUNNABLE
        start = self._start
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.setpgid(0, 0)
            for cgroup in self._cgroups:
                cgroup.join()
            _prefer_to_end()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)  # Python ignores them; a job expects them
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.chdir(start["directory"])
            command = start["command"]
            os.execvpe(command[0], command, start["environment"])  # noqa: S606 - a shell is what it must not have
        except FileNotFoundError as failure:
            code = NOT_FOUND
            _say(f"{failure.filename} was not found")
        except (OSError, ValueError) as failure:
            _say(f"the command could not be started: {failure}")
        finally:
            os._exit(code)

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
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._start["grace_s"]
            self._tell_what_is_left()

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


def _prefer_to_end() -> None:
    with suppress(OSError):
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, _OOM_ADJUST)
        finally:
            os.close(fd)


def _say(sentence: str) -> None:
    """To the pod's log."""
    sys.stderr = None
    with suppress(OSError):
        os.write(2, f"weir: {sentence}\n".encode(errors="replace"))
