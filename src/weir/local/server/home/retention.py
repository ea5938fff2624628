"""Retention: delete old history, and the output of workloads that ended long ago.

Checkpoints stay unless the administrator sets a period: they may be the only result of a job.
"""

from collections.abc import Callable
from dataclasses import dataclass

from structlog import get_logger

from weir.local.records.state_dir import StateDir
from weir.store.store import Store

OUTPUT_KEPT_S = 30 * 86400.0
DETAILS_KEPT_S = 30 * 86400.0
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Retention of the remains of ended workloads, in seconds. None: for ever."""

    output_s: float = OUTPUT_KEPT_S
    details_s: float = DETAILS_KEPT_S  # retention of command and environment
    checkpoints_s: float | None = None


class RetentionTask:
    """Tidies a pool's store and home."""

    def __init__(
        self,
        store: Store,
        home: StateDir,
        kept: RetentionSettings | None = None,
        forget: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Create the task; `forget` also deletes other copies of the output of a workload."""
        self._store = store
        self._home = home
        self._kept = kept or RetentionSettings()
        self._forget = forget
        self._output_to_s = 0.0
        self._checkpoints_to_s = 0.0

    def tidy(self, now_s: float) -> None:
        """Delete expired data. Call it every hour; the next call repeats failed deletions."""
        try:
            self._output_to_s = self._forget_output(now_s - self._kept.output_s)
            if self._kept.checkpoints_s is not None:
                self._checkpoints_to_s = self._forget_saved(now_s - self._kept.checkpoints_s)
            for uid in self._store.delete_launch_specs(now_s - self._kept.details_s):
                self._home.delete_start_specs(uid)
            self._store.tidy(now_s)
        except OSError as error:
            _LOG.warning("tidying_failed", why=str(error))

    def _forget_output(self, until_s: float) -> float:
        for uid in self._store.workloads.ended_between(self._output_to_s, until_s):
            self._home.forget(uid)
            self._forget(uid)
        return until_s

    def _forget_saved(self, until_s: float) -> float:
        for uid in self._store.workloads.ended_between(self._checkpoints_to_s, until_s):
            self._home.delete_checkpoints(uid)
        return until_s
