"""Deadline of a shutdown: after it, the process ends itself and names the parts that hang."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from structlog import get_logger

STOP_S_MAX = 15.0
"""Time from the signal to the forced end of the process. Jobs keep running without it."""
FAILED = 1
_LOG = get_logger(__name__)


class ShutdownDeadline:
    """Deadline of a shutdown. It can't be cancelled: threads may hang until the very end."""

    def __init__(
        self,
        *,
        within_s: float = STOP_S_MAX,
        last: Callable[[], None] = lambda: None,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        """Create a deadline. `last` is called before the process ends itself."""
        self.waits_for = "open requests"
        """Name of the thread, or other part, whose end is awaited now."""
        self._within_s = within_s
        self._last = last
        self._end = end
        self._begun = threading.Event()

    def begin(self) -> None:
        """Count from now on. A second call changes nothing."""
        if not self._begun.is_set():
            self._begun.set()
            threading.Thread(target=self._run, name="weir-deadline", daemon=True).start()

    def _run(self) -> None:
        threading.Event().wait(self._within_s)
        with suppress(Exception):
            _LOG.error("stop_took_too_long", waited_for=self.waits_for, within_s=self._within_s)
        with suppress(Exception):
            self._last()
        self._end(FAILED)
