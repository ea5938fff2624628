"""Objects that are nested thousands of levels deep: they are marked by name, and all others of a list are read."""

import json
import random
from typing import Any

import pytest

from weir.kubernetes.api.decoding import ListPage, UndecodedObject, events_of, read, read_list, read_object
from weir.kubernetes.api.deep_objects import CUT, TOO_DEEP, cut
from weir.kubernetes.api.errors import InvalidResponse
from weir.kubernetes.api.objects import ApiObject

DEPTHS = (1_100, 9_000)
"""Levels: more than a decoder takes, and about the most that an API server takes."""


def deep(levels: int, name: str = "deep") -> bytes:
    inside = b'{"a":[' * (levels // 2) + b'"}] \\" \\\\"' + b"]}" * (levels // 2)
    metadata = json.dumps({"name": name, "namespace": "team", "uid": "u", "resourceVersion": "7"}).encode()
    return b'{"spec":' + inside + b',"apiVersion":"v1","kind":"X","metadata":' + metadata + b"}"


PLAIN = b'{"apiVersion":"v1","kind":"X","metadata":{"name":"plain","namespace":"team","uid":"v"}}'


@pytest.mark.parametrize("levels", DEPTHS)
@pytest.mark.parametrize("object_type", [ApiObject, dict[str, Any]])
def test_a_list_with_a_deep_object_has_all_others(levels: int, object_type: Any) -> None:
    body = b'{"metadata":{"resourceVersion":"9"},"items":[' + b",".join([PLAIN, deep(levels), PLAIN]) + b"]}"
    (first, unread, last), metadata = read_list(body, object_type)
    assert metadata.resource_version == "9"
    assert first == last == read(PLAIN, object_type)
    assert isinstance(unread, UndecodedObject)
    assert unread.sentence == TOO_DEEP
    named = unread.api_object.metadata
    assert (named.name, named.namespace, named.uid, named.resource_version) == ("deep", "team", "u", "7")
    assert ListPage([unread], "9").items


@pytest.mark.parametrize("levels", DEPTHS)
def test_an_event_of_a_deep_object_is_one_of_an_unreadable_object(levels: int) -> None:
    lines = [b'{"type":"ADDED","object":' + body + b"}" for body in (PLAIN, deep(levels), PLAIN)]
    (events,) = events_of(lines)
    assert [event.is_cut for event in events] == [False, True, False]
    item = read_object(events[1].object, ApiObject, is_cut=events[1].is_cut)
    assert isinstance(item, UndecodedObject)
    assert (item.api_object.metadata.name, item.sentence) == ("deep", TOO_DEEP)


def test_one_deep_object_by_itself_is_an_error_of_the_api() -> None:
    with pytest.raises(InvalidResponse, match="levels deep"):
        read(deep(9_000), ApiObject)


def test_a_cut_leaves_everything_else_as_it_was() -> None:
    chance = random.Random(1)

    def value(levels: int) -> Any:
        if not levels or chance.random() < 0.2:
            return chance.choice(['"', "\\", "{[", "]}", 'a\\"b', 1, None, True, "ü\n"])
        several = [value(levels - 1) for _ in range(chance.randrange(4))]
        return several if chance.random() < 0.5 else {f"k{at}{{": one for at, one in enumerate(several)}

    def without(one: Any, levels: int) -> Any:
        if not isinstance(one, list | dict):
            return one
        if not levels:
            return json.loads(CUT)
        if isinstance(one, list):
            return [without(part, levels - 1) for part in one]
        return {key: without(part, levels - 1) for key, part in one.items()}

    for _ in range(300):
        made, levels = value(6), chance.randrange(1, 5)
        assert json.loads(cut(json.dumps(made).encode(), levels)) == without(made, levels)
