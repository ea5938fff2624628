"""Kill the processes that a dead supervisor left behind, before its start counts as over.

The control group knows every process. Without one, processes are found by what they inherited: their
environment names the job's own directory, which no other pod of any pool has, and their session is the
supervisor's.
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from weir.control.port import PodExit
from weir.local import cgroups, job_files, pod_files
from weir.local.job_files import UnreadableFile
from weir.local.state_dir import StartOutcome, ended

_LOOKS_MOST = 200
_AGAIN_S = 0.01
_SESSION_AT = 3


class ProcessesLeft(OSError):
    """Processes are left that could not be ended."""


def kill_all(directory: str, of_pod: Sequence[cgroups.Words]) -> bool:
    """End every process of a start whose supervisor is gone; True if there were any.

    Raises:
        NotEnded: some don't end.
    """
    groups = [cgroups.Cgroup(*words) for words in of_pod]
    mark = f"WEIR_POD_DIRECTORY={pod_files.own_directory(directory)}".encode(errors="surrogateescape")
    session = _session(directory)
    for looks in range(_LOOKS_MOST):
        for group in groups:
            group.kill()
        left = [pid for pid in pod_files.processes() if _belongs(pid, mark, session)]
        left += [pid for group in groups for pid in group.processes()]
        if not left:
            for group in groups:
                group.remove()
            return looks > 0
        for pid in left:
            _end(pid, mark, session)
        time.sleep(_AGAIN_S)
    raise ProcessesLeft(f"{len(left)} processes of {directory} don't end")


def _session(directory: str) -> int:
    """Return the session of the start's processes; 0 if the number may belong to another session by now."""
    supervisor = pod_files.signed(directory)
    if supervisor is None or supervisor.boot != pod_files.boot():
        return 0
    return supervisor.pid if pod_files.started_ticks(supervisor.pid) in {None, supervisor.ticks} else 0


def _belongs(pid: int, mark: bytes, session: int) -> bool:
    fields = pod_files.stat_of(pid)
    if fields is None or fields[0] in {b"Z", b"X"}:
        return False
    return (session > 0 and int(fields[_SESSION_AT]) == session) or mark in _environment(pid)


def _environment(pid: int) -> list[bytes]:
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    text = b""
    try:
        while more := os.read(fd, 1 << 16):
            text += more
    except OSError:
        return []
    finally:
        os.close(fd)
    return text.split(b"\0")


def _end(pid: int, mark: bytes, session: int) -> None:
    with suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if _belongs(pid, mark, session):  # it is still the one we looked at
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def conclude_start(directory: str, of_pod: Sequence[cgroups.Words], now_s: float) -> StartOutcome | None:
    """Return the outcome of the start in this directory; None if it isn't over.

    An outcome counts only if this process has the lock, and its supervisor signed it and is gone. A start
    whose supervisor is gone without a word, or whose records can't be read, is ended here and now, and
    declared lost: a supervisor that should still come finds that it is over.

    Raises:
        OSError: processes remain, or the machine lacks resources.
    """
    lock = pod_files.take_lock(directory)
    if lock is None:
        return None
    if isinstance(lock, UnreadableFile):
        kill_all(directory, of_pod)
        return _lost(lock, now_s)
    try:
        over = ended(directory)
        signer = pod_files.signature(lock)
        if over is not None and signer is not None and not signer.lives():
            return over
        if not kill_all(directory, of_pod) and over is not None:
            return over  # no process is left, whatever wrote the outcome
        return _declare_lost(directory, now_s)
    finally:
        os.close(lock)


def kill_with_supervisor(directory: str, of_pod: Sequence[cgroups.Words], now_s: float) -> None:
    """End a start with its supervisor, if it has one still, and declare it lost.

    Raises:
        OSError: processes remain, or the machine lacks resources.
    """
    for _ in range(_LOOKS_MOST):
        if conclude_start(directory, of_pod, now_s) is not None:
            return
        supervisor = pod_files.signed(directory)
        if supervisor is not None and supervisor.lives():
            with suppress(ProcessLookupError):
                os.kill(supervisor.pid, signal.SIGKILL)
        else:
            kill_all(directory, of_pod)  # the holder of the lock is not a supervisor
        time.sleep(_AGAIN_S)
    raise ProcessesLeft(f"the supervisor of {directory} doesn't end")


def _declare_lost(directory: str, now_s: float) -> StartOutcome:
    try:
        pod_files.write(directory, pod_files.EXIT, {"lost": True, "at_s": now_s})
    except OSError as failure:
        if job_files.is_shortage(failure):
            raise
        why = f"can't be written ({failure.strerror})"
        return _lost(UnreadableFile(pod_files.EXIT, why), now_s)
    return StartOutcome(PodExit.LOST, now_s)


def _lost(record: UnreadableFile, now_s: float) -> StartOutcome:
    return StartOutcome(PodExit.LOST, now_s, error=f"Its records can't be used: {record.sentence}")
