"""`squeue`, `scancel` and other programs of Slurm inside a job."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.slurm.test_batch import batch, log_of

from weir.slurm.errors import SlurmError
from weir.slurm.job_settings import JobSettings
from weir.slurm.queue_fields import span_of
from weir.slurm.squeue import answer

JOB = {
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_NAME": "train",
    "SLURM_JOB_USER": "mia",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_NODELIST": "box",
    "SLURM_JOB_NUM_NODES": "1",
}
HEADS = ["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"]
TASK = {**JOB, "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("-j 12 -h -o %i", ["12"]),
        ("-hj12 -o%T", ["RUNNING"]),
        ("--noheader --jobs=12 --format=%j:%u", ["train:mia"]),
        ("-j 12 -o %.6i|%2t|%5N|", [" JOBID|ST|NODEL|", "    12|R |box  |"]),
        ("-j 12 -h -O JobID:.5,Name:6,State", ["   12train RUNNING"]),
        ("-j 12 -h -o %l/%L", ["UNLIMITED/UNLIMITED"]),
    ],
)
def test_squeue_answers_for_its_own_job(words: str, lines: list[str]) -> None:
    assert answer(words.split(), JOB) == lines


def test_squeue_has_the_columns_of_slurm_by_default() -> None:
    head, row = answer(["-j", "12"], JOB)
    assert head.split() == HEADS
    assert row.split() == ["12", "gpu", "train", "mia", "R", "INVALID", "1", "box"]


def test_a_task_of_an_array_is_known_by_its_three_names() -> None:
    for job in ("12", "7", "7_3"):
        assert answer(["-h", "-j", job, "-o", "%i %A %F %K"], TASK) == ["7_3 12 7 3"]


def test_the_time_left_is_the_limit_without_the_time_since_the_start() -> None:
    variables = {**JOB, "WEIR_SLURM_STARTED_S": str(int(time.time()) - 3600), "WEIR_SLURM_LIMIT_S": "90000"}
    (row,) = answer(["-h", "-j", "12", "-o", "%l %L %M"], variables)
    limit, left, used = row.split()
    assert (limit, left[:3], used[:3]) == ("1-01:00:00", "23:", "1:0") or left == "1-00:00:00"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "a job can query only itself, with -j 12: `weir list` lists the workloads"),
        ("-u mia", "-u has no answer in a job: `weir list` lists the workloads"),
        ("-j 13", "job 13 is another one: `weir describe 13` shows it"),
        ("-j 12 -o %Q", "%Q has no answer in a job: `weir describe 12` shows more"),
        ("-j 12 -O Nonsense", "Nonsense has no answer in a job: `weir describe 12` shows more"),
    ],
)
def test_squeue_names_the_command_of_weir_for_the_rest(words: str, sentence: str) -> None:
    with pytest.raises(SlurmError, match=r".") as refused:
        answer(words.split(), JOB)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.9, "0:59"), (3600, "1:00:00"), (93784, "1-02:03:04"), (-5, "0:00")]
)
def test_spans_are_those_of_slurm(seconds: float, text: str) -> None:
    assert span_of(seconds) == text


def test_a_script_finds_the_programs_on_its_path(tmp_path: Path) -> None:
    script = (
        'squeue -h -j $SLURM_JOB_ID -o "%i %T %l"; sinfo || echo no; sacct -j $SLURM_JOB_ID || echo no; '
        "sstat -j $SLURM_JOB_ID || echo no; scancel || echo no; scancel -u mia || echo no"
    )
    job = batch(tmp_path, JobSettings(name="x", limit_s=7200.0), script)
    assert log_of(job).splitlines() == [
        "12 RUNNING 2:00:00",
        "sinfo: error: Weir has no sinfo: `weir nodes` lists the nodes",
        "no",
        "sacct: error: Weir has no sacct: `weir describe 12` shows its times, use and end",
        "no",
        "sstat: error: Weir has no sstat: `weir describe 12` shows its use",
        "no",
        "scancel: error: no job is named: write its number, such as $SLURM_JOB_ID",
        "no",
        "scancel: error: -u is no number of a job: `weir stop` takes names, patterns and options",
        "no",
    ]


@pytest.mark.parametrize(("words", "numbers"), [(["12", "13"], ["12", "13"]), (["-Q", "7_3"], ["12"])])
def test_scancel_is_weir_stop_with_the_numbers(words: list[str], numbers: list[str]) -> None:
    program = (
        "import os, sys; from weir.slurm import scancel; "
        "os.execv = lambda _, words: print(words[1:]) or 0; sys.exit(scancel.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **TASK},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(["-I", "-m", "weir", "stop", "--yes", *numbers])
