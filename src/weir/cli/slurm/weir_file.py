"""`weir import sbatch`: a job script of Slurm as a submission of Weir, with a ledger."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir.cli.slurm.batch_script import BatchScript
from weir.cli.slurm.script_texts import body_of, slurm_programs_in, slurm_variables_in
from weir.cli.slurm.site_table import SiteNames
from weir.cli.slurm.submission_fields import MappedScript, map_job
from weir.cli.submissions.job_script import SHELLS, program_of
from weir.slurm.directives import STANDARD_INPUT
from weir.slurm.errors import SlurmError
from weir.slurm.ledger import DirectiveOutcome

_PROJECT = "default"
_SHELL_TEXT = {
    "SLURM_JOB_ID": "${WEIR_POD_ID%%/*}",
    "SLURM_JOBID": "${WEIR_POD_ID%%/*}",
    "SLURM_ARRAY_JOB_ID": "$WEIR_ARRAY_ID",
    "SLURM_ARRAY_TASK_ID": "$WEIR_ARRAY_INDEX",
    "SLURM_ARRAY_TASK_COUNT": "$WEIR_ARRAY_COUNT",
    "SLURM_ARRAY_TASK_MIN": "$WEIR_ARRAY_MIN",
    "SLURM_ARRAY_TASK_MAX": "$WEIR_ARRAY_MAX",
    "SLURM_ARRAY_TASK_STEP": "$WEIR_ARRAY_STEP",
    "SLURM_RESTART_COUNT": "$WEIR_RESTARTS",
    "SLURM_JOB_GPUS": "$WEIR_DEVICES",
    "SLURM_JOB_NODELIST": "$(hostname -s)",
    "SLURM_NODELIST": "$(hostname -s)",
    "SLURMD_NODENAME": "$(hostname -s)",
    "SLURM_NNODES": "1",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_SUBMIT_DIR": "$PWD",
}
"""Variables of Slurm, as shell expressions of Weir's variables."""
_OF_FILES = ("output", "error", "input", "open-mode")
_OF_SUBMISSION = ("wait", "parsable", "quiet", "verbose", "test-only", "export")


def weir_file(
    script: BatchScript, names: SiteNames, own_project: str | None = None
) -> tuple[dict[str, Any], list[DirectiveOutcome]]:
    """Return the fields of a submission file in their order, and the outcome of each directive.

    `own_project` is the project of a script that names none.

    Raises:
        SlurmError: an option has no counterpart, or the script can't be run.
    """
    job = map_job(script.request, names, foreign=script.directives.foreign, best_effort=script.best_effort)
    ledger = [_in_a_file(outcome) for outcome in job.ledger]
    variables = _variables(script, job)
    ledger += _lost(script, variables)
    project = script.project or own_project
    fields = {"project": project or _PROJECT, "name": _name(script), **job.fields}
    if script.image is not None:
        fields["image"] = script.image
    if script.namespace is not None:
        why = "is an option of `weir submit` with this file"
        ledger.append(DirectiveOutcome("ignored", f"--namespace={script.namespace}", why))
    if script.request.has("chdir"):
        fields["directory"] = script.request.text("chdir")
    if not project and "project" not in job.fields:
        ledger.append(DirectiveOutcome("changed", "project", "write yours: no account is named", "file"))
    return {**fields, **_command(script, variables)}, ledger


def _name(script: BatchScript) -> str:
    from weir.cli.slurm.workload_names import workload_name

    return workload_name(script.name if script.request.has("job-name") else Path(script.file).stem)


def _in_a_file(line: DirectiveOutcome) -> DirectiveOutcome:
    """Return the outcome of a directive in a file of a submission, which may differ from `weir sbatch`."""
    option = line.written.removeprefix("--").partition("=")[0]
    if option in _OF_FILES:
        why = "output is in `weir logs`, and the input is empty: write exec > FILE or < FILE into run"
        return DirectiveOutcome("ignored", line.written, why, line.where)
    if option in _OF_SUBMISSION:
        return DirectiveOutcome(
            "ignored", line.written, "is an option of `weir submit` with this file", line.where
        )
    if option == "signal":
        return DirectiveOutcome(
            "changed", line.written, "SIGTERM comes as notice, with this time as grace", line.where
        )
    if option == "no-requeue":
        return DirectiveOutcome("ignored", line.written, "Weir starts a preempted job again", line.where)
    return line


def _variables(script: BatchScript, job: MappedScript) -> Mapping[str, str]:
    """Return the variables of Slurm that the script uses, each as text of a shell."""
    from weir.cli.slurm.job_command import slurm_variables

    fixed = {**slurm_variables(script.request, "$PWD"), "SLURM_JOB_NAME": script.name}
    fixed["SLURM_CPUS_ON_NODE"] = str(job.resources.cpus or 1)
    fixed["SLURM_GPUS_ON_NODE"] = str(job.resources.gpus)
    fixed["SLURM_TASKS_PER_NODE"] = str(job.resources.tasks)
    used = slurm_variables_in(body_of(script.text))
    quoted = {name: shlex.quote(fixed[name]) for name in used if name in fixed}
    return {
        name: _SHELL_TEXT.get(name) or quoted[name] for name in used if name in _SHELL_TEXT or name in quoted
    }


def _lost(script: BatchScript, variables: Mapping[str, str]) -> list[DirectiveOutcome]:
    """Return the features of Slurm that the script uses and a file doesn't have."""
    body = body_of(script.text)
    unset = [name for name in slurm_variables_in(body) if name not in variables]
    outcomes = [
        *(
            DirectiveOutcome("changed", name, f"is set to {text} in run", "script")
            for name, text in variables.items()
        ),
        *(DirectiveOutcome("ignored", name, "isn't set", "script") for name in unset),
    ]
    for program in slurm_programs_in(body):
        why = (
            "is there with `weir sbatch` only"
            if program in ("srun", "scontrol", "squeue", "scancel")
            else "isn't there"
        )
        outcomes.append(DirectiveOutcome("ignored", program, why, "script"))
    return outcomes


def _command(script: BatchScript, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the script as `run` if a shell runs it, else its command.

    Raises:
        SlurmError: the command would need a file, and the script is in none.
    """
    interpreter = script.interpreter
    if program_of(interpreter) not in SHELLS:
        if script.from_input:
            program = program_of(interpreter)
            raise SlurmError(
                f"{STANDARD_INPUT}: {program} runs a script from its file: save it, and name the file"
            )
        return {"command": [*interpreter, str(Path(script.file).absolute()), *script.arguments]}
    lines = [line for line in script.text.splitlines()[1:] if not line.startswith(("#SBATCH", "#SLURM"))]
    options = [word for word in interpreter if word.startswith("-")]
    first = [f"set {' '.join(options)}"] if options else []
    if script.arguments:
        first.append(f"set -- {shlex.join(script.arguments)}")
    first += [f"export {name}={text}" for name, text in variables.items()]
    return {"run": "\n".join([*first, *lines]).strip("\n") + "\n"}
