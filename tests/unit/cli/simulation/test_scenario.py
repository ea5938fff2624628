"""`weir scenario` as a person, a script or CI calls it."""

import json
from pathlib import Path

import pytest

from weir.cli.main import main

RIGHT = """
name: fits
cluster: {nodes: [{name: node0, gpus: 2}]}
projects: [{name: p, quota: {gpu: 2}}]
workloads:
  - {name: w, project: p, pods: [{count: 2, gpus: 1}]}
  - {name: x, project: p, pods: [{gpus: 4}]}
expect:
  workloads: {w: {status: running, node: node0}, x: {status: pending}}
"""
DIFFERS = RIGHT.replace("w: {status: running", "w: {status: pending")
WRONG = "cluster: {nodes: [{name: a, gpus: -1}]}\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A file that is right, one that differs from what it expects, and one that is wrong."""
    for name, text in (("right", RIGHT), ("differs", DIFFERS), ("wrong", WRONG)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return {name: str(tmp_path / f"{name}.yaml") for name in ("right", "differs", "wrong")}


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["right"], 0),
        (["right", "differs"], 1),
        (["wrong"], 2),
        (["differs", "wrong", "right"], 2),
        ([], 2),
    ],
)
def test_the_exit_code_of_check_is_that_of_the_worst(
    files: dict[str, str], names: list[str], code: int
) -> None:
    assert main(["scenario", "check", *(files[name] for name in names)]) == code


def test_check_says_what_differs(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["scenario", "check", files["right"], files["differs"]])
    answer = capsys.readouterr().out
    assert f"passed   {files['right']}: fits" in answer
    assert "w/0/0: is running on node0 [0], pending expected on node0" in answer
    assert answer.endswith("1 passed, 1 failed\n")


def test_check_as_json(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["scenario", "check", "--output", "json", files["right"], files["differs"]])
    right, differs = map(json.loads, capsys.readouterr().out.splitlines())
    assert right == {"file": files["right"], "name": "fits", "passed": True, "differences": []}
    assert differs["passed"] is False
    assert len(differs["differences"]) == 2


def test_run_as_json(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "run", files["right"], "--cycles", "1", "--output", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"file", "name", "cycles", "pods"}
    assert answer["cycles"] == [{"bound": ["w/0/0", "w/0/1"], "evicted": [], "waiting": []}]
    assert {name: pod["status"] for name, pod in answer["pods"].items()} == {
        "w/0/0": "running",
        "w/0/1": "running",
        "x/0/0": "pending",
    }
    assert {tuple(pod) for pod in answer["pods"].values()} == {("status", "node", "gpus", "reason")}
    assert answer["pods"]["x/0/0"]["reason"]


def test_run_as_a_table_that_fits(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["scenario", "run", files["right"]]) == 0
    answer = capsys.readouterr().out
    assert "cycle 1: bound w/0/0, w/0/1" in answer
    table = answer[answer.index("POD") :]
    assert max(map(len, table.splitlines())) <= 60


def test_what_is_wrong_goes_to_stderr(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "run", files["wrong"], "--output", "json"]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err == f"{files['wrong']}:1: gpus: -1 is negative; write 0 or more\n"


@pytest.mark.parametrize("of", ["scenario", "policy"])
def test_the_schemas_are_json(of: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "schema", of]) == 0
    assert "properties" in json.loads(capsys.readouterr().out)
