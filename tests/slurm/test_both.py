"""Scripts run on a private Slurm and on a pool: the same files and the same exit codes."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.runs import VARIABLES, Outcome, names, outcome, prepare, wait_for
from tests.unit.local.server.server_process import Serving, serving
from tools import prefork
from tools.slurm.instance import NODE, Instance, instance
from tools.slurm.programs import SETTING, NoSlurm, find

DIFFERENT: dict[str, str] = {}
"""Scripts that don't leave the same, and the reason."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    if os.environ.get(SETTING) == "skip":
        pytest.skip(f"{SETTING}=skip")
    try:
        with instance(find(), tmp_path_factory.mktemp("slurm") / "home") as running:
            yield running
    except NoSlurm as lacks:
        assert os.environ.get(SETTING) != "required", str(lacks)
        pytest.skip(f"Slurm can't run here: {lacks}")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("pool") / "home", gpus=8) as found:
        yield found
        found.stop_all()


@pytest.fixture(scope="module")
def outcomes(
    slurm: Instance, pool: Serving, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Outcome, Outcome]]:
    """Submit all scripts to both, and wait for their ends."""
    above = tmp_path_factory.mktemp("jobs")
    theirs = {name: _to_slurm(slurm, name, above / "slurm" / name) for name in names()}
    ours = {name: _to_weir(pool, name, above / "weir" / name) for name in names()}
    return {
        name: (
            outcome(_slurm_code(slurm, theirs[name], above), theirs[name], above / "slurm" / name, NODE),
            outcome(_weir_code(pool, ours[name]), ours[name], above / "weir" / name, NODE),
        )
        for name in names()
    }


@pytest.mark.parametrize("name", names())
def test_a_script_leaves_the_same_files_and_exit_code(
    name: str, outcomes: dict[str, tuple[Outcome, Outcome]]
) -> None:
    theirs, ours = outcomes[name]
    if name in DIFFERENT:
        assert theirs != ours, "it is the same now: take it out of DIFFERENT"
        return
    assert ours.code == theirs.code
    assert dict(ours.files) == dict(theirs.files)


def test_forty_scripts_are_the_same() -> None:
    assert len(names()) - len(DIFFERENT) >= 40


def _to_slurm(slurm: Instance, name: str, directory: Path) -> str:
    done = slurm.run(["sbatch", "--parsable", *prepare(name, directory)], directory, VARIABLES)
    assert done.returncode == 0, (name, done.stderr)
    return done.stdout.strip()


def _to_weir(pool: Serving, name: str, directory: Path) -> str:
    words = prepare(name, directory)
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH", "WEIR"))
    }
    done = prefork.run(
        [sys.executable, "-m", "weir", "sbatch", "--parsable", *words],
        cwd=directory,
        env={**variables, **VARIABLES, "WEIR_HOME": str(pool.home), "HOME": str(directory.parent)},
    )
    assert done.returncode == 0, (name, done.stderr)
    return done.stdout.strip()


def _slurm_code(slurm: Instance, job: str, directory: Path) -> int:
    codes: list[str] = []

    def is_over() -> bool:
        words = slurm.run(["scontrol", "show", "job", job], directory).stdout.split()
        facts = dict(word.partition("=")[::2] for word in words)
        codes[:] = [facts.get("ExitCode", "")]
        return facts.get("JobState") in (
            "COMPLETED",
            "FAILED",
            "CANCELLED",
            "TIMEOUT",
            "NODE_FAIL",
            "OUT_OF_MEMORY",
        )

    wait_for(is_over)
    code, _, number = codes[0].partition(":")
    return 128 + int(number) if int(number or 0) else int(code)


def _weir_code(pool: Serving, job: str) -> int:
    found: list[int] = []

    def is_over() -> bool:
        row = pool.get(f"/api/v1/workloads/{job}")
        found[:] = [row["exit_code"]]
        return row["status"] in ("succeeded", "failed", "stopped")

    wait_for(is_over)
    return found[0]
