"""Numbers as text: durations, sizes, percentages and times."""

import re
import time

from weir.model.resources import CPU, GPU, GPU_MODEL_PREFIX, MEMORY, span, written

NOTHING = "-"
_PLACES_MAX = 4
_NODE_FIRST = re.compile(r"[a-z]+ has (?:no GPU with as much free|.+ free, and a pod asks for) ")
"""Start of a reason that begins with the name of a node, which keeps its case."""


def lasting(seconds: float | None) -> str:
    """Return a duration: `2h30m`, `40s`."""
    return NOTHING if seconds is None else span(max(0.0, seconds))


def since(at_s: float | None, now_s: float | None = None) -> str:
    """Return the time since a moment."""
    return NOTHING if at_s is None else lasting((time.time() if now_s is None else now_s) - at_s)


def clock(at_s: float | None, now_s: float | None = None) -> str:
    """Return a local time: `07:12:05` today, `Nov 20 07:12` this year, else with the year."""
    if at_s is None:
        return NOTHING
    now = time.localtime(time.time() if now_s is None else now_s)
    local_time = time.localtime(at_s)
    if local_time[:3] == now[:3]:
        return time.strftime("%H:%M:%S", local_time)
    if local_time.tm_year == now.tm_year:
        return time.strftime("%b %d %H:%M", local_time)
    return time.strftime("%Y-%m-%d %H:%M", local_time)


def moment(at_s: float | None) -> str:
    """Return a complete local time: `2026-11-21 07:12:05`."""
    return NOTHING if at_s is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def number(value: float | None, places: int = 2) -> str:
    """Return a number without trailing zeros: `4`, `0.5`, `1,200`."""
    if value is None:
        return NOTHING
    while value and not round(value, places) and places < _PLACES_MAX:
        places += 1  # a small amount isn't nothing
    rounded = round(value, places)
    return f"{rounded:,.{places}f}".rstrip("0").rstrip(".") if places else f"{rounded:,.0f}"


def gpus_of(amounts: dict[str, float], missing: str) -> str:
    """Return the GPUs among amounts; `missing` where they aren't stated."""
    return number(amounts["gpu"]) if "gpu" in amounts else missing


def size(bytes_: float | None) -> str:
    """Return an amount of memory: `10Gi`."""
    return NOTHING if bytes_ is None else written(MEMORY, int(bytes_))


def percent(part: float | None) -> str:
    """Return a fraction as a percentage: `97 %`."""
    return NOTHING if part is None else f"{100 * part:.0f} %"


def hours(seconds: float | None) -> str:
    """Return device time in hours: `12.5`."""
    return NOTHING if seconds is None else f"{seconds / 3600:,.1f}"


def amount(resource: str, value: float | None) -> str:
    """Return an amount of a resource from an answer of a pool."""
    if value is None:
        return NOTHING
    return size(value) if resource == MEMORY else number(value)


def resource(name: str, value: float) -> str:
    """Return an amount with its resource: `4 GPUs`, `16 cores`, `64Gi memory`."""
    if name == GPU:
        return f"{number(value)} GPU{'' if value == 1 else 's'}"
    if name.startswith(GPU_MODEL_PREFIX):
        return f"{number(value)} {name.removeprefix(GPU_MODEL_PREFIX)}"
    if name == CPU:
        return f"{number(value)} core{'' if value == 1 else 's'}"
    if name == MEMORY:
        return f"{size(value)} memory"
    return f"{number(value)} {name}"


def sentence(text: str, name: str = "") -> str:
    """Return a text as a sentence; a name at its beginning keeps its case."""
    text = " ".join(text.split())
    first = text.partition(" ")[0]
    if first.isalpha() and first.islower() and first != name and not _NODE_FIRST.match(text):
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith((".", "?", "!")) else f"{text}."


def counted(many: int, singular: str, several: str | None = None) -> str:
    """Return a number with its noun: `1 pod`, `4 pods`."""
    return f"{many:,} {singular if many == 1 else several or singular + 's'}"


def ordinal(place: int) -> str:
    """Return an ordinal number: `1st`, `2nd`, `11th`."""
    suffix = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"
