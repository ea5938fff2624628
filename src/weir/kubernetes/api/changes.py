"""Changes of objects, as a reflector passes them to its receivers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from weir.kubernetes.api.managed_namespaces import ManagedNamespaces
from weir.kubernetes.api.objects import Metadata


class HasMetadata(Protocol):
    """Any object of the API."""

    @property
    def metadata(self) -> Metadata:
        """Return the metadata that every object has."""


T = TypeVar("T", bound=HasMetadata)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ObjectSet(Generic[T]):
    """An object is new or changed."""

    key: str
    object: T


@dataclass(frozen=True, slots=True)
class ObjectRemoved:
    """An object was deleted."""

    key: str
    uid: str


@dataclass(frozen=True, slots=True)
class ObjectUnreadable:
    """An object exists or has changed, but its content doesn't have the expected form."""

    key: str
    uid: str
    sentence: str
    body: Any = None  # the object as plain values, if that can be read


Change = ObjectSet[T] | ObjectRemoved | ObjectUnreadable
Deliver = Callable[[Sequence[Change[Any]]], None]


def keep(changes: Sequence[Change[T]], kept: dict[str, Value], value: Callable[[T], Value]) -> None:
    """Apply changes to a mapping with a value for each existing object; unreadable ones keep their value."""
    for change in changes:
        if isinstance(change, ObjectSet):
            kept[change.key] = value(change.object)
        elif isinstance(change, ObjectRemoved):
            kept.pop(change.key, None)


def to_both(first: Deliver | None, second: Deliver) -> Deliver:
    """Return a callback that hands changes to both callbacks, or to the second alone without a first."""
    if first is None:
        return second
    see = first

    def deliver(changes: Sequence[Change[Any]]) -> None:
        see(changes)
        second(changes)

    return deliver


def only_in(managed: ManagedNamespaces, see: Deliver) -> Deliver:
    """Return a callback that hands on the changes to objects of managed namespaces alone."""
    if managed.are_all:
        return see
    return lambda changes: see([change for change in changes if change.key.partition("/")[0] in managed])
