"""Reports of jobs about themselves: progress, and pulls of images. Any thread may pass them on."""

from collections.abc import Callable

from structlog import get_logger

from weir.control.port import IdleExcused
from weir.local.records.pod_records import BUSY, FETCHES, RUNG, JobMessage
from weir.local.server.home.series_store import REPORTED
from weir.local.server.state.pool_state import PoolState
from weir.local.server.trials.rung_recorder import RungRecorder
from weir.local.server.views.pool_view import PoolView
from weir.local.server.views.reported_progress import ReportedProgress
from weir.model.reasons import as_clause
from weir.state.events import PodKey
from weir.store.records import HistoryEvent

FETCHING_S_MAX = 60.0
_LOG = get_logger(__name__)


class JobReports:
    """Processes the messages of jobs. `wake` lets control store the events."""

    def __init__(self, pool: PoolState, trials: RungRecorder, wake: Callable[[], None]) -> None:
        self._pool = pool
        self._trials = trials
        self._wake = wake

    def noted(self, pod: PodKey, uid: int, message: JobMessage) -> None:
        """Process a message: progress, that an image is fetched, or that the job is busy."""
        pool = self._pool
        if message.kind == FETCHES:
            # Else it was reported before the restart of the server
            if pool.clock() - message.at_s < FETCHING_S_MAX:
                event = _pod_event(pool.view, pod, uid, "image", "it fetches its image.", message.at_s)
                pool.user_events.append(event)
                self._wake()
            return
        if message.kind == BUSY:
            for_s = message.values.get("for_s", 0.0)
            until_s = message.at_s + for_s
            pool.backend.tell(IdleExcused(pod.workload, until_s, message.at_s, why=message.why))
            return
        if self._trials.noted(pod.workload, uid, message):
            self._wake()
        if message.kind == RUNG:
            return  # the report itself is a separate message
        step, values = message.step, message.values
        pool.series.add(uid, message.at_s, {f"{REPORTED}{name}": value for name, value in values.items()})
        progress = pool.reported.get(pod.workload)
        if progress is None or progress.uid != uid:
            progress = pool.reported[pod.workload] = ReportedProgress(uid)
        progress.update(step, values)

    def refused(self, pod: PodKey, uid: int, sentence: str) -> None:
        """Store that something of a pod can't be read, and is passed over."""
        pool = self._pool
        event = _pod_event(pool.view, pod, uid, "unreadable", sentence, pool.clock())
        _LOG.warning("unreadable", workload=pod.workload, why=event.sentence)
        pool.user_events.append(event)
        self._wake()


def _pod_event(view: PoolView, pod: PodKey, uid: int, kind: str, sentence: str, at_s: float) -> HistoryEvent:
    """Return an event about a pod; one whose workload is gone from the view has no project."""
    line = view.workloads.get(pod.workload)
    group = str(pod.group) if line is None else line.spec.groups[pod.group].name
    text = f"Pod {pod.workload}/{group}/{pod.index}: {as_clause(sentence)}"
    project, name = (None, None) if line is None else (line.spec.project, pod.workload)
    return HistoryEvent(at_s, kind, text, uid=uid, workload=name, project=project)
