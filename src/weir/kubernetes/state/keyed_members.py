"""Mappings that drop a key with its last member."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep(those: dict[K, V], key: K, value: V | None) -> None:
    """Set the value of a key; None removes it."""
    if value is None:
        those.pop(key, None)
    else:
        those[key] = value


def drop(those: dict[K, set[V]], key: K, member: V) -> None:
    """Remove a member of a set, and the set with its last member."""
    members = those.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del those[key]
