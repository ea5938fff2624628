"""Amounts of Slurm: counts, memory, time limits and ranges of nodes."""

import re

from weir.slurm.errors import SlurmError

_MEMORY = re.compile(r"(\d+)([kmgt]?)b?", re.ASCII | re.IGNORECASE)
_KIB_OF = {"k": 1, "": 1 << 10, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}
_COUNT = re.compile(r"(\d+)([km]?)", re.ASCII | re.IGNORECASE)
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20}
_NUMBERS = re.compile(r"\d{1,9}", re.ASCII)
_ENDLESS = ("unlimited", "infinite", "-1", "0")
DIGITS_MAX = 18
"""Longest number that is read."""


def whole(text: str, option: str, least: int = 1) -> int:
    """Return a whole number.

    Raises:
        SlurmError: the text is no whole number, or the number is below `least`.
    """
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX or int(text) < least:
        raise SlurmError(f"--{option}={text}: write a whole number from {least}, such as --{option}=4")
    return int(text)


def memory_mib(text: str, option: str) -> int:
    """Return memory in MiB, rounded up; a number without a unit is in MiB.

    Raises:
        SlurmError: it is no memory.
    """
    match = _MEMORY.fullmatch(text)
    if match is None or len(match[1]) > DIGITS_MAX:
        raise SlurmError(f"--{option}={text}: write a whole number with K, M, G or T, such as --{option}=16G")
    kib = int(match[1]) * _KIB_OF[match[2].lower()]
    return -(-kib // 1024)


def limit_minutes(text: str) -> int | None:
    """Return a time limit in minutes, rounded up; None for no limit.

    Accepted are minutes, minutes:seconds, hours:minutes:seconds, and days-hours with optional minutes and
    seconds.

    Raises:
        SlurmError: the text has none of these forms.
    """
    if text.lower() in _ENDLESS:
        return None
    days, parted, rest = text.rpartition("-")
    fields = (rest or "0").split(":") if parted else rest.split(":")
    if len(fields) > 3 or any(_NUMBERS.fullmatch(field) is None for field in (*fields, days or "0")):
        forms = "minutes, hours:minutes:seconds or days-hours, such as 90, 12:00:00 or 2-12"
        raise SlurmError(f"--time={text}: write {forms}")
    numbers = [int(field) for field in fields]
    if parted:
        hours, minutes, rest_s = [*numbers, 0, 0][:3]
    else:
        hours, minutes, rest_s = {1: [0, *numbers, 0], 2: [0, *numbers], 3: numbers}[len(numbers)]
    total_s = int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest_s
    return -(-total_s // 60) or None


def node_range(text: str) -> tuple[int, int]:
    """Return the least and the largest number of nodes.

    Raises:
        SlurmError: it is no range.
    """
    least, parted, most = text.partition("-")
    numbers = [_nodes(part) for part in ([least, most] if parted else [least])]
    if None in numbers:
        raise SlurmError(f"--nodes={text}: write a number or a range, such as --nodes=1 or --nodes=2-4")
    low, high = numbers[0] or 0, numbers[-1] or 0
    if high < low:
        raise SlurmError(f"--nodes={text}: ends before it begins: write the smaller number first")
    return low, high


def _nodes(text: str) -> int | None:
    match = _COUNT.fullmatch(text)
    return int(match[1]) * _FACTOR[match[2].lower()] if match and len(match[1]) < 10 else None
