"""Mappings that drop a key with its last member, or with its count."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep(those: dict[K, V], key: K, value: V | None) -> None:
    """Set the value of a key; None removes it."""
    if value is None:
        those.pop(key, None)
    else:
        those[key] = value


def count_down(counts: dict[K, int], key: K, by: int = 1) -> None:
    """Lower a count, which is removed at 0."""
    counts[key] -= by
    if not counts[key]:
        del counts[key]


def drop(those: dict[K, set[V]], key: K, member: V) -> None:
    """Remove a member of a set, and the set with its last member."""
    members = those.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del those[key]
