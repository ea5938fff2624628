"""Processes of a pool's jobs, by their control groups: whether its server runs or not."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SUPERVISORS = "supervisors"
_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
_LOOK_S = 0.2


class PoolProcesses(NamedTuple):
    """Process ids of a pool, and the ids of the workloads that have processes.

    While the server runs, the node process is among the supervisors.
    """

    supervisors: frozenset[int] = frozenset()
    jobs: frozenset[int] = frozenset()
    workloads: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.supervisors or self.jobs)


def pool_processes(home: Path, proc: Path = _PROC) -> PoolProcesses:
    """Return the processes in the control groups of the pool with this home.

    In version 1, a job without a limit stays in the group of supervisors of that controller. In another
    hierarchy it has a group of its own.
    """
    name = _group_name(home)
    if not name:
        return PoolProcesses()
    supervisors: set[int] = set()
    jobs: set[int] = set()
    workloads: set[str] = set()
    for directory in proc.iterdir():
        if directory.name.isdigit():
            for group in _groups(directory):
                below = group.partition(f"/{name}/")[2]
                if below == SUPERVISORS:
                    supervisors.add(int(directory.name))
                elif below:
                    jobs.add(int(directory.name))
                    workloads.add(below.partition(".")[0])
    return PoolProcesses(frozenset(supervisors - jobs), frozenset(jobs), frozenset(workloads))


def remove_groups(home: Path, groups: Path = _GROUPS) -> None:
    """Remove the control groups of a pool that has ended; one that is in use stays."""
    name = _group_name(home)
    if not name:
        return
    for folder, _, _ in os.walk(groups, topdown=False):
        if name in Path(folder).parts:
            with suppress(OSError):
                Path(folder).rmdir()


def end_jobs(home: Path, within_s: float) -> PoolProcesses:
    """End all jobs of a pool whose server is stopped, each with its notice; return the remaining processes.

    A supervisor that gets SIGTERM tells its pod to stop and records the end: a later server finds it.
    """
    until_s = time.monotonic() + within_s
    told: set[int] = set()
    while (remaining := pool_processes(home)) and time.monotonic() < until_s:
        for pid in remaining.supervisors - told:
            told.add(pid)
            _terminate(pid, home)
        time.sleep(_LOOK_S)
    return remaining


def _terminate(pid: int, home: Path) -> None:
    """Send SIGTERM to a supervisor, and to no process that got its number since."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            if pid in pool_processes(home).supervisors:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)


def _group_name(home: Path) -> str:
    """Return the name of the control group of the pool with this home; empty if there is no home."""
    try:
        status = home.stat()
    except FileNotFoundError:
        return ""
    return f"weir-{status.st_dev:x}-{status.st_ino:x}"


def _groups(directory: Path) -> Iterator[str]:
    with suppress(OSError):
        for line in (directory / "cgroup").read_text("utf-8", "replace").splitlines():
            yield line.split(":", 2)[-1]
