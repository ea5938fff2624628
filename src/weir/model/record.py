"""How nouns are declared that are made by the million: facts, effects, and what they name.

The type checker lets nobody change one, as with a frozen dataclass. But a frozen dataclass is made by going
around its own guard, field by field, which takes three times as long.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

RecordType = TypeVar("RecordType")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, order: bool = False) -> Callable[[type[RecordType]], type[RecordType]]:
    """A dataclass with slots that nothing may change once it is made; it may be a key."""
    return dataclass(slots=True, unsafe_hash=True, order=order)
