"""Job scripts as Jobs of a cluster: the corpus against the recorded answers of Slurm, and the ledger."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.slurm import facts, pods
from tests.slurm.corpus import Case, cases, recorded
from tests.slurm.test_parsing import DIFFERENT, REFUSED_BY_WEIR

from weir.cli.slurm.batch_script import BatchScript
from weir.cli.slurm.cluster_script import bodies
from weir.cli.slurm.site_table import SiteNames
from weir.slurm.errors import SlurmError

TAKEN = [
    case
    for case in cases()
    if "refused" not in recorded()[case.name] and case.name not in {*REFUSED_BY_WEIR, *DIFFERENT}
]
SEVERAL_MODELS = ("gres_two_models",)
Facts = dict[str, Any]


def script(directory: Path, text: str, *words: str, variables: dict[str, str] | None = None) -> BatchScript:
    file = directory / "job.sh"
    file.write_text(text)
    return pods.script_of(*words, str(file), variables=variables)


def of(directory: Path, directives: str, *words: str, body: str = "srun true") -> BatchScript:
    return script(directory, f"#!/bin/sh\n#SBATCH {directives}\n{body}\n", *words)


def outcomes(found: BatchScript) -> dict[str, tuple[str, str]]:
    return {
        line.written.partition("=")[0]: (line.outcome, line.sentence) for line in pods.mapped(found).ledger
    }


def gpus_per_pod(theirs: Facts, pods_: int, tasks: int) -> int:
    """Return the GPUs of a pod for the answer of Slurm."""
    numbers = {key: sum(each[0] for each in theirs[key]) for key in theirs if key.startswith("gpus")}
    sockets = numbers["gpus per socket"] * 2  # the case of the corpus has two of them
    in_tasks = numbers["gpus per task"] * tasks
    return max(-(-numbers["gpus"] // pods_), numbers["gpus per node"], in_tasks, sockets)


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.name)
def test_a_job_has_the_resources_times_and_tasks_that_slurm_reads(case: Case, tmp_path: Path) -> None:
    answer = {key: str(value) for key, value in recorded()[case.name].items()}
    theirs = facts.of_slurm(answer)
    found = script(tmp_path, case.text, "--best-effort", *case.words, variables=dict(case.variables))
    if case.name in SEVERAL_MODELS:
        with pytest.raises(SlurmError, match="several models"):
            pods.mapped(found)
        return
    job, spec = pods.job_of_script(found), pods.job_of_script(found)["spec"]
    container, variables = pods.container_of(job), pods.variables_of(job, 0)
    asked = container["resources"]
    tasks = int(str(theirs["tasks"]))
    nodes = theirs["nodes"][0] if isinstance(theirs["nodes"], list) else 1
    count = min(nodes, tasks) if found.request.has("ntasks") else nodes
    each = -(-tasks // count)
    if found.request.array is None:
        assert spec["completions"] == spec["parallelism"] == count
    else:
        assert spec["completions"] == len(found.request.array)
        assert spec["parallelism"] == min(spec["completions"], theirs["at once"] or spec["completions"])
    assert int(variables["WEIR_SLURM_TASKS"]) == tasks
    per_gpu = found.request.tasks_per_gpu
    gpus = gpus_per_pod(theirs, count, each) or (-(-each // per_gpu) if per_gpu else 0)
    assert int(asked["limits"].get("nvidia.com/gpu", 0)) == gpus
    cpus = each * int(str(theirs["cpus per task"]))
    if theirs["cpus per gpu"] is not None:
        cpus = int(str(theirs["cpus per gpu"])) * gpus
    if found.request.has("cpus-per-task") or theirs["cpus per gpu"] is not None:
        assert float(asked["requests"]["cpu"]) == cpus
    memory = max(
        int(str(theirs["memory"])),
        int(str(theirs["memory per cpu"])) * max(cpus, 1),
        int(str(theirs["memory per gpu"])) * gpus,
    )
    if memory:
        assert mib(asked["requests"]["memory"]) == memory
    annotations = job["metadata"]["annotations"]
    limit = theirs["limit"]
    assert annotations.get("weir.dev/max-runtime") == (f"{limit}m" if limit is not None else None)
    if theirs["begin"] is not None and not found.request.text("begin").startswith(
        ("now", "tom", "tea", "1", "4")
    ):
        at = datetime.fromisoformat(str(theirs["begin"])).astimezone(UTC)
        assert annotations["weir.dev/begin"] == f"{at:%Y-%m-%dT%H:%M:%SZ}"
    assert spec.get("backoffLimit", spec.get("backoffLimitPerIndex")) == 0


def mib(written: str) -> int:
    units = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024}
    return round(int(written[:-2]) * units[written[-2:]])


@pytest.mark.parametrize(
    ("directives", "pods_", "variables"),
    [
        (
            "-N4 --ntasks-per-node=8 --gpus-per-node=8 -c2",
            4,
            {"TASKS_PER_NODE": "8(x4)", "CPUS_ON_NODE": "16"},
        ),
        ("-N4 -n10", 4, {"TASKS_PER_NODE": "3(x2),2(x2)", "NTASKS": "10"}),
        ("-N4 -n2", 2, {"TASKS_PER_NODE": "1(x2)", "NNODES": "2"}),
        ("--gpus=8 --gpus-per-node=4", 2, {"GPUS_ON_NODE": "4", "JOB_GPUS": "0,1,2,3"}),
        ("-n8", 1, {"TASKS_PER_NODE": "8", "NNODES": "1"}),
        ("-N2-4 -c3", 2, {"JOB_CPUS_PER_NODE": "3(x2)"}),
    ],
)
def test_nodes_become_pods_that_are_alike(
    directives: str, pods_: int, variables: dict[str, str], tmp_path: Path
) -> None:
    job = pods.job_of_script(of(tmp_path, directives))
    found = pods.variables_of(job, 0)
    assert job["spec"]["completions"] == pods_
    assert {key: found[f"SLURM_{key}"] for key in variables} == variables


@pytest.mark.parametrize(
    ("directives", "body", "hint"),
    [
        ("--input=data.txt", "cat", "--input=data.txt"),
        ("--exclude=n1", "true", "--constraint"),
        ("--nodes=2", "python train.py", "without srun"),
        ("--nodes=2", "srun true; mpirun ./a", "MPIJob"),
        ("--nodes=2 --gpus=3", "srun true", "--gpus=4"),
        ("--nodes=2 --array=0-3", "srun true", "one pod"),
        ("--container=/images/a", "true", "--image=IMAGE"),
        ("--licenses=matlab", "true", "--licenses=matlab"),
        ("--signal=B:INT@60", "true", "write USR1 or TERM"),
    ],
)
def test_what_could_make_a_job_wrong_needs_best_effort(
    directives: str, body: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(SlurmError) as refusal:
        pods.mapped(of(tmp_path, directives, body=body))
    assert hint in str(refusal.value)
    assert "--best-effort" in str(refusal.value)
    assert {"changed", "ignored"} & {
        outcome for outcome, _ in outcomes(of(tmp_path, directives, "--best-effort", body=body)).values()
    }


def test_a_script_without_an_image_is_refused(tmp_path: Path) -> None:
    from weir.cli.slurm.cluster_script import map_cluster_job

    found = of(tmp_path, "-n1")
    with pytest.raises(SlurmError, match="write --image=IMAGE, or image: IMAGE in the site table"):
        map_cluster_job(found, SiteNames([{"project": "vision"}]), ())
    named = map_cluster_job(of(tmp_path, "-n1", "--image=own:1"), SiteNames([{"image": "site:1"}]), ())
    assert named.fields["image"] == "own:1"


def test_each_difference_from_slurm_is_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "/data")
    body = "cd $SLURM_SUBMIT_DIR; echo $SLURM_RESTART_COUNT $DATA $SLURM_NTASKS\nsqueue --me\nsrun --multi-prog f"
    directives = (
        "-o %j.out -e err --no-requeue --mail-type=END --mem=4G --contiguous -t 5 -J name --exclusive"
    )
    found = outcomes(of(tmp_path, directives, body=body))
    changed = {name for name, (outcome, _) in found.items() if outcome == "changed"}
    ignored = {name for name, (outcome, _) in found.items() if outcome == "ignored"}
    assert changed == {"--mem", "--export", "SLURM_SUBMIT_DIR", "squeue"}
    assert ignored == {
        *("--output", "--error", "--no-requeue", "--mail-type", "--contiguous", "--exclusive"),
        *("SLURM_RESTART_COUNT", "--multi-prog"),
    }
    assert "weir logs" in found["--output"][1]
    assert "weir notify add mail" in found["--mail-type"][1]
    assert found["--export"][1].endswith("write --export=DATA to pass them on")
    assert "one machine" not in str(found)
    assert {name for name, (outcome, _) in found.items() if outcome == "kept"} == {"--time", "--job-name"}


def test_variables_that_are_named_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.setenv("OTHER", "1")
    found = pods.variables_of(pods.job_of_script(of(tmp_path, "--export=ALL,DATA,COST=$(5)$$")))
    assert (found["DATA"], found["COST"]) == ("/data", "$(5)$$")
    assert "OTHER" not in found
    assert "PATH" not in found


def test_a_job_is_named_for_its_name_and_number(tmp_path: Path) -> None:
    job = pods.job_of_script(of(tmp_path, "-J 'My größe_' "))
    number = job["metadata"]["labels"]["weir.dev/slurm-job"]
    assert job["metadata"]["name"] == f"my-groe-{number}"
    assert len(pods.job_of_script(of(tmp_path, f"-J {'x' * 90}"))["metadata"]["name"]) == 53


def test_scripts_that_would_fill_the_api_server_are_refused(tmp_path: Path) -> None:
    text = f"#!/bin/sh\n#SBATCH --array=0-9999\n: {'x' * 100_000}\n"
    found = script(tmp_path, text)
    with pytest.raises(SlurmError, match=r"10,000 pods hold it: .*--array=0-999%100"):
        next(bodies(found, pods.mapped(found), "vision"))
    limited = script(tmp_path, text, "--array=0-9999%100")
    assert next(bodies(limited, pods.mapped(limited), "vision"))["array"] == "0-9999%100"
