"""What a killed supervisor left running is ended before its start is declared over.

Its control group knows every process; without one they are found by what the job inherited: its
environment names the pod's directory, which no other pod of any pool has, and its session is the
supervisor's.
"""

import os
import signal
import time
from contextlib import suppress
from typing import Any

from weir.backends.local import cgroups, pods
from weir.backends.local.home import Ended, ended
from weir.control.port import Exit

_LOOKS_MOST = 200
_AGAIN_S = 0.01
_SESSION_AT = 3


class NotEnded(OSError):
    """Processes are left that could not be ended."""


def end_all(directory: str, start: dict[str, Any]) -> None:
    """End every process of a start whose supervisor is gone.

    Raises:
        NotEnded: some don't end.
    """
    groups = [cgroups.Cgroup(*words) for words in start.get("cgroups", ())]
    mark = f"WEIR_POD_DIRECTORY={directory}".encode()
    session = _session(directory)
    for _ in range(_LOOKS_MOST):
        for group in groups:
            group.kill()
        left = [pid for pid in pods.processes() if _belongs(pid, mark, session)]
        left += [pid for group in groups for pid in group.processes()]
        if not left:
            for group in groups:
                group.remove()
            return
        for pid in left:
            _end(pid, mark, session)
        time.sleep(_AGAIN_S)
    raise NotEnded(f"{len(left)} processes of {directory} don't end")


def _session(directory: str) -> int:
    """The session of its processes; 0 if the number may mean another one by now."""
    supervisor = pods.signed(directory)
    if supervisor is None or supervisor.boot != pods.boot():
        return 0
    return supervisor.pid if pods.started_ticks(supervisor.pid) in {None, supervisor.ticks} else 0


def _belongs(pid: int, mark: bytes, session: int) -> bool:
    fields = pods.stat_of(pid)
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


def conclude(directory: str, start: dict[str, Any] | None, now_s: float) -> Ended | None:
    """How the start in this directory ended; None if it isn't over.

    One whose supervisor is gone without a word is ended here and now, and declared lost: a
    supervisor that should still come finds that it is over.

    Raises:
        OSError: what is left of it doesn't end, or it couldn't be written down that it is over.
    """
    over = ended(directory)
    if over is not None:
        return over
    if not pods.has(directory, "."):  # somebody removed it; whoever asks knows of no supervisor
        end_all(directory, start or {})
        return Ended(Exit.LOST, now_s)
    lock = pods.take_lock(directory)
    if lock is None:
        return None
    try:
        over = ended(directory)  # its last word may have come between the two looks
        if over is None:
            end_all(directory, start or {})
            pods.write(directory, pods.EXIT, {"lost": True, "at_s": now_s})
            over = ended(directory)
        return over
    finally:
        os.close(lock)
