"""The command line of a pod as a process: `sh`, the variables of the pod and a PATH, and nothing else."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.slurm import pods
from tests.slurm.runs import VARIABLES, names, prepare

from weir.cli.cluster.job import literal
from weir.cli.slurm.exported_variables import exported_variables
from weir.cli.slurm.job_command import job_command, job_settings
from weir.cli.slurm.site_table import SiteNames
from weir.cli.slurm.submission_fields import map_job
from weir.slurm.errors import SlurmError

PATIENCE_S = 180.0
REFUSED = ("input_file",)
DIFFERENT = {
    "background_left": "the pod ends with its script, and a batch program waits for its output",
    "export_all": "the variables of the shell stay there",
    "hostnames": "there is no scontrol show hostlist",
    "multi_prog": "there is no srun --multi-prog",
}
"""Scripts that don't print the same as on one machine, and the reason."""
TWO_PODS = """#!/bin/sh
#SBATCH -J gang --nodes=2 --ntasks=3 --gpus-per-node=2
echo "pod $SLURM_NODEID first $SLURM_PROCID of $SLURM_NTASKS, $SLURM_TASKS_PER_NODE, ${RANK-no} rank"
scontrol show hostnames "$SLURM_JOB_NODELIST"
srun -l sh -c 'echo task $SLURM_PROCID local $SLURM_LOCALID node $SLURM_NODEID of $SLURM_NNODES'
srun -N1 -n1 true || echo refused
"""


def local_outcome(words: list[str], directory: Path) -> tuple[int, str]:
    """Return the exit code and the output of a script as a pool of one machine runs it."""
    script = pods.script_of(*words)
    job = map_job(script.request, SiteNames([]))
    settings = job_settings(script.request, job.resources, script.name, str(directory))
    exported = exported_variables(
        script.request.text("export") if script.request.has("export") else None, os.environ
    )
    devices = ",".join(map(str, range(job.resources.gpus)))
    variables = {**exported.variables, "PATH": os.environ["PATH"], "WEIR_POD_ID": "12/1-0-0"}
    if devices:
        variables |= {"WEIR_DEVICES": devices, "CUDA_VISIBLE_DEVICES": devices}
    done = subprocess.run(
        job_command(settings, script.text, script.arguments),
        cwd=directory / script.request.text("chdir"),
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return code, done.stdout + done.stderr


@pytest.mark.parametrize("name", names())
def test_a_script_prints_the_same_in_a_pod_as_on_one_machine(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in VARIABLES.items():
        monkeypatch.setenv(key, value)
    here, there = tmp_path / "machine", tmp_path / "pod"
    words = prepare(name, there)
    monkeypatch.chdir(there)
    if name in REFUSED:
        with pytest.raises(SlurmError):
            pods.mapped(pods.script_of(*words))
        return
    code, out, err = pods.run_pod(pods.job_of_script(pods.script_of(*words)), there).result()
    prepare(name, here)
    if name == "background_left":
        assert (code, out) == (0, "done, and a process stays\n")
        return
    local_code, local = local_outcome(words, here)
    assert code == local_code
    same = sorted((out + err).replace(str(there), "").split()) == sorted(local.replace(str(here), "").split())
    assert same == (name not in DIFFERENT), (out, err, local)
    for file in here.rglob("*.txt"):
        assert (there / file.relative_to(here)).read_text() == file.read_text()


def job_of(directory: Path, text: str, *words: str) -> pods.Job:
    (directory / "job.sh").write_text(text)
    return pods.job_of_script(pods.script_of(*words, str(directory / "job.sh")))


def test_the_pods_of_a_job_start_its_tasks_together(tmp_path: Path) -> None:
    job = job_of(tmp_path, TWO_PODS)
    name, domain = job["metadata"]["name"], job["spec"]["template"]["spec"]["subdomain"]
    outputs = [pods.run_pod(job, tmp_path, index).result() for index in (0, 1)]
    hosts = f"{name}-0.{domain}\n{name}-1.{domain}\n"
    lines = ["0: task 0 local 0 node 0 of 2", "1: task 1 local 1 node 0 of 2", "refused"]
    first, *others = outputs[0][1].splitlines()
    assert (outputs[0][0], first) == (0, "pod 0 first 0 of 3, 2,1, no rank")
    assert sorted(others) == sorted([*hosts.split(), *lines])
    assert outputs[1][1] == (
        f"pod 1 first 2 of 3, 2,1, no rank\n{hosts}2: task 2 local 0 node 1 of 2\nrefused\n"
    )
    assert "a step runs in all 2 pods: write [ $SLURM_NODEID = 0 ] && COMMAND" in outputs[1][2]


@pytest.mark.parametrize(("array", "indices"), [("0-3", [0, 3]), ("10-30:10%2", [10, 30]), ("2,7,9", [2, 9])])
def test_a_pod_of_an_array_has_its_index_and_a_number_of_its_own(
    array: str, indices: list[int], tmp_path: Path
) -> None:
    text = "echo $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MAX $SLURM_JOB_ID"
    job = job_of(tmp_path, f"#!/bin/sh\n{text} $SLURM_ARRAY_JOB_ID $SLURM_NODEID\n", f"--array={array}")
    number, last = int(job["metadata"]["labels"]["weir.dev/slurm-job"]), job["spec"]["completions"] - 1
    for position, index in zip((0, last), indices, strict=True):
        code, out, err = pods.run_pod(job, tmp_path, position).result()
        assert (code, err) == (0, "")
        assert out == f"{index} {last + 1} {indices[-1]} {number + 1 + position} {number} 0\n"


def test_no_text_of_the_script_is_replaced_by_the_kubelet(tmp_path: Path) -> None:
    text = "#!/bin/sh\necho $(echo $(echo in)) '$$(SLURM_JOB_ID) $(SLURM_JOB_ID) $$$$' \"$1\" $$ $((1 + 1))\n"
    job = job_of(tmp_path, text, "--job-name=$(HOME) $$ `id`")
    job["spec"]["template"]["spec"]["containers"][0]["command"].append(literal("a $(PATH) $$ 'b\""))
    _, out, err = pods.run_pod(job, tmp_path).result()
    words = out.split()
    assert (words[:2], err) == (["in", "$$(SLURM_JOB_ID)"], "")
    assert "$(SLURM_JOB_ID) $$$$ a $(PATH) $$ 'b\" " in out
    assert words[-2].isdigit()
    assert pods.variables_of(job)["SLURM_JOB_NAME"] == "$(HOME) $$ `id`"


def test_the_interpreter_of_the_first_line_runs_the_script(tmp_path: Path) -> None:
    text = "#!/usr/bin/env python3\nimport os, sys, json\nprint(json.dumps([sys.argv[1:], os.environ['SLURM_NTASKS']]))\n"
    (tmp_path / "job.sh").write_text(text)
    words = ("-n2", str(tmp_path / "job.sh"), "two words", "--x=$(id)")
    _, out, _ = pods.run_pod(pods.job_of_script(pods.script_of(*words)), tmp_path).result()
    assert json.loads(out) == [["two words", "--x=$(id)"], "2"]
    lacking = job_of(tmp_path, "#!/opt/none/fish\necho\n")
    (tmp_path / "second").mkdir()
    code, _, err = pods.run_pod(lacking, tmp_path / "second").result()
    assert code == 127
    assert "the image has no /opt/none/fish" in err


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--export=TMPDIR=/nonexistent", "a job script needs a directory to write to"),
        ("--chdir=/nonexistent", "the image has no directory /nonexistent: check --chdir"),
    ],
)
def test_a_directory_that_an_image_lacks_is_named(option: str, hint: str, tmp_path: Path) -> None:
    code, out, err = pods.run_pod(job_of(tmp_path, "#!/bin/sh\necho never\n", option), tmp_path).result()
    assert (code, out, hint in err) == (1, "", True)


STEPS = """#!/bin/bash
#SBATCH --gpus=2 -n2
for i in 1 2 3 4; do
    srun -n1 --exact --gpus-per-task=1 sh -c '
        mkdir "gpu-$CUDA_VISIBLE_DEVICES" || exit 3; sleep 0.2; rmdir "gpu-$CUDA_VISIBLE_DEVICES"' &
    steps="$steps $!"
done
for step in $steps; do wait $step || exit 1; done
srun -K sh -c '[ $SLURM_PROCID = 1 ] && exit 5; sleep 600'
"""


def test_steps_share_the_gpus_of_a_pod_and_end_with_a_task_that_fails(tmp_path: Path) -> None:
    code, _, err = pods.run_pod(job_of(tmp_path, STEPS), tmp_path).result()
    assert "task 1: Exited with exit code 5" in err
    assert code == 128 + signal.SIGTERM, "the other task was ended"


def test_a_stop_at_any_moment_of_the_start_ends_the_pod(tmp_path: Path) -> None:
    for moment in range(15):
        (tmp_path / str(moment)).mkdir()
        pod = pods.run_pod(job_of(tmp_path, "#!/bin/sh\nsleep 600\n"), tmp_path / str(moment))
        time.sleep(moment * 0.004)
        pod.process.send_signal(signal.SIGTERM)
        assert pod.result()[0] in (128 + signal.SIGTERM, -signal.SIGTERM)  # before the first trap, too


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


NOTICED = "trap 'echo notice; exit 3' USR1; touch ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("signal_option", "body"),
    [("B:USR1@60", NOTICED), ("USR1@60", f'srun bash -c "{NOTICED}"')],
    ids=["script", "steps"],
)
def test_a_signal_comes_before_the_end(signal_option: str, body: str, tmp_path: Path) -> None:
    job = job_of(tmp_path, f"#!/bin/bash\n#SBATCH --signal={signal_option} --time=10\n{body}\n")
    assert job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 60
    pod = pods.run_pod(job, tmp_path)
    wait_for((tmp_path / "ready").exists)
    pod.process.send_signal(signal.SIGTERM)
    assert pod.result()[:2] == (3, "notice\n")
    (tmp_path / "limit").mkdir()
    until_ready = "while [ ! -e ready ]; do /bin/sleep 0.05; done"
    stub = f'#!/bin/sh\n[ "$1" = 540 ] || exec /bin/sleep "$@"\n{until_ready}\n'
    limited = pods.run_pod(job, tmp_path / "limit", programs={"sleep": stub})
    assert limited.result()[:2] == (3, "notice\n"), "60 s before the time limit"


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="Needs root and unshare.")
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_programs_of_a_container_save_their_work_after_the_script_was_stopped(
    shell: str, tmp_path: Path
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"There is no {shell} here.")
    saves = "trap 'sleep 0.5; echo saved; exit 0' TERM; touch ready; while :; do sleep 0.05; done"
    job = job_of(tmp_path, f'#!/bin/sh\nsrun sh -c "{saves}"\n')
    isolated = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    pod = pods.run_pod(job, tmp_path, shell=(shell,), wrapper=isolated)
    wait_for((tmp_path / "ready").exists)
    (child,) = Path(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    code, out, _ = pod.result()
    assert (code, out) == (128 + signal.SIGTERM, "saved\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--bogus", "true"), "--bogus is no option that srun has in a pod"),
        (("-n",), "-n has no value"),
        (("-n0", "true"), "write a whole number from 1"),
        (("--label=1", "true"), "--label takes no value"),
        (("-n3", "true"), "asks for 3 CPUs, and the pod has 2"),
        (("--gres=gpu:1", "true"), "asks for 1 GPUs, and the pod has 0"),
        (("--pty", "bash"), "weir exec"),
        (("--mpi=pmix", "./a"), "offers no PMI"),
        (("-o", "%5j", "true"), "without numbers"),
        ((), "no command is named"),
    ],
)
def test_srun_refuses_in_a_sentence(words: tuple[str, ...], hint: str, tmp_path: Path) -> None:
    job = job_of(tmp_path, '#!/bin/sh\n#SBATCH -n2\nshift; srun "$@"\n')
    job["spec"]["template"]["spec"]["containers"][0]["command"] += ["first", *words]
    code, _, err = pods.run_pod(job, tmp_path).result()
    assert (code, err.startswith("srun: error: "), hint in err) == (1, True, True), err


@pytest.mark.parametrize(
    ("listed", "hosts"),
    [
        ("n[1-3,08-10],login", "n1 n2 n3 n08 n09 n10 login"),
        ("a[0-1]-b[1,3].x,c", "a0-b1.x a0-b3.x a1-b1.x a1-b3.x c"),
        ("one", "one"),
        ("n[3-1]", None),
        ("n[1", None),
        ("n1,,n2", None),
        ("n[a-b]", None),
    ],
)
def test_scontrol_expands_lists_of_hosts(listed: str, hosts: str | None, tmp_path: Path) -> None:
    job = job_of(tmp_path, f"#!/bin/sh\nscontrol show hostnames '{listed}'\n")
    code, out, err = pods.run_pod(job, tmp_path).result()
    if hosts is None:
        assert (code, "is no list of hosts" in err) == (1, True)
    else:
        assert (code, out.split(), err) == (0, hosts.split(), "")


def test_a_reader_that_wants_the_first_host_alone_is_no_error(tmp_path: Path) -> None:
    body = "for n in 1 2 3 4 5 6 7 8 9; do scontrol show hostnames 'n[0-999].x' | head -n 1; done"
    job = job_of(tmp_path, f"#!/bin/sh\n{body}\n")
    assert pods.run_pod(job, tmp_path).result() == (0, "n0.x\n" * 9, "")


PROGRAMS = ("sh", "mkdir", "chmod", "id", "cat", "rm", "sleep", "mkfifo", "env", "sed", "grep")


def test_a_pod_needs_a_shell_and_few_programs(tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    for name in PROGRAMS:
        (tmp_path / "only" / name).symlink_to(shutil.which(name) or name)
    body = "scontrol show job | grep -c JobId\nsrun -l --export=NONE sh -c 'echo in $SLURM_JOB_NAME'"
    job = job_of(tmp_path, f"#!/bin/sh\n#SBATCH -J few\n{body}\n")
    pod = pods.run_pod(job, tmp_path, path=str(tmp_path / "only"))
    assert pod.result() == (0, "1\n0: in few\n", "")


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        ("squeue -h -j $SLURM_JOB_ID -o '%T %j %l'", 0, "RUNNING few 1:00:00\n"),
        ("squeue -hj $SLURM_JOB_ID -o '%.9T|%9t|'", 0, "  RUNNING|R        |\n"),
        ("squeue -u $USER", 1, "squeue: error: -u has no answer in a job: weir list lists the workloads\n"),
        ("squeue -j 1", 1, "squeue: error: job 1 is another one: weir describe NAME shows it\n"),
        ("scancel 1", 1, "scancel: error: a pod may stop no workload: weir stop NAME ends it\n"),
        ("sinfo", 1, "sinfo: error: Weir has no sinfo: weir nodes lists the nodes\n"),
        ("sacct", 1, "sacct: error: Weir has no sacct: weir describe NAME shows its times and use\n"),
    ],
)
def test_programs_of_the_queue_answer_for_the_job_or_name_the_command_of_weir(
    words: str, code: int, output: str, tmp_path: Path
) -> None:
    job = job_of(tmp_path, f"#!/bin/sh\n#SBATCH -J few --time=1:00:00\n{words}\n")
    found, out, err = pods.run_pod(job, tmp_path).result()
    assert (found, out + err) == (code, output)


def test_squeue_in_a_pod_has_the_columns_of_slurm(tmp_path: Path) -> None:
    job = job_of(tmp_path, "#!/bin/sh\n#SBATCH -J few -p gpu\nsqueue -j $SLURM_JOB_ID\n")
    code, out, err = pods.run_pod(job, tmp_path).result()
    head, row = out.splitlines()
    assert (code, err) == (0, "")
    assert head.split() == ["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"]
    assert row.split()[1:3] == ["gpu", "few"]
    assert len(row.split()) == 8
