"""The timeline of a server: seconds that never jump, and the wall clock's time for showing them.

Every interval, limit, pause and charge is a difference of two times of one timeline. The timeline begins at
the wall clock's time and then follows the boot clock, which can't be set and counts while the machine is
suspended. A time is shown as the wall clock reads it now, so ages stay right after the clock was set.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock

JUMP_S_MIN = 0.1
"""Smallest difference between the clocks that counts as a jump; less is noise of the readings."""
_READING_S_MAX = 0.02
_READINGS = 5


def boot_time() -> float:
    """Return the seconds since the machine's boot, suspended time included where the machine counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def in_utc(epoch_s: float) -> str:
    """Return a time of the wall clock in words: `2026-11-28 22:05 UTC`."""
    return f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%d %H:%M} UTC"


def _nothing(jump_s: float) -> None:
    """Ignore a jump."""


class Clock:
    """A timeline. Calling it returns the time now; all methods are safe from any thread.

    `until_s` is the last known time before this boot; None if the timeline began in this boot. `left_out_s`
    is the time, while the machine was off, that the timeline leaves out. `doubtful_s` is the part of
    `left_out_s` from the last boot. It is uncertain, since a wall clock that was ahead at the boot may still
    be set back.
    `behind_s` is the time by which the wall clock is behind the last known time before this boot; None if it
    wasn't behind at the boot. Once the wall clock is set forward by more, the rest is time off.
    """

    left_out_s = 0.0
    doubtful_s = 0.0
    behind_s: float | None = None

    def __init__(
        self,
        *,
        starts_s: float | None = None,
        until_s: float | None = None,
        wall: Callable[[], float] = time.time,
        boot: Callable[[], float] = boot_time,
        jumped: Callable[[float], None] = _nothing,
    ) -> None:
        """Start a timeline, or continue one at `starts_s`.

        `jumped` is called once for each jump of the wall clock, with its seconds; from any thread.
        """
        self.until_s = until_s
        self._wall = wall
        self._boot = boot
        self._jumped = jumped
        self._lock = Lock()
        self._boot_began_s = boot()
        now_s = wall()
        self._began_s = now_s if starts_s is None else starts_s
        ahead_s = now_s - self._began_s
        self._ahead_s = ahead_s if abs(ahead_s) >= JUMP_S_MIN else 0.0

    def __call__(self) -> float:
        """Return the time now."""
        return self.at_boot_time(self._boot())

    def at_boot_time(self, boot_s: float) -> float:
        """Convert a reading of the boot clock to a time."""
        return self._began_s + (boot_s - self._boot_began_s)

    def boot_time_of(self, at_s: float) -> float:
        """Convert a time to a reading of the boot clock."""
        return self._boot_began_s + (at_s - self._began_s)

    @property
    def ahead_s(self) -> float:
        """The seconds by which the wall clock is ahead of the timeline. Reading it detects jumps."""
        measured_s = self._measured()
        if measured_s is None or abs(measured_s - self._ahead_s) < JUMP_S_MIN:
            return self._ahead_s
        with self._lock:
            jump_s = measured_s - self._ahead_s
            if abs(jump_s) < JUMP_S_MIN:
                return self._ahead_s
            self._ahead_s = measured_s if abs(measured_s) >= JUMP_S_MIN else 0.0
            self.correct(jump_s)
        self._jumped(jump_s)
        return measured_s

    def leave_out(self, left_out_s: float, doubtful_s: float, behind_s: float | None) -> None:
        """Set the time off that is left out, and the time by which the wall clock is behind."""
        self.left_out_s, self.doubtful_s, self.behind_s = left_out_s, doubtful_s, behind_s

    def correct(self, jump_s: float) -> None:
        """Correct the time off that is left out: the wall clock has been set by `jump_s`."""
        if jump_s < 0:
            off_s = -min(-jump_s, self.doubtful_s)
        elif self.behind_s is None:
            return
        else:
            off_s = max(0.0, jump_s - self.behind_s)
        if self.behind_s is not None:
            self.behind_s = max(0.0, self.behind_s - (jump_s - off_s))
        self.left_out_s, self.doubtful_s = self.left_out_s + off_s, self.doubtful_s + off_s

    def with_time_off(self) -> float:
        """Return the time now with all time off. A wall clock that is set back makes it go back."""
        _ = self.ahead_s  # detects that
        return self() + self.left_out_s

    def on_wall(self, at_s: float) -> float:
        """Return a time of the timeline as the wall clock reads it now."""
        return at_s + self.ahead_s

    def from_wall(self, wall_s: float) -> float:
        """Return the time of the timeline at a wall-clock time."""
        return wall_s - self.ahead_s

    def _measured(self) -> float | None:
        """Measure how far the wall clock is ahead; None if every reading was interrupted."""
        for _ in range(_READINGS):
            before_s = self._boot()
            wall_s = self._wall()
            after_s = self._boot()
            if after_s - before_s <= _READING_S_MAX:
                return wall_s - self.at_boot_time((before_s + after_s) / 2)
        return None
