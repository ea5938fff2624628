"""Numbers as the page should write them: written again here, so that a fault of the page shows."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
NOTHING = "\u2013"


def _rounded(value: float, digits: int) -> Decimal:
    return Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def number(value: float) -> str:
    text = f"{_rounded(value, 2):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(value: float, noun: str) -> str:
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def percent(part: float) -> str:
    return f"{_rounded(100 * part, 0)} %"


def hours(gpu_s: float) -> str:
    value = gpu_s / 3600
    return f"{_rounded(value, 1 if value < 100 else 0):,f}"


def brief(seconds: float) -> str:
    unit, size = next((each for each in UNITS if seconds >= each[1]), UNITS[-1])
    value = seconds / size
    text = f"{_rounded(value, 1 if value < 10 and size > 1 else 0):,f}"
    return f"{text.removesuffix('.0')}{unit}"


def both(times: dict[str, Any]) -> str:
    if not times["count"]:
        return NOTHING
    mark = "≈ " if times["rounded"] else ""
    return mark + " / ".join(
        NOTHING if each is None else brief(each) for each in (times["p50_s"], times["p90_s"])
    )


def span(seconds: float) -> str:
    whole = max(0, int(seconds + 0.5))
    if whole < 60:
        return f"{whole}s"
    at = next(at for at, (_, size) in enumerate(UNITS) if whole >= size)
    (unit, size), (next_unit, less) = UNITS[at : at + 2]
    first, second = whole // size, whole % size // less
    return f"{first}{unit} {second}{next_unit}" if second and first < 10 else f"{first}{unit}"


def size(value: float) -> str:
    units = ["PiB", "TiB", "GiB", "MiB", "KiB", "B"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop()
    whole = value >= 100 or units[-1] == "B"
    return f"{_rounded(value, 0) if whole else str(_rounded(value, 1)).removesuffix('.0')} {units[-1]}"


def or_nothing(value: float | None, write: Any = number) -> str:
    return NOTHING if value is None else write(value)
