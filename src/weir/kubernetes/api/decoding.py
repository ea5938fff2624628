"""Bytes into objects: lists, events of a watch, and what to do with those that don't look as they should.

An object that can't be read is no reason to lose the others: it is told apart, with its name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from weir.kubernetes.api.answers import ApiError, Garbled, Status, refusal_of
from weir.kubernetes.api.objects import Metadata, Narrow, Object

T = TypeVar("T")


class Ignored(Struct, gc=False):
    """An answer of which nothing matters but that it came."""


@dataclass(frozen=True, slots=True)
class Unread:
    """An object that doesn't look as it should."""

    of: Object
    sentence: str
    body: Any = None  # all of it, as plain values, where that much can be read


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """Part of a list. All pieces show the same moment."""

    items: Sequence[T | Unread]
    resource_version: str
    last: bool


class ListMetadata(Narrow):
    """What a list has in place of an object's metadata."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Listed(Narrow, Generic[T]):
    """A list as it is sent."""

    items: list[T] = msgspec.field(default_factory=list)
    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)


class Marked(Narrow):
    """A bookmark, which has a resource version and nothing else."""

    metadata: ListMetadata


class Event(Struct, gc=False):
    """A change as a watch sends it, its object still to be decoded."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: Raw


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(of: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a type; making one costs as much as a thousand uses."""
    decoder = _decoders.get(of)
    if decoder is None:
        decoder = _decoders[of] = msgspec.json.Decoder(of)
    return decoder


def read(body: bytes | Raw, of: type[T]) -> T:
    """One object."""
    try:
        decoded: T = _decoder(of).decode(body)
    except msgspec.DecodeError as error:
        raise Garbled(f"An answer that isn't a {getattr(of, '__name__', of)}: {error}") from None
    return decoded


def read_list(body: bytes, of: type[T]) -> tuple[Sequence[T | Unread], ListMetadata]:
    """What is in a piece of a list; if it can't be read as a whole, one by one."""
    try:
        listed: Listed[T] = _decoder(Listed[of]).decode(body)  # type: ignore[valid-type]
    except (msgspec.DecodeError, RecursionError):
        rough = read(body, Listed[Raw])
        return [read_object(raw, of) for raw in rough.items], rough.metadata
    return listed.items, listed.metadata


def read_object(raw: Raw, of: type[T]) -> T | Unread:
    """An object, or what is left of one that doesn't look as it should."""
    try:
        decoded: T = _decoder(of).decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return _unread(raw, str(error))
    return decoded


def _unread(raw: Raw, sentence: str) -> Unread:
    """Return as much of an object as tells which one it is.

    Raises:
        Garbled: not even that can be read.
    """
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return Unread(read(raw, Object), sentence)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict):
        raise Garbled(f"An object without metadata: {sentence}")
    words = {name: metadata.get(name) for name in ("name", "namespace", "uid", "resourceVersion")}
    name, namespace, uid, version = (each if isinstance(each, str) else "" for each in words.values())
    return Unread(Object(Metadata(name, uid, namespace, version)), sentence, body)


def events_of(lines: list[bytes]) -> Iterator[list[Event]]:
    """The events of whole lines; one that says what is wrong is raised after those before it."""
    events: list[Event] = []
    wrong: ApiError | None = None
    for line in lines:
        if not line:
            continue
        try:
            event: Event = _decoder(Event).decode(line)
        except msgspec.DecodeError as error:
            wrong = Garbled(f"An event nobody can read: {error}")
            break
        if event.type == "ERROR":
            wrong = refusal_of(read(event.object, Status))
            break
        events.append(event)
    if events:
        yield events
    if wrong is not None:
        raise wrong
