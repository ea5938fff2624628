"""Timeline over restarts of the server and of the machine: the file `clock.json` of a home.

Within one boot of the machine the timeline follows the boot clock, and changes of the wall clock don't
matter. After another boot only the wall clock can tell how long the machine was off, and it may be wrong. So
the timeline never goes back and never advances by more than AWAY_S_MAX: a wrong clock can't make a history
old enough to be deleted. Time off that this leaves out is kept beside it: no token lives longer by it.
A wall clock behind the last known time says nothing about the time off until it is set.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weir.control.clock import Clock, boot_time
from weir.local.records import pod_files
from weir.local.records.pod_records import parse_object

FILE = "clock.json"
AWAY_S_MAX = 7 * 86400.0
"""The longest time between two boots that counts."""
_LATEST_S = 4e9
"""Latest time that is believed, in the year 2096."""


def resume(
    home: Path,
    *,
    least_s: float | None = None,
    wall: Callable[[], float] = time.time,
    boot: Callable[[], float] = boot_time,
    jumped: Callable[[float], None] = lambda _: None,
) -> Clock:
    """Return the clock of a home, which continues its timeline; `least_s` is a time that it has passed."""
    stored = _stored(home)
    if stored is None:
        starts_s = max(wall(), least_s or 0.0)
        return Clock(starts_s=starts_s, until_s=least_s, wall=wall, boot=boot, jumped=jumped)
    until_s = max(stored.at_s, least_s or 0.0)
    passed_s = boot() - stored.boot_s
    if stored.boot_id == pod_files.boot() and passed_s >= 0:
        clock = Clock(starts_s=max(until_s, stored.at_s + passed_s), wall=wall, boot=boot, jumped=jumped)
        jump_s = clock.ahead_s - (stored.wall_s - stored.at_s)
        clock.leave_out(stored.left_out_s, stored.doubtful_s, stored.behind_s)
        clock.correct(jump_s)
        return clock
    ahead_s = wall() - stored.wall_s
    away_s, behind_s = max(0.0, ahead_s), max(0.0, -ahead_s) or None
    starts_s = max(until_s, stored.at_s + min(away_s, AWAY_S_MAX))
    clock = Clock(starts_s=starts_s, until_s=until_s, wall=wall, boot=boot, jumped=jumped)
    left_out_s = max(0.0, away_s - AWAY_S_MAX)
    clock.leave_out(stored.left_out_s + left_out_s, left_out_s, behind_s)
    return clock


def keep(home: Path, clock: Clock, *, boot: Callable[[], float] = boot_time, synced: bool = False) -> bool:
    """Store the present time of the timeline; return False if the disk is full: a later call stores it."""
    boot_s = boot()
    at_s = clock.at_boot_time(boot_s)
    record: dict[str, object] = {"boot": pod_files.boot(), "boot_s": boot_s, "at_s": at_s}
    record["wall_s"] = clock.on_wall(at_s)  # before the next line: it detects a wall clock that was set
    record |= {"left_out_s": clock.left_out_s, "doubtful_s": clock.doubtful_s, "behind_s": clock.behind_s}
    with suppress(OSError):
        pod_files.write(str(home), FILE, record, synced=synced)
        return True
    return False


@dataclass(frozen=True, slots=True)
class _StoredClock:
    """The last values of `keep`."""

    boot_id: str
    boot_s: float
    at_s: float
    wall_s: float
    left_out_s: float
    doubtful_s: float
    behind_s: float | None


def _stored(home: Path) -> _StoredClock | None:
    """Return the last values of `keep`; None without a valid file."""
    try:
        text = pod_files.read(str(home), FILE)
    except OSError:
        return None
    record = parse_object(text) if isinstance(text, bytes) else None
    if record is None:
        return None
    boot_id = record.get("boot")
    numbers = [record.get(name) for name in ("boot_s", "at_s", "wall_s")]
    values = [value for value in numbers if isinstance(value, float) and 0.0 <= value <= _LATEST_S]
    if not isinstance(boot_id, str) or len(values) != len(numbers):
        return None
    left_out_s, doubtful_s = (_interval(record.get(name)) for name in ("left_out_s", "doubtful_s"))
    behind_s = None if record.get("behind_s") is None else _interval(record.get("behind_s"))
    doubtful_s = min(doubtful_s, left_out_s)
    return _StoredClock(boot_id, values[0], values[1], values[2], left_out_s, doubtful_s, behind_s)


def _interval(value: object) -> float:
    """Return a number of seconds; 0 if the value isn't one, as in a file of an earlier version."""
    return value if isinstance(value, float) and 0.0 <= value <= _LATEST_S else 0.0
