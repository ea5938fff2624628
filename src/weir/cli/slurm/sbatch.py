"""`weir sbatch`: a job script of Slurm becomes a workload, as it is."""

import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from weir.cli.connect import connect
from weir.cli.terminal import plain
from weir.client.errors import Refused
from weir.slurm.errors import SlurmError

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.cli.slurm.batch_script import BatchScript
    from weir.cli.slurm.submission_fields import MappedScript
    from weir.client.api import Pool
    from weir.slurm.batch_request import BatchRequest

app = App(
    name="sbatch",
    help="Submit a job script of Slurm as it is.",
    help_flags=["--help", "-h"],
    version_flags=[],
    end_of_options_delimiter="\0",  # no word is this, so all words are passed on
)
_NAMES_TRIED_MOST = 8
_LETTERS = "23456789bcdfghjkmnpqrstvwxz"
_SUFFIX_LENGTH = 4
_TAKEN = 409
_OPTIONS = {
    "project": "account",
    "gpus": "gpus",
    "gpu_models": "gres",
    "cpu": "cpus-per-task",
    "memory": "mem",
    "max_runtime": "time",
    "nodes": "nodelist",
    "array": "array",
    "begin": "begin",
    "directory": "chdir",
    "env": "export",
    **dict.fromkeys(("after", "after_ok", "after_not_ok", "after_any"), "dependency"),
}
"""Option of sbatch for a field of a submission."""


@app.default
def sbatch(*words: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Submit a job script of Slurm as it is, as in `weir sbatch --time=2:00:00 train.sh`.

    The script runs with the variables it expects and with srun and scontrol on its path. It writes the files
    that Slurm would write. Options are those of sbatch: the command line goes before SBATCH_* variables, and
    both go before #SBATCH lines. What means something else in Weir is said.

    Parameters
    ----------
    words
        Options of sbatch, the script and its arguments. Without a script it is read from the input.
        --best-effort goes on without options that Weir doesn't have. --project names the project.
    """
    from weir.cli.slurm.batch_script import read_batch_script

    try:
        _check_place()
        script = read_batch_script(words, os.environ)
        with connect() as pool:
            return _submit(pool, script)
    except SlurmError as error:
        print(f"weir: {plain(str(error))}.", file=sys.stderr)
    except Refused as refused:
        print(f"weir: {plain(_in_options(str(refused)))}", file=sys.stderr)
        return 2 if refused.is_ours else 1
    return 2


def _check_place() -> None:
    """Check that the pool is on this machine: the job reads and writes files here.

    Raises:
        SlurmError: it is elsewhere.
    """
    from weir.client.address import find

    address = find()
    if address.is_cluster:
        submit = "`weir submit -f FILE --image IMAGE` submits that"
        raise SlurmError(
            f"a cluster runs no scripts of Slurm: `weir import sbatch SCRIPT > FILE`, and {submit}"
        )
    if not address.is_loopback:
        right = "log in there, or write `weir import sbatch` to convert the script"
        raise SlurmError(f"a script of Slurm is submitted on the machine of its pool: {right}")


def _submit(pool: "Pool", script: "BatchScript") -> int:
    from weir.cli.slurm.site_table import site_names
    from weir.cli.slurm.submission_fields import map_job

    request = script.request
    models = _models(pool) if any(name.startswith(("gpus", "gres")) for name in request.options) else ()
    job = map_job(
        request,
        site_names(),
        foreign=script.directives.foreign,
        models=models,
        best_effort=script.best_effort,
    )
    body = _body(script, job)
    if request.has("test-only"):
        print(f"Nothing is submitted. The project is {body['project']}.", file=sys.stderr)
        _print_ledger(job, request)
        return 0
    made = _queued(pool, body)
    if request.has("parsable"):
        print(made.uid, flush=True)
    elif not request.has("quiet"):
        print(f"Submitted batch job {made.uid}", flush=True)
    _print_ledger(job, request)
    if request.has("wait"):
        from weir.cli.logs import wait_to_end

        return wait_to_end(pool, made.name)
    return 0


def _print_ledger(job: "MappedScript", request: "BatchRequest") -> None:
    """Print the options that mean something else, with --verbose all of them."""
    for line in job.ledger if not request.has("quiet") else ():
        if line.fate != "kept" or request.has("verbose"):
            print(plain(str(line)), file=sys.stderr)


def _models(pool: "Pool") -> Sequence[str]:
    found = (device.model for node in pool.nodes() for device in node.devices)
    return sorted({model for model in found if model is not None})


def _body(script: "BatchScript", job: "MappedScript") -> dict[str, Any]:
    """Return the whole submission.

    Raises:
        SlurmError: no project is named.
    """
    from weir.cli.slurm.exported_variables import exported_variables
    from weir.cli.slurm.job_command import job_command
    from weir.cli.slurm.workload_names import workload_name
    from weir.slurm.ledger import DirectiveFate

    request, here = script.request, _here()
    body: dict[str, Any] = dict(job.fields)
    project = script.project or body.get("project") or os.environ.get("WEIR_PROJECT")
    if not project:
        right = "write --project=NAME or --account=NAME; `weir project list` shows which there are"
        raise SlurmError(f"no project is named: {right}")
    exported = exported_variables(request.text("export") if request.has("export") else None, os.environ)
    for name in exported.secret:
        why = (
            f"looks secret, and would be stored with the job: write --export=ALL,{name} or `weir secret set`"
        )
        job.ledger.append(DirectiveFate("ignored", name, why, "variable"))
    return {
        **body,
        "project": project,
        "name": workload_name(script.name),
        "env": dict(exported.variables),
        "directory": str(Path(here, request.text("chdir"))),
        "command": job_command(request, job.resources, script.name, script.text, script.arguments, here),
    }


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        raise SlurmError("the current directory is gone: change to another one") from None


def _in_options(text: str) -> str:
    """Return a refusal with options of sbatch instead of fields."""

    def option(match: re.Match[str]) -> str:
        return f"--{_OPTIONS[match[1]]}: " if match[1] in _OPTIONS else ""

    return re.sub(r"(?:(?<=^)|(?<=; ))(?:pods\[0\][\w.\[\]]*: )?(?:(\w+)(?:\[\d+\])?: )?", option, text)


def _queued(pool: "Pool", body: Mapping[str, Any]) -> "WorkloadDetail":
    """Submit a job; its name gets a suffix if another workload has it, as jobs of Slurm may share a name."""
    name = body["name"]
    for tries_left in reversed(range(_NAMES_TRIED_MOST)):
        try:
            return pool.submit({**body, "name": name})
        except Refused as refused:
            if refused.status != _TAKEN or not tries_left:
                raise
            name = f"{body['name']}-{''.join(secrets.choice(_LETTERS) for _ in range(_SUFFIX_LENGTH))}"
    raise AssertionError("the last try raises")
