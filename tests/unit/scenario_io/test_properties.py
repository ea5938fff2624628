"""Every text becomes a scenario or mistakes; and a scenario is written so that it reads back."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.budget import examples

from weir.model.policy import DEFAULT_PRESET
from weir.model.scenario import InvalidFile, Scenario
from weir.scenario_io.document import read_document
from weir.scenario_io.policies import parse_policy
from weir.scenario_io.reading import parse_scenario, read_scenario
from weir.scenario_io.source_map import Mistakes
from weir.scenario_io.writing import write_scenario

from .documents import documents, policies

CALM = examples(24)
REFERENCE = sorted((Path(__file__).parents[2] / "scenarios" / "reference").glob("*.json"))
TEXTS = [path.read_text() for path in REFERENCE[::8]]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(
        ["unlimited", "-5m", "1Gi", "-1", 1 << 70, -1, "a-[0-9]", "a-[9-0]", "0.5", 1.5, 0.3333]
    ),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3),
    max_leaves=6,
)


def outcome(text: str, file: str = "file.yaml") -> Scenario | InvalidFile:
    """The scenario, or the refusal, whose lines are held to be lines of the file."""
    try:
        return parse_scenario(text, file)
    except InvalidFile as refused:
        lines = len(text.splitlines()) + 1
        assert refused.mistakes
        for mistake in refused.mistakes:
            assert 1 <= mistake.line <= lines
            assert mistake.file == file
            assert "\n" not in str(mistake)
            assert "; " in mistake.text, f"says no remedy: {mistake}"
        return refused


@CALM
@given(documents())
def test_what_is_right_is_read_and_written_back(document: dict[str, Any]) -> None:
    scenario = outcome(json.dumps(document))
    assert isinstance(scenario, Scenario), scenario
    again = parse_scenario(write_scenario(scenario), "written.yaml")
    assert again == scenario
    assert write_scenario(again) == write_scenario(scenario)


@CALM
@given(documents())
def test_json_is_read_as_the_yaml_it_is(document: dict[str, Any]) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=1)
    as_json, as_yaml = Mistakes("a.json"), Mistakes("a.yaml")
    assert read_document(text, as_json) == read_document(f"# not JSON\n{text}", as_yaml) == document
    for path in _paths(document):
        assert as_json.line(path) + 1 == as_yaml.line(path)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _paths(value[key], (*path, key))


@examples(42)
@given(documents(), st.data())
def test_what_is_changed_is_read_or_refused(document: dict[str, Any], data: st.DataObject) -> None:
    changed = deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        _change(changed, data)
    outcome(json.dumps(changed), "file.json")
    outcome(json.dumps(changed, indent=1))


def _change(document: Any, data: st.DataObject) -> None:
    """Put something else, or nothing, in the place of one value."""
    spots: list[tuple[Any, Any]] = []
    stack = [document]
    while stack:
        container = stack.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        spots += [(container, key) for key in keys]
        stack += [container[key] for key in keys if isinstance(container[key], dict | list)]
    if not spots:
        return
    container, key = data.draw(st.sampled_from(spots))
    how = data.draw(st.sampled_from(["junk", "delete", "rename", "copy"]))
    if how == "junk":
        container[key] = data.draw(JUNK)
    elif how == "delete":
        del container[key]
    elif how == "rename" and isinstance(container, dict):
        container[str(key) + "s"] = container.pop(key)
    elif how == "copy" and isinstance(container, list):
        container.append(deepcopy(container[key]))


@examples(60)
@given(st.sampled_from(TEXTS), st.data())
def test_what_is_mistyped_is_read_or_refused(text: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(text)))
    typed = data.draw(
        st.text(max_size=3) | st.sampled_from([*"{}[]:,\"'&*#-\n\t \\", "<<: ", "!!", "\ud800"])
    )
    gone = data.draw(st.integers(0, 30))
    outcome(text[:position] + typed + text[position + gone :])


@CALM
@given(JUNK)
def test_junk_is_refused(junk: Any) -> None:
    outcome(json.dumps(junk))
    try:
        parse_policy(json.dumps(junk), "policy.yaml")
    except InvalidFile as refused:
        assert refused.mistakes


@CALM
@given(st.text(max_size=60))
def test_any_text_is_refused(text: str) -> None:
    assert isinstance(outcome(text), InvalidFile)


@settings(CALM, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=60))
def test_any_bytes_are_refused(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_bytes(raw)
    with pytest.raises(InvalidFile):
        read_scenario(file)


@CALM
@given(policies())
def test_policies_are_read(policy: dict[str, Any]) -> None:
    read = parse_policy(json.dumps(policy), "policy.yaml")
    assert read.preset == policy.get("preset", DEFAULT_PRESET)
    assert read.search_steps == policy.get("search_steps", 512)
