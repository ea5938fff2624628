"""Job scripts of Slurm from standard input: messages name no file."""

import io
import sys

import pytest

from weir.cli.main import main


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (b"true\n", "standard input, line 1: begins with no interpreter: "),
        (b"#!/bin/sh\n#SBATCH --nodez=2\ntrue\n", "standard input, line 2: --nodez is no option of sbatch: "),
        (b"#!/bin/sh\n#SBATCH --comment='a\ntrue\n", "standard input, line 2: "),
        (b"#!/bin/sh\n#SBATCH hetjob\ntrue\n", "standard input, line 2: hetjob makes a heterogeneous job"),
        (
            b"#!/bin/sh\r\ntrue\r\n",
            r"standard input: has DOS line breaks: convert it, as with `sed 's/\r$//'`.",
        ),
        (b"#!/bin/sh\n\xff\n", "standard input: isn't UTF-8 at byte 10: "),
    ],
)
@pytest.mark.parametrize("command", [["sbatch"], ["import", "sbatch"]])
def test_mistake_in_a_script_from_standard_input_names_its_line(
    command: list[str],
    script: bytes,
    sentence: str,
    fake: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(script)))
    assert main(command) == 2
    assert capsys.readouterr().err.startswith(f"weir: {sentence}")


def test_a_script_from_standard_input_names_no_file_that_isnt_there(
    fake: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = b"#!/usr/bin/env python3\nprint()\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(script)))
    assert main(["import", "sbatch"]) == 2
    assert capsys.readouterr() == (
        "",
        "weir: standard input: python3 runs a script from its file: save it, and name the file.\n",
    )
