"""Conclude starts whose supervisors are gone: their processes are killed before they count as over."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from weir.local import cgroups
from weir.local.files import job_files
from weir.local.files.job_files import UnreadableFile
from weir.local.processes.pod_processes import PodProcesses, ProcessesLeft
from weir.local.records import pod_files
from weir.local.records.state_dir import StartOutcome, ended

_LOOKS_MAX = 200
_AGAIN_S = 0.01


def conclude_start(
    directory: str, of_pod: Sequence[cgroups.Words], now_s: float, processes: PodProcesses
) -> StartOutcome | None:
    """Return the outcome of the start in this directory; None if it isn't over.

    An outcome counts only if this process has the lock, and its supervisor signed it and is gone. A start
    whose supervisor is gone without a word, or whose records can't be read, is ended at once, and declared
    lost. A supervisor that still comes finds that it is over.

    Raises:
        OSError: processes remain, or the machine lacks resources.
    """
    lock = pod_files.take_lock(directory)
    if lock is None:
        return None
    if isinstance(lock, UnreadableFile):
        processes.kill_all(directory, of_pod)
        return _lost(lock, now_s)
    try:
        over = ended(directory)
        signer = pod_files.signature(lock)
        if over is not None and signer is not None and not signer.lives():
            processes.remove_groups(directory)
            return over
        if not processes.kill_all(directory, of_pod) and over is not None:
            return over  # no process is left, so any recorded outcome is final
        return _declare_lost(directory, now_s)
    finally:
        os.close(lock)


def kill_with_supervisor(
    directory: str, of_pod: Sequence[cgroups.Words], now_s: float, processes: PodProcesses
) -> None:
    """Kill a start, with its supervisor if that still exists, and declare the start lost.

    Raises:
        OSError: processes remain, or the machine lacks resources.
    """
    for _ in range(_LOOKS_MAX):
        if conclude_start(directory, of_pod, now_s, processes) is not None:
            return
        if not signal_supervisor(directory, signal.SIGKILL, processes):
            processes.kill_all(directory, of_pod)  # the holder of the lock isn't a supervisor
        time.sleep(_AGAIN_S)
    raise ProcessesLeft(f"the supervisor of {directory} doesn't end")


def signal_supervisor(directory: str, number: int, processes: PodProcesses) -> bool:
    """Signal the supervisor of a start; return False if it has none."""
    process = pod_files.open_supervisor(directory)
    if process is None:
        return False
    try:
        with suppress(OSError):  # the node process has ended: the caller retries
            processes.signal_supervisor(process, number)
    finally:
        os.close(process)
    return True


def _declare_lost(directory: str, now_s: float) -> StartOutcome:
    try:
        pod_files.write(directory, pod_files.EXIT, {"lost": True, "at_s": now_s})
    except OSError as failure:
        if job_files.is_shortage(failure):
            raise
        why = f"can't be written ({failure.strerror})"
        return _lost(UnreadableFile(pod_files.EXIT, why), now_s)
    return StartOutcome(now_s, lost=True)


def _lost(record: UnreadableFile, now_s: float) -> StartOutcome:
    return StartOutcome(now_s, lost=True, error=f"Its records can't be used: {record.sentence}")
