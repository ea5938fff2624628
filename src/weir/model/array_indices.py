"""Indices of an array, as people write them: `0-499`, `1-100:5` in steps, `1,3,7`, and `%20` for a limit."""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

INDEX_MAX = 9_999_999
SIZE_MAX = 100_000
"""Indices of one array."""
_LENGTH_MAX = 4096
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_LIMIT = re.compile(r"\d{1,9}", re.ASCII)
_NAME = re.compile(r"(?P<array>[^\[\]]+)\[(?P<index>0|[1-9]\d{0,8})\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArrayIndices:
    """Indices in ascending order, each once. `step` is the step of a single range, else 1.

    A pool holds those of all arrays that aren't over, so they take little memory.
    """

    indices: Sequence[int]
    step: int = 1
    at_once: int | None = None  # maximum of indices running at a time; None: no maximum

    def __len__(self) -> int:
        return len(self.indices)


@lru_cache(maxsize=64)
def read_indices(written: str) -> ArrayIndices:
    """Return the indices of a text such as `1-500%20`.

    Raises:
        ValueError: it can't be read, or has too many indices.
    """
    text = "".join(written.split())
    shown = written if len(written) <= 60 else f"{written[:60]}..."
    if len(text) > _LENGTH_MAX:
        raise ValueError(f"{shown!r} is too long: write ranges such as 0-499")
    listed, limited, limit = text.partition("%")
    parts = listed.split(",")
    indices: set[int] = set()
    count, step = 0, 1
    for part in parts:
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{shown!r} can't be read: write indices such as 0-499, 1-100:5 or 1,3,7")
        first, last = int(match[1]), int(match[2] or match[1])
        step = int(match[3] or 1)
        _check_range(first, last, step)
        count += (last - first) // step + 1  # duplicates count: reading them takes time, too
        if count > SIZE_MAX:
            raise ValueError(f"{shown!r} has more than {SIZE_MAX:,} indices: write several arrays")
        indices.update(range(first, last + 1, step))
    at_once = _at_once(limit, shown) if limited else None
    if len(parts) == 1:
        return ArrayIndices(range(first, last + 1, step), step, at_once)
    return ArrayIndices(array("I", sorted(indices)), 1, at_once)


def _check_range(first: int, last: int, step: int) -> None:
    if last < first:
        raise ValueError(f"{first}-{last} goes down: write {last}-{first}")
    if last > INDEX_MAX:
        raise ValueError(f"{last} is too large for an index: write at most {INDEX_MAX}")
    if step == 0:
        raise ValueError("a step of 0 goes nowhere: write 1 or more after the colon")
    if (last - first) // step >= SIZE_MAX:
        count = (last - first) // step + 1
        raise ValueError(f"{first}-{last} has {count:,} indices: write at most {SIZE_MAX:,}")


def _at_once(limit: str, shown: str) -> int:
    if _LIMIT.fullmatch(limit) is None or int(limit) == 0:
        raise ValueError(f"{shown!r} has no number after %: write how many run at once, such as 0-499%20")
    return int(limit)


def index_name(array: str, index: int) -> str:
    """Return the name of the workload of one index."""
    return f"{array}[{index}]"


def split_name(name: str) -> tuple[str, int] | None:
    """Return the array and the index of an index's name; None for another name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match["array"], int(match["index"]))
