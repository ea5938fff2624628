"""Outputs for programs: no control codes for a terminal, and no name is lost."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.fake import Fake, Said, page, row

from weir.cli.main import main
from weir.cli.output.outputs import as_json

SWEEP = {
    "name": "lr-search",
    "project": "vision",
    "user": "ada",
    "state": "running",
    "trials": 0,
    "trials_max": 2,
    "rungs": [1, 3],
    "created_s": 1_000_000.0,
    "metric": "loss",
    "mode": "min",
    "params": {"lr": "float:0..1"},
    "eta": 3,
    "sampler": "random",
    "seed": 0,
    "command": ["a"],
}
TOKEN = {"id": 3, "user": "ada", "role": "member", "projects": ["vision"], "created_s": 1.0, "token": "t"}


def test_json_has_no_control_character() -> None:
    value = {"command": ["a\x1b[2J", "b\x9b31m\x7f", "c\u00e9"]}
    text = as_json(value)
    assert json.loads(text) == value
    assert not any((each < " " and each != "\n") or "\x7f" <= each <= "\x9f" for each in text)
    assert "\u00e9" in text


@pytest.mark.parametrize(
    ("words", "path", "made", "sentence"),
    [
        ("submit -p vision -- a", "/workloads", row("train-7"), "train-7 is queued in vision"),
        ("submit -p vision -o json -- a", "/workloads", row("train-7"), "train-7 is queued in vision"),
        (
            "submit -f jobs.yaml",
            "/workloads:batch",
            page(row("train-7"), row("train-8")),
            "train-7, train-8 are queued",
        ),
        (
            "sweep -p vision --param lr=float:0..1 --trials 2 --rungs 1,3 -- a",
            "/sweeps",
            SWEEP,
            "sweep lr-search is begun in vision",
        ),
        ("token create ada -p vision", "/tokens", TOKEN, "token 3 of ada exists"),
    ],
)
def test_failure_of_the_output_names_what_is_there(
    words: str,
    path: str,
    made: dict[str, Any],
    sentence: str,
    fake: Fake,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "jobs.yaml").write_text("workloads: [{project: vision, command: [a]}]")
    monkeypatch.chdir(tmp_path)
    fake.on("POST", path, Said(made, 201))
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert main(words.split()) == 1
    failed = "but the output can't be written: No space left on device"
    assert capsys.readouterr().err == f"weir: {sentence}, {failed}.\n"


def test_closed_output_names_the_queued_workload(
    fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("POST", "/workloads", Said(row("train-7"), 201))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert main(["submit", "-p", "vision", "--", "a"]) == 1
    failed = "but the output can't be written: Broken pipe"
    assert capsys.readouterr().err == f"weir: train-7 is queued in vision, {failed}.\n"
