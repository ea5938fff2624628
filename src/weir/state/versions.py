"""Versions of queues: the number of changes of each queue, by its position.

They are adjacent in memory, so the few changed queues are found without reading each object.
"""

from array import array
from typing import TypeAlias

import numpy as np

Versions: TypeAlias = "array[int]"
"""Versions by position; `versions[:]` is a copy."""


def versions_of(queues: int, first: int = 0) -> Versions:
    """Return the first versions of this many queues."""
    return array("q", [first]) * queues


def changed_since(now: Versions, before: Versions) -> list[int]:
    """Return the positions at which versions differ, in order; both lists have equal length."""
    assert len(now) == len(before), "versions of the same queues"
    changed: list[int] = np.flatnonzero(np.asarray(now) != np.asarray(before)).tolist()
    return changed
