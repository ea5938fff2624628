"""The project of a job script of Slurm: what is said if none is named."""

from pathlib import Path

import pytest
from tests.unit.client.fake import Fake, page, queue

from weir.cli.main import main


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["-p", "default"], "--partition=default is a partition of Slurm; write --project=default."),
        (["-p", "gpu"], "write --project=NAME; yours are default, vision."),
        ([], "write --project=NAME; yours are default, vision."),
    ],
)
def test_the_refusal_of_a_script_without_a_project_names_the_projects(
    words: list[str], right: str, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/projects", page(queue("default"), queue("vision")))
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    assert main(["sbatch", *words, str(script)]) == 2
    assert capsys.readouterr().err == f"weir: no project is named: {right}\n"


def test_of_many_projects_a_few_are_named(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/projects", page(*(queue(f"p{number}") for number in range(40))))
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    assert main(["sbatch", str(script)]) == 2
    assert capsys.readouterr().err.endswith("p6, p7 and 32 more.\n")


def test_a_pool_without_projects_has_none_to_name(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/projects", page())
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    assert main(["sbatch", str(script)]) == 2
    assert capsys.readouterr().err == "weir: no project is named: an administrator creates one first.\n"
