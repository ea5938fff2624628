"""`weir template`, and `weir submit --template`."""

from pathlib import Path

import pytest
from tests.unit.cli.samples import fill
from tests.unit.client.fake import Fake, page

from weir.cli.help.completion import complete
from weir.cli.main import main
from weir.cli.submissions.submit import in_options


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", "a", "--template", "t", "--set", "lr"], "--set lr: has no name and value; write NAME=VALUE"),
        (["-p", "a", "--template", "t", "--set", "=1"], "--set =1: has no name and value"),
        (["-p", "a", "--template", "t", "--set", "lr=1", "--set", "lr=2"], "--set lr: gets two values"),
        (["-p", "a", "--set", "lr=1", "--", "true"], "--set: there is no template to set it in"),
        (["-p", "a", "--template", "t", "-f", "x.yaml"], "--file, --template: both have the submission"),
    ],
)
def test_unusable_options_are_refused(
    words: list[str], sentence: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    assert main(["submit", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not [asked for asked in fake.asked if asked.method == "POST"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("command: [python, ${{ lr }}]\n", "1: is not YAML"),
        ("parameters: {lr: 1}\n", "1: parameters: is no list of mappings"),
        ("#!/bin/bash\n#WEIR --gpus 1\n", "1: is a job script; write the submission as YAML"),
        ("- a\n", "1: is no mapping"),
    ],
)
def test_unusable_file_is_refused(
    text: str, sentence: str, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    file = tmp_path / "train.yaml"
    file.write_text(text)
    assert main(["template", "save", "t", "-p", "a", "-f", str(file)]) == 2
    assert sentence in capsys.readouterr().err
    assert not fake.asked


def test_refusal_of_a_value_names_its_option() -> None:
    said = in_options("values.lr: has no default; write a value.")
    assert said == "--set lr: has no default; write a value."


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "-p", "vision", "--template", "t"],
        ["submit", "--project", "vision", "--template", "t"],
        ["template", "show", "-p", "vision", "t"],
    ],
)
def test_templates_of_the_named_project_complete(
    words: list[str], fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/projects/vision/templates", page({"name": "train"}, {"name": "tune"}, {"name": "eval"}))
    assert complete(words) == 0
    assert capsys.readouterr().out.split() == ["train", "tune"]


def test_options_override_a_filled_template(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    workload = {"project": "vision", "command": ["a", "0.1"], "gpus": "2", "env": {"A": "1", "B": "1"}}
    fake.on("POST", "/projects/vision/templates/train/fill", {"workload": workload})
    words = ["--template", "train", "--set", "lr=0.1=x", "--gpus", "4", "-e", "B=2", "--no-inherit"]
    assert main(["submit", "-p", "vision", *words]) == 0, capsys.readouterr().err
    filled, submitted = [asked for asked in fake.asked if asked.method == "POST"]
    assert filled.body == {"values": {"lr": "0.1=x"}}
    assert submitted.body["command"] == ["a", "0.1"]
    assert submitted.body["pods"] == [{"gpus": "4"}]
    assert submitted.body["env"] == {"A": "1", "B": "2"}
