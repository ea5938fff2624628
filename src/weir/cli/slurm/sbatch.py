"""`weir sbatch`: a job script of Slurm becomes a workload, as it is."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from weir.api.name_endings import random_ending
from weir.cli.options.mistakes import option_mistakes, refusals_in
from weir.cli.output.outputs import naming
from weir.cli.output.terminal import plain
from weir.cli.pool.connect import connect
from weir.cli.pool.default_project import note_taken, project_words, usable_projects
from weir.client.errors import Refused
from weir.slurm.errors import SlurmError

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.cli.cluster.slurm_jobs import ClusterJobs
    from weir.cli.slurm.batch_script import BatchScript
    from weir.cli.slurm.submission_fields import MappedScript
    from weir.client.api import Pool
    from weir.slurm.batch_request import BatchRequest

app = App(
    name="sbatch",
    help="Submit a job script of Slurm as it is.",
    help_flags=["--help", "-h"],
    version_flags=[],
    end_of_options_delimiter="\0",  # no word equals this, so all words are passed on
)
_NAMES_TRIED_MAX = 8
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

    The script gets the variables of Slurm, and srun, scontrol and squeue on its path. It writes the same
    output files as with Slurm. Options are those of sbatch: the command line overrides SBATCH_* variables,
    and both override #SBATCH lines. Options with another meaning in Weir are reported. On a cluster the
    script runs in pods of a container image, and its output is in their logs.

    Parameters
    ----------
    words
        Options of sbatch, the script and its arguments. Without a script, it is read from standard input.
        --best-effort ignores options that Weir doesn't have. --project names the project. On a cluster
        --image names the container image, and --namespace the namespace if the project has several.
    """
    from weir.cli.slurm.batch_script import read_batch_script

    with option_mistakes(), refusals_in(_in_options):
        on_cluster = _is_cluster()
        script = read_batch_script(words, os.environ)
        if on_cluster:
            from weir.cli.cluster.slurm_jobs import ClusterJobs

            with ClusterJobs(script.namespace) as jobs:
                return _submit(jobs.pool, script, _for_cluster(jobs, script))
        with connect() as pool:
            return _submit(pool, script, _for_machine(pool, script))


def _is_cluster() -> bool:
    """Return True for a cluster. A pool has to be on this machine: the job reads and writes files here.

    Raises:
        SlurmError: the pool is elsewhere.
    """
    from weir.client.address import find

    address = find()
    if not address.is_cluster and not address.is_loopback:
        right = "log in there, or write `weir import sbatch` to convert the script"
        raise SlurmError(f"a script of Slurm is submitted on the machine of its pool: {right}")
    return address.is_cluster


class _Prepared(NamedTuple):
    """A script that may be submitted: `bodies` are submissions of it, each with another name."""

    job: "MappedScript"
    project: str
    bodies: Iterator[Mapping[str, Any]]


def _for_machine(pool: "Pool", script: "BatchScript") -> _Prepared:
    from weir.cli.slurm.site_table import site_names
    from weir.cli.slurm.submission_fields import map_job

    for option, text in (("image", script.image), ("namespace", script.namespace)):
        if text is not None:
            raise SlurmError(f"--{option} is for clusters: leave it out, or set WEIR_URL=kube:")
    job = map_job(
        script.request,
        site_names(),
        foreign=script.directives.foreign,
        models=_models(pool, script),
        best_effort=script.best_effort,
    )
    project = _project(pool, script, job)
    return _Prepared(job, project, _renamed(_body(script, job, project)))


def _for_cluster(jobs: "ClusterJobs", script: "BatchScript") -> _Prepared:
    from weir.cli.slurm.cluster_script import bodies, map_cluster_job
    from weir.cli.slurm.site_table import site_names

    job = map_cluster_job(script, site_names(), _models(jobs.pool, script))
    project = _project(jobs.pool, script, job)
    for kind in ("after", "after_ok", "after_not_ok", "after_any"):
        if kind in job.fields:
            job.fields[kind] = [jobs.name_of(number, project) for number in job.fields[kind]]
    return _Prepared(job, project, bodies(script, job, project))


def _submit(pool: "Pool", script: "BatchScript", prepared: _Prepared) -> int:
    from weir.slurm.job_number import NUMBER

    request, job = script.request, prepared.job
    if request.has("test-only"):
        print(f"Nothing is submitted. The project is {prepared.project}.", file=sys.stderr)
        _print_ledger(job, request)
        return 0
    made, body = _queued(pool, prepared.bodies)
    number = body["env"].get(NUMBER, made.uid)
    if request.has("parsable") or not request.has("quiet"):
        with naming(f"{plain(made.name)} is queued in {made.project} as batch job {number}"):
            print(number if request.has("parsable") else f"Submitted batch job {number}")
    if pool.address.is_cluster and not (request.has("parsable") or request.has("quiet")):
        from weir.cli.submissions.submit import logs_command

        print(f"`{logs_command(made)}` follows its output.", file=sys.stderr)
    _print_ledger(job, request)
    if request.has("wait"):
        from weir.cli.workloads.logs import wait_to_end

        return wait_to_end(pool, made.name)
    return 0


def _print_ledger(job: "MappedScript", request: "BatchRequest") -> None:
    """Print the options that mean something else, with --verbose all of them."""
    for line in job.ledger if not request.has("quiet") else ():
        if line.outcome != "kept" or request.has("verbose"):
            print(plain(str(line)), file=sys.stderr)


def _models(pool: "Pool", script: "BatchScript") -> Sequence[str]:
    """Return the models of the GPUs, if the script names one."""
    request = script.request
    gpus = (*request.gpus, *request.gpus_per_node, *request.gpus_per_task, *request.gpus_per_socket)
    if all(gpu.model is None for gpu in gpus):
        return ()
    models = (device.model for node in pool.nodes() for device in node.devices)
    return sorted({model for model in models if model is not None})


def _project(pool: "Pool", script: "BatchScript", job: "MappedScript") -> str:
    """Return the project of a job.

    Raises:
        SlurmError: no project is named.
    """
    project = script.project or job.fields.get("project") or os.environ.get("WEIR_PROJECT")
    if project:
        return str(project)
    usable = usable_projects(pool)
    if len(usable) == 1:
        if not script.request.has("quiet"):
            note_taken(usable[0])
        return usable[0]
    names = usable or [row.name for row in pool.projects()]
    partition = script.request.text("partition") if script.request.has("partition") else ""
    if partition in names:
        right = f"--partition={partition} is a partition of Slurm; write --project={partition}"
    else:
        whose = "yours are" if usable else "the projects are"
        right = f"write --project=NAME; {whose} {project_words(names)}"
    raise SlurmError(f"no project is named: {right if names else 'an administrator creates one first'}")


def _body(script: "BatchScript", job: "MappedScript", project: str) -> dict[str, Any]:
    """Return the whole submission to the pool of this machine."""
    from weir.cli.slurm.exported_variables import exported_variables
    from weir.cli.slurm.job_command import job_command, job_settings
    from weir.cli.slurm.workload_names import workload_name
    from weir.slurm.ledger import DirectiveOutcome

    request, directory = script.request, _current_directory()
    exported = exported_variables(request.text("export") if request.has("export") else None, os.environ)
    for name in exported.secret:
        why = (
            f"looks secret, and would be stored with the job: write --export=ALL,{name} or `weir secret set`"
        )
        job.ledger.append(DirectiveOutcome("ignored", name, why, "variable"))
    settings = job_settings(request, job.resources, script.name, directory)
    return {
        **job.fields,
        "project": project,
        "name": workload_name(script.name),
        "env": dict(exported.variables),
        "directory": str(Path(directory, request.text("chdir"))),
        "command": job_command(settings, script.text, script.arguments),
    }


def _current_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        raise SlurmError("the current directory is gone: change to another one") from None


def _in_options(text: str) -> str:
    """Return a refusal with options of sbatch instead of fields."""

    def option(match: re.Match[str]) -> str:
        return f"--{_OPTIONS[match[1]]}: " if match[1] in _OPTIONS else ""

    return re.sub(r"(?:(?<=^)|(?<=; ))(?:pods\[0\][\w.\[\]]*: )?(?:(\w+)(?:\[\d+\])?: )?", option, text)


def _queued(pool: "Pool", bodies: Iterator[Mapping[str, Any]]) -> "tuple[WorkloadDetail, Mapping[str, Any]]":
    """Submit the first body whose name no other workload has; return the workload and the body."""
    for tries_left in reversed(range(_NAMES_TRIED_MAX)):
        body = next(bodies)
        try:
            return pool.submit(body), body
        except Refused as refused:
            if refused.status != _TAKEN or not tries_left:
                raise
    raise AssertionError("the last try raises")


def _renamed(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a body with its name, then with suffixes: jobs of Slurm may share a name."""
    yield body
    while True:
        yield {**body, "name": f"{body['name']}-{random_ending(_SUFFIX_LENGTH)}"}
