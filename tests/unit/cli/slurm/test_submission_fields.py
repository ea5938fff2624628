"""Requests of scripts as submissions, and the outcome of each directive."""

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.cli.slurm.site_table import SiteNames
from weir.cli.slurm.submission_fields import MappedScript, map_job
from weir.slurm.batch_request import read_request
from weir.slurm.directives import read_directives
from weir.slurm.errors import SlurmError
from weir.slurm.given_options import from_script

NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
TABLE: dict[str, Any] = {
    "accounts": {"chem-01": "chemistry"},
    "partitions": {"gpu": {"gpu_models": ["A100"], "max_runtime": "1d"}},
    "qos": {"high": {"priority": "high"}},
    "constraints": {"ssd": {"node_selector": {"disk": "ssd"}}},
    "gpus": {"big": "NVIDIA H100"},
}


def mapped(directives: str, *, best_effort: bool = False, models: tuple[str, ...] = ()) -> MappedScript:
    found = read_directives(f"#!/bin/bash\n#SBATCH {directives}\n", "job.sh")
    request = read_request(from_script(found, "job.sh"), NOW)
    return map_job(request, SiteNames([TABLE]), models=models, best_effort=best_effort)


def outcomes(job: MappedScript) -> dict[str, str]:
    return {line.written.partition("=")[0]: line.outcome for line in job.ledger}


@pytest.mark.parametrize(
    ("directives", "fields"),
    [
        ("--gres=gpu:2", {"gpus": 2}),
        ("--gpus=3", {"gpus": 3}),
        ("--gpus-per-node=4 -N1", {"gpus": 4}),
        ("--gpus-per-task=2 -n3", {"gpus": 6, "cpu": 3}),
        ("-n8 --ntasks-per-gpu=2", {"gpus": 4, "cpu": 8}),
        ("--ntasks-per-node=4 -c2", {"cpu": 8}),
        ("--gpus=4 --cpus-per-gpu=6", {"gpus": 4, "cpu": 24}),
        ("--mem=4G", {"memory": "4096Mi"}),
        ("--mem=0", {}),
        ("--mem-per-cpu=2G -n4", {"cpu": 4, "memory": "8192Mi"}),
        ("--mem-per-gpu=10G --gpus=2", {"gpus": 2, "memory": "20480Mi"}),
        ("--time=1-12", {"max_runtime": "2160m"}),
        ("--time=UNLIMITED", {}),
        ("--begin=now+1hour", {"begin": "2026-11-23T10:00:00+00:00"}),
        ("--begin=2020-01-01", {}),
        ("--dependency=afterok:3:4,afterany:5", {"after_ok": ["3", "4"], "after_any": ["5"]}),
        ("--dependency=after:3,afternotok:4", {"after": ["3"], "after_not_ok": ["4"]}),
        ("--array=[1-9:2]%2", {"array": "1-9:2%2"}),
        ("--array=1-4%0", {"array": "1-4"}),
        ("--signal=B:USR1@300", {"grace": "300s"}),
        ("--signal=USR1@5", {"grace": "30s"}),
        ("--account=chem-01", {"project": "chemistry"}),
        ("--account=vision", {"project": "vision"}),
        ("--partition=gpu", {"gpu_models": ["A100"], "max_runtime": "1d"}),
        ("--partition=gpu --time=60", {"gpu_models": ["A100"], "max_runtime": "60m"}),
        ("--qos=high", {"priority": "high"}),
        ("--constraint=ssd", {"node_selector": {"disk": "ssd"}}),
        ("--nodelist=box", {"nodes": ["box"]}),
        ("--partition=unknown", {}),
    ],
)
def test_directives_become_fields(directives: str, fields: dict[str, Any]) -> None:
    assert mapped(directives).fields == {**fields, "retries": 0}


@pytest.mark.parametrize(
    ("written", "models", "model"),
    [
        ("a100", ("NVIDIA A100-SXM4-80GB", "NVIDIA V100"), "NVIDIA A100-SXM4-80GB"),
        ("a100", ("A100", "A100-SXM"), "A100"),
        ("a100", ("NVIDIA A100 40GB", "NVIDIA A100 80GB"), "A100"),
        ("a100", (), "A100"),
        ("big", ("NVIDIA A100",), "NVIDIA H100"),
    ],
)
def test_a_type_of_gpu_is_the_model_that_is_spelled_like_it(
    written: str, models: tuple[str, ...], model: str
) -> None:
    assert mapped(f"--gres=gpu:{written}:1", models=models).fields["gpu_models"] == [model]


@pytest.mark.parametrize(
    ("directives", "hint"),
    [
        ("--licenses=matlab", "--licenses=matlab"),
        ("--reservation=course", "no reservations"),
        ("--nodes=2", "--nodes=1"),
        ("--dependency=afterok:1?afterok:2", "one of them"),
        ("--dependency=singleton", "one name"),
        ("--dependency=after:5+10", "whole jobs"),
        ("--gres=gpu:1,nvme:1", "nvme:1"),
        ("--exclude=far1", "one node"),
        ("--hold", "weir suspend"),
        ("--uid=0", "runs as its submitter"),
    ],
)
def test_what_could_make_a_job_wrong_needs_best_effort(directives: str, hint: str) -> None:
    with pytest.raises(SlurmError) as refusal:
        mapped(directives)
    assert hint in str(refusal.value)
    assert "--best-effort" in str(refusal.value)
    job = mapped(directives, best_effort=True)
    assert set(outcomes(job).values()) & {"ignored", "changed"}


def test_nodes_become_one_with_best_effort() -> None:
    job = mapped("--nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --mem=10G", best_effort=True)
    assert job.fields == {"gpus": 8, "cpu": 8, "memory": "20480Mi", "retries": 0}
    assert outcomes(job)["--nodes"] == "changed"


def test_each_directive_has_one_outcome() -> None:
    directives = (
        "--job-name=x --account=chem-01 --partition=nope --gres=gpu:1 --ntasks=2 --mem-per-cpu=1G --time=5 "
        "--hint=nomultithread --mail-type=END --output=o --exclusive --nice=5 --comment=why --requeue"
    )
    job = mapped(directives)
    assert [len(line.written) > 0 for line in job.ledger] == [True] * 14
    assert outcomes(job) == {
        "--job-name": "kept",
        "--account": "changed",
        "--partition": "ignored",
        "--gres": "kept",
        "--ntasks": "kept",
        "--mem-per-cpu": "changed",
        "--time": "kept",
        "--hint": "ignored",
        "--mail-type": "ignored",
        "--output": "kept",
        "--exclusive": "ignored",
        "--nice": "ignored",
        "--comment": "ignored",
        "--requeue": "kept",
    }
    assert all(line.where == "job.sh:2" for line in job.ledger)
