"""Warnings and evictions in the output of the affected jobs, where people look first.

Log threads write them, with the same care as for all files of a job.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from weir.local.files import job_files
from weir.local.pods.running_pods import RunningPod
from weir.local.records import pod_files, pod_records
from weir.local.server.output.pod_logs import submit_log_work
from weir.model.plain_text import printable
from weir.store.notifications.rules import topics_of
from weir.store.records import HistoryEvent

WRITTEN = frozenset(("warning", "idle", "eviction"))
"""Topics of events that are written."""


def write_warnings(events: Iterable[HistoryEvent], running: Callable[[], Iterable[RunningPod]]) -> None:
    """Write each warning into the output of the workload's running pods, and an eviction where pods stop."""
    told: dict[int, list[tuple[str, bool]]] = {}
    for event in events:
        topics = topics_of(event)
        if event.uid is not None and WRITTEN & topics:
            told.setdefault(event.uid, []).append((event.sentence, "eviction" in topics))
    if not told:
        return
    for pod in running():
        for sentence, is_eviction in told.get(pod.uid, ()):
            if pod.stopping or not is_eviction:  # other pods of an elastic workload continue
                submit_log_work(write_line, pod.directory, sentence)


def write_line(directory: str, sentence: str) -> None:
    """Append a line of Weir's to the output of a start; nothing happens where that can't be written."""
    line = f"weir: {printable(sentence, pod_records.SENTENCE_MAX)}\n"
    with suppress(OSError):
        fd = job_files.open_file(pod_files.own_directory(directory), pod_files.LOG, os.O_WRONLY | os.O_APPEND)
        if isinstance(fd, int):
            try:
                os.write(fd, line.encode(errors="replace"))
            finally:
                os.close(fd)
