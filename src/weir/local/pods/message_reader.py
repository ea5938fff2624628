"""Read the messages of jobs, each at a bounded rate, and skip unreadable ones."""

import logging
import time
from collections.abc import Callable

from weir.local.files.job_files import UnreadableFile
from weir.local.pods.running_pods import RunningPod
from weir.local.processes.fd_watcher import FdWatcher
from weir.local.records.job_messages import read_messages
from weir.local.records.pod_files import own_directory
from weir.local.records.pod_records import FETCHES, SAVED, JobMessage, TimeBounds
from weir.state.events import PodKey

AGAIN_S = 0.1
"""Minimum time between two reads of a pod's messages, even if its wakeups are more frequent."""
_log = logging.getLogger(__name__)


class JobMessageReader:
    """Reads the messages of starts, in the watcher's thread.

    `saved` receives checkpoints, `noted` each message, `refused` messages that can't be read,
    once for each start.
    """

    def __init__(
        self,
        watch: FdWatcher,
        span: Callable[[RunningPod], TimeBounds],
        saved: Callable[[RunningPod, float], None],
        noted: Callable[[PodKey, int, JobMessage], None],
        refused: Callable[[PodKey, int, str], None],
    ) -> None:
        self._watch = watch
        self._span = span
        self._saved = saved
        self._noted = noted
        self._refused = refused

    def on_wakeup(self, run: RunningPod) -> None:
        """Read the messages of a job that announced new ones."""
        if run.notes_due:
            return
        left_s = run.noted_at_s + AGAIN_S - time.monotonic()
        if left_s <= 0:
            self.read(run)
        else:
            run.notes_due = True
            self._watch.later(left_s, lambda: self.read(run))

    def read(self, run: RunningPod) -> None:
        """Read new messages. A failure costs these messages, never the pod."""
        run.notes_due = False
        run.noted_at_s = time.monotonic()
        try:
            read = read_messages(own_directory(run.directory), run.noted, self._span(run))
        except OSError as failure:
            _log.warning("messages of %s weren't read: %s", run.directory, failure.strerror)
            return
        run.noted = read.position
        if read.unreadable is not None:
            self._refuse(run, read.unreadable)
        saved = [note.at_s for note in read.notes if note.kind == SAVED]
        if saved:
            self._saved(run, max(saved))
        for note in read.notes:
            if note.kind != FETCHES or not run.fetches:  # once by start, however often the job writes it
                run.fetches = run.fetches or note.kind == FETCHES
                self._noted(run.place.pod, run.uid, note)

    def _refuse(self, run: RunningPod, why: UnreadableFile) -> None:
        if not run.complained:
            run.complained = True
            self._refused(run.place.pod, run.uid, f"Its messages are ignored: {why.sentence}")
