"""Definitions of Weir's kinds: rules that API servers of all supported releases accept."""

from collections.abc import Iterator
from typing import Any

import pytest

from weir.kubernetes.crd.definitions import definitions

KINDS = {each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"] for each in definitions()}


@pytest.mark.parametrize("kind", KINDS)
def test_no_rule_looks_at_each_value_of_a_mapping_or_a_list(kind: str) -> None:
    """Kubernetes 1.31 multiplies the cost of such a rule by the entries, and refuses it for texts of any length."""
    assert [path for path, entries in _rules(KINDS[kind]["openAPIV3Schema"], kind) if entries] == []


def test_rules_are_found() -> None:
    found = [path for kind, schema in KINDS.items() for path, _ in _rules(schema["openAPIV3Schema"], kind)]
    assert {"Department", "Project.spec.times.maxRuntime", "Topology.spec.levels"} <= set(found)


def _rules(schema: dict[str, Any], path: str, *, in_entries: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the path of each rule, with True if a mapping or a list is above it."""
    if "x-kubernetes-validations" in schema:
        yield path, in_entries
    for name, each in schema.get("properties", {}).items():
        yield from _rules(each, f"{path}.{name}", in_entries=in_entries)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _rules(schema[word], f"{path}[]", in_entries=True)
