"""Classes for millions of objects behave like frozen dataclasses."""

import dataclasses

import pytest

from weir.model.record import record


@record(order=True)
class Key:
    name: str
    index: int = 0


def test_equal_nouns_are_one_key():
    assert {Key("a", 1): "first"}[Key("a", 1)] == "first"
    assert Key("a") != Key("b")


def test_nouns_are_ordered_by_their_fields():
    assert sorted([Key("b"), Key("a", 2), Key("a", 1)]) == [Key("a", 1), Key("a", 2), Key("b")]


def test_a_noun_has_no_further_attributes():
    with pytest.raises(AttributeError):
        Key("a").size = 3


def test_another_is_made_of_one():
    one = Key("a", 1)
    assert dataclasses.replace(one, index=2) == Key("a", 2)
    assert one == Key("a", 1)
