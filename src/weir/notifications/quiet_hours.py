"""Quiet hours: a time of the day, on the wall clock of this machine, without messages."""

import re
from datetime import datetime, time, timedelta

_WRITTEN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


def read_quiet_hours(written: str) -> tuple[time, time] | None:
    """Return the beginning and the end; None for no quiet hours.

    Raises:
        ValueError: they can't be read.
    """
    if not written:
        return None
    match = _WRITTEN.fullmatch(written)
    hours = match and tuple(map(int, match.groups()))
    if not hours or hours[:2] == hours[2:]:
        raise ValueError(
            f"{written!r} is no time of the day; write a beginning and an end, such as 22:00-07:00"
        )
    return time(hours[0], hours[1]), time(hours[2], hours[3])


def quiet_for_s(written: str, wall_s: float) -> float:
    """Return the seconds until quiet hours end; 0 outside of them."""
    hours = read_quiet_hours(written)
    if hours is None:
        return 0.0
    begin, end = hours
    now = datetime.fromtimestamp(wall_s)  # noqa: DTZ006 - of this machine's zone
    is_quiet = begin <= now.time() < end if begin < end else not end <= now.time() < begin
    if not is_quiet:
        return 0.0
    ends = datetime.combine(now.date(), end)
    if ends <= now:
        ends += timedelta(days=1)
    return ends.timestamp() - wall_s  # a night with a clock change has another length
