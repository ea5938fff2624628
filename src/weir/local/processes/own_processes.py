"""Processes of pods that run as the server's own user.

The control group knows every process of a pod. Without one, processes are found by what they inherited:
their environment names the job's own directory, which no other pod of any pool has, and their session is
the supervisor's.
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from weir.local import cgroups
from weir.local.processes.pod_processes import ProcessesLeft
from weir.local.records import pod_files

_LOOKS_MAX = 200
_AGAIN_S = 0.01
_SESSION_AT = 3


class OwnProcesses:
    """Processes of the server's own user, which it signals itself."""

    def signal_supervisor(self, process: int, number: int) -> None:
        """Signal the supervisor of a pidfd, if it is still running."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
            signal.pidfd_send_signal(process, signal.SIGCONT)

    def kill_all(self, directory: str, of_pod: Sequence[cgroups.Words]) -> bool:
        """Kill every process of a start whose supervisor is gone; return True if there were any.

        Raises:
            ProcessesLeft: some don't end.
        """
        groups = [cgroups.Cgroup(*words) for words in of_pod]
        mark = f"WEIR_POD_DIRECTORY={pod_files.own_directory(directory)}".encode(errors="surrogateescape")
        session = _session(directory)
        for looks in range(_LOOKS_MAX):
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

    def enter(self, directory: str, process: int) -> str:  # noqa: ARG002 - a command enters by itself
        """Refuse: in a personal pool a process of its user enters the groups by itself."""
        return "the pool is personal, and its user's processes enter by themselves"

    def remove_groups(self, directory: str) -> None:
        """Do nothing: the supervisor has removed the groups."""


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
        while block := os.read(fd, 1 << 16):
            text += block
    except OSError:
        return []
    finally:
        os.close(fd)
    return text.split(b"\0")


def _end(pid: int, mark: bytes, session: int) -> None:
    with suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if _belongs(pid, mark, session):  # the process id wasn't reused
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
