"""Warnings and evictions in the output of the affected jobs, where people look first.

Log threads write them, with the same care as for all files of a job.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from weir.local import job_files, pod_files, pod_records
from weir.local.running_pods import RunningPod
from weir.local.server.pod_logs import submit_log_work
from weir.store import HistoryEvent
from weir.store.notification_rules import topics_of

WRITTEN = frozenset(("warning", "idle", "eviction"))
"""Topics of events that are written."""


def write_warnings(events: Iterable[HistoryEvent], running: Callable[[], Iterable[RunningPod]]) -> None:
    """Write each warning and eviction into the output of the workload's running pods, soon."""
    sentences: dict[int, list[str]] = {}
    for event in events:
        if event.uid is not None and WRITTEN & topics_of(event):
            sentences.setdefault(event.uid, []).append(event.sentence)
    if not sentences:
        return
    for pod in running():
        for sentence in sentences.get(pod.uid, ()):
            submit_log_work(write_line, pod.directory, sentence)


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
