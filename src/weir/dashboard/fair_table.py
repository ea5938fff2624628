"""A bounded table of many people: a full one makes space at the cost of the person with the most entries."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

Entry = TypeVar("Entry")


def make_space(entries: dict[str, Entry], most: int, owner: Callable[[Entry], str]) -> None:
    """Delete the oldest entry of the owner with the most entries until one more fits.

    Nothing else would keep a person with many links from ending the sessions of all others.
    """
    while len(entries) >= most:
        owners = {key: owner(entry) for key, entry in entries.items()}
        ((busiest, _),) = Counter(owners.values()).most_common(1)
        del entries[next(key for key, holder in owners.items() if holder == busiest)]
