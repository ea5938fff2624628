"""Nothing that a pool answers can do anything to a terminal."""

import json

import pytest
import yaml
from tests.unit.cli.samples import DETAIL, fill
from tests.unit.client.fake import Fake

from weir.cli.main import main
from weir.cli.output.outputs import as_json, as_yaml
from weir.local.supervisor.spawn_errors import not_found

ODD = "a\x1b]0;x\x07b\x9b31mc\x7fd\x85e\u202ef\u2028g\U000e0041h\ufeffi ä 漢 😀"


def test_json_and_yaml_escape_what_does_not_print_and_keep_the_value() -> None:
    value = {"command": [ODD], "n": 1}
    for text, read in ((as_json(value, 2), json.loads), (as_yaml(value), yaml.safe_load)):
        assert all(line.isprintable() for line in text.split("\n"))
        assert read(text) == value
    assert "ä 漢 😀" in as_json(value)


@pytest.mark.parametrize("output", ["json", "yaml", "wide", "table"])
def test_describe_is_clean_in_every_form(output: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    reported = {**DETAIL, "command": [ODD], "env": {"A": ODD}, "directory": ODD}
    fake.on("GET", "/workloads/train-4k2p", {**reported, "reason": {"why": "suspended", "sentence": ODD}})
    assert main(["describe", "train-4k2p", "-o", output]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))


def test_a_program_with_an_odd_name_is_printed_cleanly() -> None:
    assert all(sentence.isprintable() for sentence in not_found([ODD]))
