"""Submissions from files and the standard input, in their short ways."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.samples import fill
from tests.unit.client.fake import Fake

from weir.api.submissions import Submission
from weir.cli.main import main


@pytest.mark.parametrize(
    ("text", "command", "pods"),
    [
        ("command: python 'my train.py' --lr 1\n", ["python", "my train.py", "--lr", "1"], None),
        ("run: |\n  cd /tmp\n  ls\n", ["bash", "-c", "cd /tmp\nls\n"], None),
        ("command: [a]\ngpus: 1\nmemory: 8Gi\n", ["a"], [{"gpus": 1, "memory": "8Gi"}]),
        ("command: [a]\ngpus: 2\nworkers: 3\n", ["a"], [{"gpus": 2, "count": 3}]),
        (
            "command: [a]\nelastic: '2:8'\npods: [{gpus: 1}]\n",
            ["a"],
            [{"gpus": 1, "count": 8, "min": 2}],
        ),
    ],
)
def test_a_file_may_be_short(
    text: str, command: list[str], pods: Any, fake: Fake, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    file = tmp_path / "train.yaml"
    file.write_text(f"project: vision\n{text}")
    assert main(["submit", "-f", str(file), "--no-inherit"]) == 0, capsys.readouterr().err
    (submitted,) = [asked for asked in fake.asked if asked.method == "POST"]
    made = Submission.model_validate(submitted.body)
    assert made.command == command
    assert submitted.body.get("pods") == pods


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("command: a && b\n", "2: command: 'a && b' needs a shell; write it as run, such as run: 'a && b'"),
        (
            "command: a 'b\n",
            "2: command: \"a 'b\" has a quote that isn't closed; write the other quote, or a list",
        ),
        (
            "command: true\n",
            "2: command: is neither a text nor a list; write a text in quotes, or [python, train.py]",
        ),
        ("command: [a]\ngpus: 1.5\n", "3: gpus: 1.5 is neither whole devices nor a share of one"),
        ("gpus: 1\npods: [{gpus: 2}]\n", "has gpus at its top and under pods; write it once"),
        ("gpus: 1\npods: [{gpus: 2}, {}]\n", "has gpus at its top and several groups under pods"),
        ("run: 5\n", "has a run that is not a text; write run: | and the lines of a script below it"),
        ("run: a\ncommand: b\n", "has both command and run; write one of them"),
        ("elastic: 3\n", "has an elastic that isn't two numbers; write at least and at most, such as 2:8"),
        ("command: [a]\n---\n", "3: a second document begins here; write one document a file"),
    ],
)
def test_what_is_wrong_in_a_short_file(
    text: str, answer: str, fake: Fake, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    file = tmp_path / "train.yaml"
    file.write_text(f"project: vision\n{text}")
    assert main(["submit", "-f", str(file)]) == 2
    assert answer in capsys.readouterr().err


@pytest.mark.parametrize("text", ["print('hi')\n", "import time\n\nx: int = 4\n"])
def test_script_without_its_interpreter_is_named_so(
    text: str, tmp_path: Path, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    assert main(["submit", "-p", "vision", "-f", str(file)]) == 2
    right = f"add one, or write weir submit -- python {file}"
    assert f"{file}:1: is a script without #! in its first line; {right}\n" in capsys.readouterr().err


def test_a_submission_comes_from_the_standard_input(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(fake)
    text = io.TextIOWrapper(io.BytesIO(b"project: vision\nrun: ls\n"))
    monkeypatch.setattr(sys, "stdin", text)
    assert main(["submit", "-f", "-", "-g", "2", "--no-inherit"]) == 0
    (submitted,) = [asked for asked in fake.asked if asked.method == "POST"]
    assert submitted.body["command"] == ["bash", "-c", "ls"]
    assert submitted.body["pods"] == [{"gpus": "2"}]
