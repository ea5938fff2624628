"""Records: immutable data classes for objects made by the million, such as facts and effects.

The type checker forbids changes, as for a frozen dataclass. Creating a frozen dataclass takes three times as
long, because it bypasses its own guard for each field.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

RecordType = TypeVar("RecordType")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, order: bool = False) -> Callable[[type[RecordType]], type[RecordType]]:
    """Return a decorator for a data class with slots that is read-only by type and hashable."""
    return dataclass(slots=True, unsafe_hash=True, order=order)
