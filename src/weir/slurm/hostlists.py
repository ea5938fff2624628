"""Lists of hosts: `n[1-3,08-10],login` and its names."""

import re
from collections.abc import Sequence

from weir.slurm.errors import SlurmError

HOSTS_MAX = 65_536
_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d+)", re.ASCII | re.DOTALL)


def expand_hosts(text: str) -> list[str]:
    """Return the names of a list.

    Raises:
        SlurmError: it is no list of hosts.
    """
    names: list[str] = []
    if ",".join(_PART.findall(text)) != text:
        raise _wrong(text)
    for part in _PART.findall(text):
        names += _expanded(part, text)
        if len(names) > HOSTS_MAX:
            raise SlurmError(f"the list has more than {HOSTS_MAX} hosts: write several lists")
    return names


def _expanded(part: str, whole: str) -> list[str]:
    literal, *rest = _GROUP.split(part)
    names = [literal]
    for ranges, text in zip(rest[::2], rest[1::2], strict=True):
        numbers = _numbers(ranges, whole)
        if len(numbers) * len(names) > HOSTS_MAX:
            raise SlurmError(f"the list has more than {HOSTS_MAX} hosts: write several lists")
        names = [f"{name}{number}{text}" for name in names for number in numbers]
    return names


def _numbers(ranges: str, whole: str) -> list[str]:
    """Return the numbers of a group such as 1-3,08-10."""
    numbers: list[str] = []
    for part in ranges.split(","):
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            raise _wrong(whole)
        first, last = bounds[1], bounds[2] or bounds[1]
        if int(last) < int(first) or int(last) - int(first) > HOSTS_MAX:
            raise _wrong(whole)
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        if len(numbers) > HOSTS_MAX:
            raise SlurmError(f"the list has more than {HOSTS_MAX} hosts: write several lists")
    return numbers


def fold_hosts(names: Sequence[str]) -> str:
    """Return names as a short list: numbers in a row become a range."""
    groups: dict[tuple[str, int], list[int]] = {}
    order: list[tuple[str, int] | str] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            order.append(name)
            continue
        width = len(match[2]) if match[2].startswith("0") else 0
        key = (match[1], width)
        if key not in groups:
            groups[key] = []
            order.append(key)
        groups[key].append(int(match[2]))
    return ",".join(part if isinstance(part, str) else _folded(*part, groups[part]) for part in order)


def _folded(prefix: str, width: int, numbers: Sequence[int]) -> str:
    folded = folded_numbers(numbers, width)
    return f"{prefix}{folded}" if len(numbers) == 1 else f"{prefix}[{folded}]"


def folded_numbers(numbers: Sequence[int], width: int = 0) -> str:
    """Return rising numbers with their runs folded, such as `0-3,6`, each filled with zeros to a width."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(_run(run, width) for run in runs)


def _run(run: Sequence[int], width: int) -> str:
    first, last = str(run[0]).zfill(width), str(run[-1]).zfill(width)
    return first if len(run) == 1 else f"{first}-{last}"


def _wrong(text: str) -> SlurmError:
    return SlurmError(f"{text!r} is no list of hosts: write one such as n[1-4,7],login")
