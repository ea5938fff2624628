"""A file that is no document is refused with its line; many mistakes are cut off."""

from pathlib import Path

import pytest
from tests.unit.scenario_io.mistakes import reported

from weir.model.scenario import InvalidFile
from weir.scenario_io.policies import parse_policy
from weir.scenario_io.reading import parse_scenario, read_scenario


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "1: the document: null is not a mapping; write keys and values such as name: a"),
        ("- a", "1: the document: a list is not a mapping; write keys and values such as name: a"),
        ("{}", "1: cluster is missing; add cluster"),
        ("cluster: {}\nname: [", "2: is not YAML: "),
        ("cluster: {}\nname: a\nname: b", "3: name is written twice, first on line 2; keep one of them"),
        (
            '{"cluster": {},\n"name": "a",\n"name": "b"}',
            "3: name is written twice, first on line 2; keep one of them",
        ),
        (
            "cluster: {}\n---\ncluster: {}",
            "2: a second document begins here; write one document a file",
        ),
        (
            "cluster: !!python/name:os.system {}",
            "1: the tag !!python/name:os.system means nothing here; leave it out",
        ),
        ("cluster: {}\nname: *a", "2: *a stands for nothing complete; write &a before a value above it"),
        ("cluster: &a [*a]", "1: *a stands for nothing complete; write &a before a value above it"),
        ("? {a: b}\n: c", "1: a key is a list, a mapping or a reference; write a word"),
        ("cluster: {}\nname: \x07", "2: has the character '\\x07'; leave it out, or write it as an escape"),
        ("[" * 5000, "1: is nested more than 64 deep; write it flatter"),
        ("cluster: {}\ntick: " + "9" * 5000, "2: is a number too long to read; write a shorter one"),
        (
            '{"cluster": {}, "name": "\\ud800"}',
            "1: has half of a surrogate pair (\\ud8..); write both halves, or the character",
        ),
    ],
)
def test_a_text_that_is_no_document(text: str, answer: str) -> None:
    assert reported(text)[0].startswith(answer)


def test_references_may_repeat_but_not_explode() -> None:
    shared = "cluster: {nodes: [{name: a, labels: &l {zone: b}}, {name: c, labels: *l}]}"
    assert parse_scenario(shared, "a.yaml").nodes[1].labels["zone"] == "b"
    bomb = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [
        f"{key}: &{key} [{', '.join([f'*{below}'] * 10)}]"
        for below, key in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert reported("\n".join(bomb)) == ["5: references repeat more than 100000 values; write them out"]


def test_invalid_json_is_reported_as_json() -> None:
    with pytest.raises(InvalidFile, match=r"^lab\.json:2: is not JSON: "):
        parse_scenario('{\n"cluster" {}}', "lab.json")


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFile, match=r"none\.yaml: can't be opened: no such file or directory; name a file"
    ):
        read_scenario(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: a\nname: \xe4")
    with pytest.raises(
        InvalidFile, match=r"latin\.yaml:2: byte 0xe4 is not UTF-8; save the file as UTF-8 text"
    ):
        read_scenario(tmp_path / "latin.yaml")


def test_many_mistakes_are_cut_off() -> None:
    nodes = "\n".join(f"  - {{name: a{index}, gpus: -1}}" for index in range(1005))
    mistakes = reported(f"cluster:\n  nodes:\n{nodes}\n")
    assert len(mistakes) == 1001
    assert mistakes[-1].endswith("and 5 more mistakes; fix the ones above first")


def test_a_policy_that_is_wrong() -> None:
    with pytest.raises(InvalidFile) as refused:
        parse_policy(
            "preset: fare\nreserve_fracton: 0.1\nusage: {k: -1}\nreserve_after: soon\naffinity: [{}]\n",
            "p.yaml",
        )
    assert [str(mistake) for mistake in refused.value.mistakes] == [
        "p.yaml:1: preset: 'fare' isn't known; write balanced, throughput or fair",
        "p.yaml:2: unknown key reserve_fracton; did you mean reserve_fraction?",
        "p.yaml:3: usage.k: -1 is negative; write 0 or more",
        "p.yaml:4: reserve_after: 'soon' is not a duration; write one such as 90s, 10m or 2h30m",
        "p.yaml:5: node_labels is missing in affinity[0]; add node_labels",
    ]
