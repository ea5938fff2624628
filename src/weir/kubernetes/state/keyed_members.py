"""Mappings that drop a key with its last member."""

from typing import Any


def keep(those: dict[Any, Any], key: Any, value: Any) -> None:
    """Set the value of a key; None removes it."""
    if value is None:
        those.pop(key, None)
    else:
        those[key] = value


def drop(those: dict[Any, set[str]], key: Any, member: str) -> None:
    """Remove a member of a set, and the set with its last member."""
    members = those.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del those[key]
