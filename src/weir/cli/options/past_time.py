"""Times in the past: how long ago, or a date."""

import re
import time
from datetime import datetime

_WITHOUT_UNIT = re.compile(r"[+-]?([0-9]*[1-9][0-9]*)", re.ASCII)


def past_time(option: str, written: str) -> float:
    """Return a time as seconds since 1970: an age, with or without a sign, or a time in ISO 8601.

    Raises:
        ValueError: the text isn't a time, or it has no unit; the message says what to write.
    """
    from weir.model.resources import seconds

    if number := _WITHOUT_UNIT.fullmatch(written):
        right = f"how long ago, such as {number[1]}d, {number[1]}h or {number[1]}m"
        raise ValueError(f"{option} {written!r} has no unit: write {right}")
    try:
        return time.time() - abs(seconds(written))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(written).timestamp()
    except ValueError:
        right = "how long ago, such as 7d or 12h, or a date such as 2026-11-01"
        raise ValueError(f"{option} {written!r} is no time: write {right}") from None


def since_time(written: str) -> float:
    """Return the time of --since.

    Raises:
        ValueError: the text isn't a time, or it is in the future.
    """
    found_s = past_time("--since", written)
    if found_s > time.time():
        raise ValueError(f"--since {written!r} is in the future: write an earlier time")
    return found_s
