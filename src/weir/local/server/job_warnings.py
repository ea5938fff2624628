"""Warnings in the output of the affected jobs, where people look first.

Log threads write them, with the same care as for all files of a job.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from weir.control.idle_lifecycle import IDLE_SUSPENDED, PROTECTION_LOST
from weir.local import job_files, pod_files, pod_records
from weir.local.running_pods import RunningPod
from weir.local.server.pod_logs import submit_log_work
from weir.store import HistoryEvent

WARNING = "_warning"
"""Suffix of the kinds of events that warn."""


def write_warnings(events: Iterable[HistoryEvent], running: Callable[[], Iterable[RunningPod]]) -> None:
    """Write each warning into the output of the workload's running pods, soon."""
    warnings = {each.uid: each.sentence for each in events if _warns(each)}
    if not warnings:
        return
    for pod in running():
        if pod.uid in warnings:
            submit_log_work(write_line, pod.directory, warnings[pod.uid])


def _warns(event: HistoryEvent) -> bool:
    return event.kind.endswith(WARNING) or event.kind in (PROTECTION_LOST, IDLE_SUSPENDED)


def write_line(directory: str, sentence: str) -> None:
    """Append a line of Weir's to the output of a start; nothing happens where that can't be written."""
    line = f"weir: {pod_records.printable(sentence, pod_records.SENTENCE_MOST)}\n"
    with suppress(OSError):
        fd = job_files.open_file(pod_files.own_directory(directory), pod_files.LOG, os.O_WRONLY | os.O_APPEND)
        if isinstance(fd, int):
            try:
                os.write(fd, line.encode(errors="replace"))
            finally:
                os.close(fd)
