"""Times of `--begin`, as sbatch reads them: now+2hours, 16:00, teatime, 2026-12-01T18:00, 12/01/26-18:00."""

import re
from datetime import date, datetime, timedelta
from datetime import time as time_of_day

from weir.slurm.errors import SlurmError

_NAMED = {
    "midnight": time_of_day(0),
    "elevenses": time_of_day(11),
    "noon": time_of_day(12),
    "fika": time_of_day(15),
    "teatime": time_of_day(16),
}
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604_800}
_SPAN = re.compile(r"now([+-])(\d{1,9})([a-z]*)", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))? ?([ap]m)?", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"(\d{1,2})[/.](\d{1,2})(?:[/.](\d{2}|\d{4}))?|(\d{2})(\d{2})(\d{2})", re.ASCII)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{1,2}:\d{2}(?::\d{2})?)?", re.ASCII)
_FORMS = "write a time such as now+2hours, 16:00, tomorrow or 2026-12-01T18:00"


def begin_moment(text: str, now: datetime) -> datetime | None:
    """Return the time before which a job doesn't start; None if it is past.

    Raises:
        SlurmError: it is no time.
    """
    try:
        begin = _moment(text.strip(), now)
    except (ValueError, OverflowError):
        begin = None
    if begin is None:
        raise SlurmError(f"--begin={text}: is no time: {_FORMS}")
    return begin if begin > now else None


def _moment(text: str, now: datetime) -> datetime | None:
    if text.lower() == "now":
        return now
    if match := _SPAN.fullmatch(text):
        size = _unit(match[3].lower())
        return None if size is None else now + timedelta(seconds=int(f"{match[1]}{match[2]}") * size)
    if _ISO.fullmatch(text):
        day, _, clock = text.partition("T")
        return _local_time(date.fromisoformat(day), _clock(clock) if clock else time_of_day(0))
    return _day_and_time(text, now)


def _unit(word: str) -> int | None:
    """Return the seconds of a unit; a number alone is in seconds; None if the unit is unknown."""
    return 1 if not word else _UNITS.get(word.removesuffix("s") or word)


def _day_and_time(text: str, now: datetime) -> datetime | None:
    """Return a day, a time of day, or both in either order; None if the text is neither."""
    day: date | None = None
    clock: time_of_day | None = None
    for word in re.split(r"\s+(?![ap]m\b)|(?<=\d)-(?=\d)", text, flags=re.IGNORECASE):
        word_date = _date(word, now)
        if word_date is not None and day is None:
            day = word_date
        elif word_date is None and clock is None:
            clock = _NAMED[word] if word in _NAMED else _clock(word)
        else:
            return None
    if day is None:
        assert clock is not None
        today = _local_time(now.date(), clock)
        return today if today > now else _local_time(now.date() + timedelta(days=1), clock)
    return _local_time(day, clock or time_of_day(0))


def _date(word: str, now: datetime) -> date | None:
    """Return a day; None if the word is none."""
    if word in ("today", "tomorrow"):
        return now.date() + timedelta(days=word == "tomorrow")
    match = _DATE.fullmatch(word)
    if match is None:
        return None
    month, day, year = match.group(1, 2, 3) if match[1] else match.group(4, 5, 6)
    if year is not None:
        return date(int(year) + (2000 if len(year) == 2 else 0), int(month), int(day))
    this_year = date(now.year, int(month), int(day))
    return this_year if this_year >= now.date() else this_year.replace(year=now.year + 1)


def _clock(word: str) -> time_of_day:
    """Return a time of day.

    Raises:
        ValueError: the text is no time of day.
    """
    match = _TIME.fullmatch(word)
    if match is None:
        raise ValueError(word)
    hour, half = int(match[1]), (match[4] or "").lower()
    if half and not 1 <= hour <= 12:
        raise ValueError(word)
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time_of_day(hour, int(match[2]), int(match[3] or 0))


def _local_time(day: date, clock: time_of_day) -> datetime:
    """Return a time of this machine's zone, whose offset then may differ from that of today."""
    return datetime.fromtimestamp(datetime.combine(day, clock).timestamp()).astimezone()
