"""A job script as a Job of a cluster: fields, command, variables, and the outcome of each directive.

The script and its programs travel in the words of the command, not in a ConfigMap: a Job is created whole or
not at all, needs no further right, and `weir rerun` finds the script with it. A word may have 128 KiB.
"""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weir.cli.cluster.array_job import array_env
from weir.cli.slurm.batch_script import BatchScript
from weir.cli.slurm.cluster_options import for_cluster
from weir.cli.slurm.exported_variables import exported_variables
from weir.cli.slurm.job_command import OF_OPTIONS, job_settings
from weir.cli.slurm.script_texts import (
    body_of,
    slurm_programs_in,
    slurm_variables_in,
    variables_in,
    words_in,
)
from weir.cli.slurm.site_table import SiteNames
from weir.cli.slurm.submission_fields import MappedScript, map_job
from weir.cli.slurm.workload_names import job_name
from weir.cli.submissions.job_script import program_of
from weir.model.array_indices import read_indices
from weir.slurm.errors import SlurmError
from weir.slurm.job_number import NUMBER_MAX, NUMBER_MIN
from weir.slurm.ledger import DirectiveOutcome
from weir.slurm.pod_script import DIRECTORY_MARK, pod_command, pod_variables

POD_BYTES_MAX = 256 << 20
"""Size of the scripts in all pods of a job at once: the API server holds each pod."""
_STARTS_ELSEWHERE = ("mpirun", "mpiexec", "pdsh", "clush")
_LACKING = {
    "--multi-prog": "choose the program by $SLURM_PROCID",
    "scontrol show hostlist": "write scontrol show hostnames",
}
"""Texts of a script that its srun and scontrol refuse."""
_COMMANDS = {
    "sacct": "write weir describe NAME elsewhere",
    "scancel": "write weir stop NAME elsewhere",
    "sinfo": "write weir nodes elsewhere",
    "sstat": "write weir describe NAME elsewhere",
}
_OF_SHELL = frozenset(("HOME", "HOSTNAME", "LANG", "PATH", "PWD", "SHELL", "TMPDIR", "USER"))
_LISTED_MAX = 8


def map_cluster_job(script: BatchScript, names: SiteNames, models: Sequence[str]) -> MappedScript:
    """Return the fields of a Job without command and variables, with the outcome of each directive.

    Raises:
        SlurmError: an option has no counterpart, or no image is named.
    """
    job = map_job(
        for_cluster(script.request),
        names,
        foreign=script.directives.foreign,
        models=models,
        best_effort=script.best_effort,
        on_cluster=True,
    )
    image = script.image or names.image
    if not image:
        right = "write --image=IMAGE, or image: IMAGE in the site table"
        raise SlurmError(f"no image is named for the pods: {right}")
    job.fields["image"] = image
    _check_nodes(script, job)
    job.ledger += _of_shell(script)
    job.ledger += _of_body(script, pod_settings(script, job, 0))
    return job


def bodies(script: BatchScript, job: MappedScript, project: str) -> Iterator[dict[str, Any]]:
    """Yield submissions, each with another number and name.

    Raises:
        SlurmError: the script is too large for as many pods.
    """
    command = pod_command(_program(script.interpreter), script.text, script.arguments)
    _check_size(job, command)
    exported = _exported(script)
    while True:
        number = NUMBER_MIN + secrets.randbelow(NUMBER_MAX - NUMBER_MIN)
        yield {
            **job.fields,
            "project": project,
            "name": job_name(script.name, number),
            "env": {**exported, **pod_settings(script, job, number)},
            "command": command,
        }


def pod_settings(script: BatchScript, job: MappedScript, number: int) -> dict[str, str]:
    """Return the variables of the pods of a job."""
    resources, array = job.resources, job.fields.get("array")
    settings = job_settings(script.request, resources, script.name, DIRECTORY_MARK, nodes=resources.pods)
    array_variables = None
    if array is not None:
        array_variables = {
            variable["name"]: variable["value"] for variable in array_env(array) if "value" in variable
        }
    return pod_variables(
        settings,
        number,
        gpus=resources.gpus,
        chdir=script.request.text("chdir"),
        array_variables=array_variables,
    )


def _program(interpreter: Sequence[str]) -> str:
    """Return the program that the image needs: the interpreter, or the one that `env` finds.

    Raises:
        SlurmError: none is named.
    """
    if not interpreter:
        raise SlurmError("line 1 names no interpreter: write one such as #!/bin/bash")
    through_env = interpreter[0].rpartition("/")[2] == "env"
    return program_of(interpreter) if through_env else interpreter[0]


def _check_nodes(script: BatchScript, job: MappedScript) -> None:
    """Check that a script for several nodes means the same if each pod runs it.

    Raises:
        SlurmError: Slurm would run its body on the first node alone.
    """
    pods, words = job.resources.pods, words_in(body_of(script.text))
    if pods == 1:
        return
    elsewhere = [word for word in _STARTS_ELSEWHERE if word in words]
    if elsewhere:
        why = f"{elsewhere[0]} reaches no other pod"
        right = "write srun in its place, or an MPIJob"
    elif "srun" not in words:
        why = "without srun Slurm runs a script on the first node alone, and here each pod runs it"
        right = "write srun before the command that all nodes run, or --nodes=1"
    else:
        return
    if not script.best_effort:
        raise SlurmError(f"--nodes={pods}: {why}: {right}; --best-effort goes on so")
    job.ledger.append(DirectiveOutcome("changed", "script", why))


def _check_size(job: MappedScript, command: Sequence[str]) -> None:
    """Check the size of the scripts in all pods of a job.

    Raises:
        SlurmError: the API server would hold too much.
    """
    pods, array = job.resources.pods, job.fields.get("array")
    if array is not None:
        indices = read_indices(array)
        pods = min(len(indices), indices.at_once or len(indices))
    size = sum(len(word.encode()) for word in command)
    if pods * size > POD_BYTES_MAX:
        right = "put its work into a file of the image, or limit the array, such as --array=0-999%100"
        raise SlurmError(
            f"the script has {size:,} bytes with its programs, and {pods:,} pods hold it: {right}"
        )


def _exported(script: BatchScript) -> dict[str, str]:
    """Return the variables that --export names; the others of the shell aren't passed on."""
    words = script.request.text("export").split(",")
    named = ",".join(word for word in words if word != "ALL")
    return dict(exported_variables(named, os.environ).variables)


def _of_shell(script: BatchScript) -> list[DirectiveOutcome]:
    """Return the outcome for the variables of the submitting shell."""
    request = script.request
    if request.has("export") and "ALL" not in request.text("export").split(","):
        return []
    given, passed = request.options.get("export"), _exported(script)
    used = [name for name in variables_in(body_of(script.text)) if name in os.environ]
    left = [name for name in used if name not in passed and name not in _OF_SHELL and "SLURM" not in name]
    why = "the variables of this shell stay here"
    if left:
        named = ",".join(left[:_LISTED_MAX])
        why += f", and the script names some: write --export={named} to pass them on"
    return [DirectiveOutcome("changed", "--export=ALL", why, given.where if given else "default")]


def _of_body(script: BatchScript, variables: Mapping[str, str]) -> list[DirectiveOutcome]:
    """Return the outcomes of variables and programs that the script names."""
    body = body_of(script.text)
    variable_names = {name for key, value in variables.items() for name in (key, *_filled(key, value))}
    outcomes = [
        DirectiveOutcome("ignored", name, "isn't set", "script")
        for name in slurm_variables_in(body)
        if name not in variable_names and name not in OF_OPTIONS and not _is_of_step(name)
    ]
    if "SLURM_SUBMIT_DIR" in slurm_variables_in(body):
        why = "is the directory in which the image starts"
        outcomes.append(DirectiveOutcome("changed", "SLURM_SUBMIT_DIR", why, "script"))
    for text, instead in _LACKING.items():
        if text in body:
            outcomes.append(DirectiveOutcome("ignored", text, f"isn't in the pod: {instead}", "script"))
    if "squeue" in slurm_programs_in(body):
        outcomes.append(DirectiveOutcome("changed", "squeue", "answers for its own job alone", "script"))
    lacking = (
        program for program in slurm_programs_in(body) if program not in ("srun", "scontrol", "squeue")
    )
    return outcomes + [
        DirectiveOutcome("ignored", program, _instead_of(program), "script") for program in lacking
    ]


def _instead_of(program: str) -> str:
    """Return the outcome of a program that a pod can't run, with the command of Weir."""
    return f"isn't in the pod{f': {_COMMANDS[program]}' if program in _COMMANDS else ''}"


def _filled(key: str, value: str) -> Sequence[str]:
    """Return the names that the pod fills."""
    return value.split() if key.endswith("_VARIABLES") else ()


def _is_of_step(name: str) -> bool:
    """Return True for a variable that srun sets for its tasks, or a prefix of one."""
    return name.startswith(("SLURM_STEP", "SLURM_LAUNCH")) or name.endswith("_") or name == "SLURM"
