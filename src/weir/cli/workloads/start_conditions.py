"""Conditions for the first start of a workload: read from options, and shown."""

import re
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import TYPE_CHECKING

from weir.cli.output.formatting import moment
from weir.model.resources import seconds

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail

_TIME_S_MAX = 1e11
_TIME_OF_DAY = re.compile(r"\d{2}:\d{2}(:\d{2})?", re.ASCII)


def _local_time_s(written: str) -> float:
    """Return the seconds since 1970 of a time in ISO 8601; without an offset it is local.

    Raises:
        ValueError, OverflowError, OSError: the text is no time, or one beyond those that a pool takes.
    """
    at_s = datetime.fromisoformat(written).timestamp()
    if at_s > _TIME_S_MAX:
        raise ValueError("too late")
    return at_s


def begin_time(written: str, now_s: float, option: str = "--begin", origin: str = "now") -> float:
    """Return a start time in seconds since 1970, from ISO 8601, a time of day or a span such as +2h.

    `origin` says which time `now_s` is.

    Raises:
        ValueError: the text has none of these forms; the message names the option and an example.
    """
    text = written.strip()
    try:
        if text.startswith("+"):
            return now_s + seconds(text[1:])
        if _TIME_OF_DAY.fullmatch(text):
            today = datetime.fromtimestamp(now_s).date()  # noqa: DTZ006 - of this machine's zone
            next_time = datetime.combine(today, time_of_day.fromisoformat(text))
            return (next_time if next_time.timestamp() > now_s else next_time + timedelta(days=1)).timestamp()
        return _local_time_s(text)
    except (ValueError, OverflowError, OSError):
        right = f"write 2026-12-01T18:00, 18:00 for the next such time, or +2h from {origin}"
        raise ValueError(f"{option} {written!r} is no time: {right}") from None


def condition_lines(detail: "WorkloadDetail") -> list[tuple[str, str]]:
    """Return the lines of the conditions for its first start."""
    if detail.first_started_s is not None:
        return []
    facts = [] if detail.begin_s is None else [("Begins", moment(detail.begin_s))]
    phrases = [f"{dependency.name} has {dependency.condition}" for dependency in detail.dependencies]
    return [*facts, ("Starts once", ", ".join(phrases))] if phrases else facts
