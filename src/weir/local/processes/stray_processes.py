"""End processes of workloads that the database doesn't know, before the pool uses their devices again.

They exist after a backup was restored, or after a pool was recreated over a used home. Workloads submitted
since then may still run under their supervisors.
"""

import signal
import time
from contextlib import suppress

from weir.local.processes.orphan_cleanup import conclude_start, signal_supervisor
from weir.local.processes.pod_processes import PodProcesses
from weir.local.records import pod_files, pod_records
from weir.local.records.pod_records import StartRecord
from weir.local.records.start_files import write_stop
from weir.local.records.state_dir import StateDir

NOTICE_S = 10.0
"""Grace period of stray processes before they are killed."""
_LOOK_S = 0.05


def end_stray_processes(home: StateDir, known_uids: set[int], now_s: float, processes: PodProcesses) -> int:
    """End all starts of pods of other workloads than these; return how many of them ran.

    Raises:
        OSError: some don't end, so their devices aren't free.
    """
    running = [
        directory
        for directory in _starts_of_others(home, known_uids)
        if not _is_over(directory, now_s, processes)
    ]
    for directory in running:
        with suppress(OSError):  # a full disk doesn't prevent the stop
            write_stop(directory, NOTICE_S, "the pool doesn't know it")
        signal_supervisor(directory, signal.SIGTERM, processes)
    until_s = time.monotonic() + NOTICE_S + 1.0
    left = running
    while left and time.monotonic() < until_s:
        time.sleep(_LOOK_S)
        left = [directory for directory in left if not _is_over(directory, now_s, processes)]
    for directory in left:
        signal_supervisor(directory, signal.SIGKILL, processes)
    until_s = time.monotonic() + NOTICE_S
    while left:
        left = [directory for directory in left if not _is_over(directory, now_s, processes)]
        if left and time.monotonic() > until_s:
            raise OSError(f"a process of {left[0]}, which the pool doesn't know, doesn't end: end it by hand")
        time.sleep(_LOOK_S if left else 0.0)
    return len(running)


def _starts_of_others(home: StateDir, known_uids: set[int]) -> list[str]:
    uids = [int(path.name) for path in (home.path / "pods").iterdir() if path.name.isdigit()]
    return [
        home.directory(uid, start, group, index)
        for uid in sorted(set(uids) - known_uids)
        for start, group, index in home.numbers(uid)
    ]


def _is_over(directory: str, now_s: float, processes: PodProcesses) -> bool:
    """Return True if the start is over; without a supervisor its processes are killed here."""
    spec = pod_records.parse_start(pod_files.read(directory, pod_files.START))
    groups = spec.cgroups if isinstance(spec, StartRecord) else ()
    return conclude_start(directory, groups, now_s, processes) is not None
