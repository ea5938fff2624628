"""Bytes into objects: lists, and events of a watch. Unreadable objects are reported by name.

An object that can't be read is no reason to lose the others: it is reported separately, with its name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from weir.kubernetes.api.deep_objects import CUT, LEVELS_MAX, TOO_DEEP, cut
from weir.kubernetes.api.errors import ApiError, ApiStatus, InvalidResponse, refusal_of
from weir.kubernetes.api.objects import ApiObject, ApiStruct, Metadata

T = TypeVar("T")


class IgnoredObject(Struct, gc=False):
    """An answer whose content doesn't matter."""


@dataclass(frozen=True, slots=True)
class UndecodedObject:
    """An object that doesn't look as it should."""

    api_object: ApiObject
    sentence: str
    body: Any = None  # the object as plain values, if that can be read


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """Part of a list. All pieces show the same moment."""

    items: Sequence[T | UndecodedObject]
    resource_version: str


class ListMetadata(ApiStruct):
    """Metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListResponse(ApiStruct, Generic[T]):
    """A list as it is sent."""

    items: list[T] = msgspec.field(default_factory=list)
    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)


class BookmarkObject(ApiStruct):
    """A bookmark, which has a resource version and nothing else."""

    metadata: ListMetadata


class WatchEvent(Struct, gc=False):
    """A change as a watch sends it, its object still to be decoded. `is_cut`: it was nested too deeply."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: Raw
    is_cut: bool = False


_LEVELS_OF_LIST, _LEVELS_OF_EVENT = 2, 1
"""Levels of the answer above its objects."""
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(object_type: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type; making one costs as much as a thousand uses."""
    decoder = _decoders.get(object_type)
    if decoder is None:
        decoder = _decoders[object_type] = msgspec.json.Decoder(object_type)
    return decoder


def read(body: bytes | Raw, object_type: type[T]) -> T:
    """Decode one object of the API."""
    try:
        decoded: T = _decoder(object_type).decode(body)
    except msgspec.DecodeError as error:
        raise InvalidResponse(
            f"An answer that isn't a {getattr(object_type, '__name__', object_type)}: {error}"
        ) from None
    except RecursionError:
        raise InvalidResponse(f"An answer that can't be read: {TOO_DEEP}") from None
    return decoded


def read_list(body: bytes, object_type: type[T]) -> tuple[Sequence[T | UndecodedObject], ListMetadata]:
    """Return the objects of a page of a list, decoded one by one if the page can't be read as a whole."""
    try:
        listed: ListResponse[T] = _decoder(ListResponse[object_type]).decode(body)  # type: ignore[valid-type]
    except msgspec.DecodeError:
        rough = read(body, ListResponse[Raw])
        return [read_object(raw, object_type) for raw in rough.items], rough.metadata
    except RecursionError:
        rough = read(cut(body, _LEVELS_OF_LIST + LEVELS_MAX), ListResponse[Raw])
        items = [read_object(raw, object_type, is_cut=CUT in bytes(raw)) for raw in rough.items]
        return items, rough.metadata
    return listed.items, listed.metadata


def read_object(raw: Raw, object_type: type[T], *, is_cut: bool = False) -> T | UndecodedObject:
    """Return an object, or the remains of one that can't be decoded, such as one that is cut off."""
    if is_cut:
        return _unread(raw, TOO_DEEP)
    try:
        decoded: T = _decoder(object_type).decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return _unread(raw, str(error))
    return decoded


def _unread(raw: Raw, sentence: str) -> UndecodedObject:
    """Return enough of an object to identify it.

    Raises:
        InvalidResponse: not even that can be read.
    """
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return UndecodedObject(read(raw, ApiObject), sentence)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict):
        raise InvalidResponse(f"An object without metadata: {sentence}")
    words = {name: metadata.get(name) for name in ("name", "namespace", "uid", "resourceVersion")}
    name, namespace, uid, version = (word if isinstance(word, str) else "" for word in words.values())
    return UndecodedObject(ApiObject(Metadata(name, uid, namespace, version)), sentence, body)


def _event(line: bytes) -> WatchEvent:
    try:
        event: WatchEvent = _decoder(WatchEvent).decode(line)
    except RecursionError:
        event = _decoder(WatchEvent).decode(cut(line, _LEVELS_OF_EVENT + LEVELS_MAX))
        event.is_cut = True
    return event


def events_of(lines: list[bytes]) -> Iterator[list[WatchEvent]]:
    """Yield the events of whole lines; an error event is raised after the events before it."""
    events: list[WatchEvent] = []
    wrong: ApiError | None = None
    for line in lines:
        if not line:
            continue
        try:
            event = _event(line)
        except msgspec.DecodeError as error:
            wrong = InvalidResponse(f"An unreadable event: {error}")
            break
        if event.type == "ERROR":
            wrong = refusal_of(read(event.object, ApiStatus))
            break
        events.append(event)
    if events:
        yield events
    if wrong is not None:
        raise wrong
