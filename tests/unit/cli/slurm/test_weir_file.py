"""Job scripts as files of Weir."""

import subprocess
from pathlib import Path

import pytest
from tests.slurm.corpus import Case, cases, recorded

from weir.api.submissions import Submission
from weir.cli.main import main

TAKEN = [
    case
    for case in cases()
    if "refused" not in recorded()[case.name] and not case.words and not case.variables
]


@pytest.fixture(autouse=True)
def no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.name)
def test_each_script_becomes_a_file_with_a_ledger(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import yaml

    file = tmp_path / "job.sh"
    file.write_text(case.text)
    code = main(["import", "sbatch", "--best-effort", str(file)])
    written = capsys.readouterr()
    if code:
        assert case.name.startswith("heterogeneous") or "several models" in written.err, written.err
        return
    fields = yaml.safe_load(written.out)
    assert Submission.model_validate(fields).project
    outcomes = {line.split()[0] for line in written.err.splitlines()}
    assert outcomes <= {"kept", "changed", "ignored"}


def test_a_script_without_counterpart_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.sh"
    file.write_text("#!/bin/bash\n#SBATCH --licenses=matlab\n#PBS -l nodes=2\necho\n")
    assert main(["import", "sbatch", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--licenses=matlab" in said.err
    assert "#PBS" in said.err
    assert "--best-effort" in said.err


def test_the_script_of_a_file_runs_with_the_variables_it_uses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import yaml

    file = tmp_path / "job.sh"
    file.write_text(
        "#!/bin/bash -e\n#SBATCH -J 'two words' -n3\n# $SLURM_UNUSED\n"
        'echo "$SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_NTASKS $1"\nfalse\necho never\n'
    )
    assert main(["import", "sbatch", "--project=vision", str(file), "an argument"]) == 0
    said = capsys.readouterr()
    fields = yaml.safe_load(said.out)
    assert (fields["project"], fields["name"], fields["cpu"]) == ("vision", "two-words", 3)
    done = subprocess.run(
        ["bash", "-c", fields["run"]],
        env={"WEIR_POD_ID": "17/1-0-0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "17 two words 3 an argument\n"
    assert done.returncode == 1
    assert "SLURM_UNUSED" not in said.err


def test_a_script_of_another_language_runs_by_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import yaml

    file = tmp_path / "job.py"
    file.write_text("#!/usr/bin/env python3\n#SBATCH -J named\nprint()\n")
    assert main(["import", "sbatch", "-Avision", "--image=a:1", "--namespace=b", str(file), "one"]) == 0
    said = capsys.readouterr()
    fields = yaml.safe_load(said.out)
    assert fields["image"] == "a:1"
    assert "ignored  --namespace=b: is an option of `weir submit`" in said.err
    assert fields["command"] == ["/usr/bin/env", "python3", str(file), "one"]
    assert (fields["name"], fields["project"]) == ("named", "vision")


@pytest.mark.parametrize(
    ("words", "directive", "project"),
    [
        ([], "", "mine"),
        ([], "#SBATCH --account=theirs", "theirs"),
        (["--project", "named"], "", "named"),
    ],
)
def test_project_of_a_file_is_that_of_the_command_line_the_account_or_the_variable(
    words: list[str],
    directive: str,
    project: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEIR_PROJECT", "mine")
    file = tmp_path / "job.sh"
    file.write_text(f"#!/bin/bash\n{directive}\ntrue\n")
    assert main(["import", "sbatch", *words, str(file)]) == 0
    written = capsys.readouterr()
    assert written.out.splitlines()[0] == f"project: {project}"
    assert "write yours" not in written.err
