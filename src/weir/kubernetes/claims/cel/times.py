"""Durations and timestamps of CEL, to the nanosecond."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from weir.kubernetes.claims.cel.overloads import Overload, Overloads
from weir.kubernetes.claims.cel.values import CelError, Duration, Timestamp

_SECOND = 1_000_000_000
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": _SECOND}
_UNITS |= {"m": 60 * _SECOND, "h": 3600 * _SECOND}
_PARTS = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_TEXT_MAX = 256
_NANOSECONDS_MAX = 1 << 63
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the years 1 to 9999."""
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""Days and years after which the calendar repeats."""
_STEPS = 5
_TEXT_STEPS = 40
_ZONE_STEPS = 100
"""Steps for looking a time zone up, which may be a file that doesn't exist."""
_DAY_SECONDS = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"([+-]?[0-9]{1,9}):([+-]?[0-9]{1,9})")


def duration_of(text: str) -> Duration:
    """Return a duration, from a text such as 1h30m or -1.5s.

    Raises:
        CelError: the text is no duration.
    """
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return Duration(0)
    total = position = 0
    while position < len(unsigned) <= _TEXT_MAX:
        match = _PARTS.match(unsigned, position)
        if match is None or not (match[1] or match[2]):
            break
        position = match.end()
        unit, parts = _UNITS[match[3]], (match[2] or "")[:18]
        total += int(match[1] or 0) * unit + int(parts or 0) * unit // 10 ** len(parts)
    if position == 0 or position < len(unsigned):
        raise CelError(f"{text[:_TEXT_MAX]!r} is no duration")
    return _duration(-total if text[0] == "-" else total)


def timestamp_of(text: str) -> Timestamp:
    """Return a time as RFC 3339 writes it.

    Raises:
        CelError: the text is none, or of a year before 1 or after 9999.
    """
    match = _TIME.fullmatch(text) if len(text) <= _TEXT_MAX else None
    try:
        if match is None:
            raise ValueError(text)  # noqa: TRY301
        date = datetime(*map(int, match.groups()[:6]), tzinfo=UTC)  # type: ignore[misc,arg-type]
        hours, minutes = int(match[9] or 0), int(match[10] or 0)
        if hours > 24 or minutes >= 60:
            raise ValueError(text)  # noqa: TRY301
    except ValueError:
        raise CelError(f"{text[:_TEXT_MAX]!r} is no timestamp") from None
    offset = (hours * 60 + minutes) * (-60 if match[8] == "-" else 60)
    seconds = (date - _EPOCH) // timedelta(seconds=1) - offset
    return _timestamp(seconds * _SECOND + int((match[7] or "")[:9].ljust(9, "0")), offset)


def duration_text(duration: Duration) -> str:
    """Return a duration in seconds."""
    seconds, rest = divmod(abs(duration.nanoseconds), _SECOND)
    number = Decimal(repr(float(seconds) + rest / _SECOND)).normalize()
    return f"{'-' if duration.nanoseconds < 0 else ''}{number:f}s"


def timestamp_text(time: Timestamp) -> str:
    """Return a time as RFC 3339 writes it."""
    local = _local(time, time.offset)
    fraction = f".{time.nanoseconds % _SECOND:09}".rstrip("0").rstrip(".")
    sign, minutes = "-" if time.offset < 0 else "+", abs(time.offset) // 60
    zone = f"{sign}{minutes // 60:02}:{minutes % 60:02}" if time.offset else "Z"
    return f"{_year(time, time.offset):04}{local:-%m-%dT%H:%M:%S}{fraction}{zone}"


def added(first: Duration | Timestamp, second: Duration | Timestamp) -> Duration | Timestamp:
    """Return the sum of two durations, or of a timestamp and a duration.

    Raises:
        CelError: it is out of range, or both are timestamps.
    """
    if isinstance(first, Duration) and isinstance(second, Duration):
        return _duration(first.nanoseconds + second.nanoseconds)
    if isinstance(first, Timestamp) and isinstance(second, Timestamp):
        raise CelError("no such overload: timestamp + timestamp")
    offset = first.offset if isinstance(first, Timestamp) else getattr(second, "offset", 0)
    return _timestamp(first.nanoseconds + second.nanoseconds, offset)


def subtracted(first: Duration | Timestamp, second: Duration | Timestamp) -> Duration | Timestamp:
    """Return the difference of two durations or timestamps, or a timestamp less a duration.

    Raises:
        CelError: it is out of range, or a timestamp is subtracted from a duration.
    """
    difference = first.nanoseconds - second.nanoseconds
    if isinstance(second, Timestamp):
        if isinstance(first, Duration):
            raise CelError("no such overload: duration - timestamp")
        return _duration(difference)
    return _timestamp(difference, first.offset) if isinstance(first, Timestamp) else _duration(difference)


def _duration(nanoseconds: int) -> Duration:
    if not -_NANOSECONDS_MAX <= nanoseconds < _NANOSECONDS_MAX:
        raise CelError("duration overflow")
    return Duration(nanoseconds)


def _timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    if not _FIRST_SECOND <= nanoseconds // _SECOND <= _LAST_SECOND:
        raise CelError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def _local(time: Timestamp, offset: int) -> datetime:
    """Return a time with this offset, in years that Python counts."""
    seconds = time.nanoseconds // _SECOND + offset
    day = seconds // _DAY_SECONDS % _CYCLE_DAYS
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day, seconds=seconds % _DAY_SECONDS)


def _year(time: Timestamp, offset: int) -> int:
    seconds = time.nanoseconds // _SECOND + offset
    return _local(time, offset).year + seconds // _DAY_SECONDS // _CYCLE_DAYS * _CYCLE_YEARS


def _offset(time: Timestamp, zone: str) -> int:
    """Return the offset in seconds of a zone, by its name or as hours and minutes."""
    if ":" not in zone:
        instant = min(
            max(time.nanoseconds // _SECOND, _FIRST_SECOND + _DAY_SECONDS), _LAST_SECOND - _DAY_SECONDS
        )
        offset = (_EPOCH + timedelta(seconds=instant)).astimezone(_zone(zone)).utcoffset()
        return int((offset or timedelta(0)).total_seconds())
    match = _OFFSET.fullmatch(zone)
    if match is None:
        raise CelError(f"{zone[:_TEXT_MAX]!r} is no offset from UTC")
    hours, minutes = int(match[1]), int(match[2])
    return (hours * 60 + (-minutes if zone[0] == "-" else minutes)) * 60


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        CelError: no time zone has this name.
    """
    try:
        return ZoneInfo("UTC" if name in ("", "Local") else name if len(name) <= _TEXT_MAX else "")
    except (ValueError, OSError, KeyError):  # not a key, a folder, not found
        raise CelError(f"there is no time zone {name[:_TEXT_MAX]!r}") from None


def _getter(read: Callable[[Timestamp, int], int]) -> tuple[Overload, ...]:
    return (
        Overload((Timestamp,), lambda time: read(time, 0)),
        Overload((Timestamp, str), lambda time, zone: read(time, _offset(time, zone)), steps=_ZONE_STEPS),
    )


def _in(unit: int) -> Overload:
    """Return the overload that counts the whole units of a duration, towards zero."""
    return Overload(
        (Duration,),
        lambda duration: abs(duration.nanoseconds) // unit * (-1 if duration.nanoseconds < 0 else 1),
    )


FUNCTIONS: Overloads = {
    "duration": (
        Overload((str,), duration_of, steps=_STEPS),
        Overload((int,), _duration),
        Overload((Duration,), lambda duration: duration),
    ),
    "timestamp": (
        Overload((str,), timestamp_of, steps=_STEPS),
        Overload((int,), lambda seconds: _timestamp(seconds * _SECOND)),
        Overload((Timestamp,), lambda time: time),
    ),
    "int": (
        Overload((Duration,), lambda duration: duration.nanoseconds),
        Overload((Timestamp,), lambda time: time.nanoseconds // _SECOND),
    ),
    "string": (
        Overload((Duration,), duration_text, steps=_TEXT_STEPS),
        Overload((Timestamp,), timestamp_text, steps=_TEXT_STEPS),
    ),
}
METHODS: Overloads = {
    "getFullYear": _getter(_year),
    "getMonth": _getter(lambda time, offset: _local(time, offset).month - 1),
    "getDayOfYear": _getter(lambda time, offset: _local(time, offset).timetuple().tm_yday - 1),
    "getDayOfMonth": _getter(lambda time, offset: _local(time, offset).day - 1),
    "getDate": _getter(lambda time, offset: _local(time, offset).day),
    "getDayOfWeek": _getter(lambda time, offset: _local(time, offset).isoweekday() % 7),
    "getHours": (*_getter(lambda time, offset: _local(time, offset).hour), _in(3600 * _SECOND)),
    "getMinutes": (*_getter(lambda time, offset: _local(time, offset).minute), _in(60 * _SECOND)),
    "getSeconds": (*_getter(lambda time, offset: _local(time, offset).second), _in(_SECOND)),
    "getMilliseconds": (
        *_getter(lambda time, _: time.nanoseconds % _SECOND // 10**6),
        _in(10**6),
    ),
}
