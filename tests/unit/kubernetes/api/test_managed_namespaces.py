"""Namespaces that an installation manages: which changes are handed on, and which pods are Weir's."""

from typing import Any

from weir.kubernetes.api.changes import Change, ObjectRemoved, only_in
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces


def handed_on(managed: ManagedNamespaces, *keys: str) -> list[str]:
    seen: list[Change[Any]] = []
    only_in(managed, seen.extend)([ObjectRemoved(key, f"uid of {key}") for key in keys])
    return [each.key for each in seen]


def test_changes_in_managed_namespaces_are_handed_on() -> None:
    keys = ("team/a", "teams/a", "other/team", "team/b")
    assert handed_on(ManagedNamespaces(("team",)), *keys) == ["team/a", "team/b"]
    assert handed_on(ALL, *keys) == [*keys]


def test_their_names_are_the_words_of_a_command() -> None:
    assert ALL.words() == []
    assert ManagedNamespaces(("a", "b")).words() == ["--managed-namespaces", "a,b"]
