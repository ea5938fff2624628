"""Rungs of a sweep inside a trial. Outside a sweep, these functions do nothing.

A trial has reached a rung with its first report of the metric at the rung's step or after it. Then it is to
save its state and leave. A script that asks `weir.stopping()` leaves by itself. Any other one waits, once its
state is saved, for the notice to stop: it would train steps that nothing keeps.

On a cluster the results go into the termination message of the container, and no notice comes. A trial
that is saved at a rung and doesn't ask ends by itself, and so does one that trains on after the last rung.

This module uses only the standard library: a job must never fail because of its pool.
"""

import math
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from weir.sweeps.trial_message import Reached, message_of

NOTICE_S_MAX = 30.0
"""Time for which a trial waits for the notice to stop, because its pool may be restarting."""
_LOOK_EVERY_S = 0.02


class SweepRungs:
    """Remaining rungs of a trial in this process. Empty outside a sweep.

    `reached_step` is the step at which it reached one; None if it has reached none.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.metric = variables.get("WEIR_SWEEP_METRIC", "")
        self._message_path = variables.get("WEIR_SWEEP_MESSAGE", "")
        self._reached: list[Reached] = []
        self._left: list[int] = []
        try:
            target = int(variables.get("WEIR_SWEEP_RUNG", "0"))
            words = variables.get("WEIR_SWEEP_RUNGS", "")
            self._left = [rung for rung in map(int, words.split(",") if words else ()) if rung >= target]
        except ValueError:
            self.metric = ""
        self.reached_step: int | None = None
        self._saved_step: int | None = None
        self._is_saved = False
        self._asks = False

    def report(self, step: int | None, values: Mapping[str, object]) -> bool:
        """Record the values of a report; return True if the report reached a rung."""
        if step is None or self.metric not in values:
            return False
        if not self._left:
            self._end_past_last(step)
            return False
        if step < self._left[0]:
            return False
        self._left = [rung for rung in self._left if rung > step]
        self.reached_step = step
        if self._message_path:
            self._write_message(step, values[self.metric])
        self._is_saved = self._saved_step is not None and self._saved_step >= step
        return True

    def _end_past_last(self, step: int) -> None:
        """End a trial on a cluster that trains on after the last rung; elsewhere the pool stops it."""
        if self._message_path and self.reached_step is not None and step > self.reached_step:
            raise SystemExit(0)

    def _write_message(self, step: int, value: object) -> None:
        """Write all results of this process into the termination message."""
        number = math.nan
        with suppress(Exception):  # of a tensor, too
            number = float(value)  # type: ignore[arg-type]  # a tensor of one element, too
        self._reached.append((step, number if math.isfinite(number) else None))
        with suppress(OSError):
            fd = os.open(self._message_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(message_of(self._reached))

    def saved(self, step: int | None) -> None:
        """Record that the state is saved."""
        self._saved_step = step
        self._is_saved = self._is_saved or self.reached_step is not None

    @property
    def is_reached(self) -> bool:
        """Return True once the trial has reached a rung: such a script ends by itself."""
        self._asks = self._asks or self.reached_step is not None
        return self.reached_step is not None

    def await_notice(self, has_notice: Callable[[], bool]) -> None:
        """Wait for the notice to stop if the trial is saved at a rung, and doesn't end by itself.

        On a cluster it ends here.

        At the last rung the script ends by itself, so nothing waits there. The signal follows the notice: a
        script that doesn't handle it would begin a step before it is ended.
        """
        if not self._is_saved or self._asks or not self._left:
            return
        self._is_saved = False  # wait once only, and continue if the pool doesn't answer
        if self._message_path:
            raise SystemExit(0)
        until_s = time.monotonic() + NOTICE_S_MAX
        while time.monotonic() < until_s:
            if has_notice() and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                return
            time.sleep(_LOOK_EVERY_S)


def rungs_of_this_process() -> SweepRungs:
    """Return the rungs of the trial that this process belongs to."""
    return SweepRungs(os.environ)
