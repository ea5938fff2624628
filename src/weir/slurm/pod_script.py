"""A job script in a pod of a cluster: its command and its variables. The image needs a POSIX shell alone.

Facts that only the pod knows are marks here. The program of the pod fills the variables that have them.
"""

import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from weir.slurm.job_number import NUMBER
from weir.slurm.job_place import LIMIT
from weir.slurm.job_settings import JobSettings
from weir.slurm.options import SlurmOption
from weir.slurm.script_variables import PodFacts, script_variables
from weir.slurm.srun_options import SRUN

DIRECTORY_MARK = "\0DIRECTORY"
"""Stands for the directory in which the container starts."""
_FACTS = ("NODE", "RANK", "HOST", "HOSTS", "UID", "GID", "USER", "DIRECTORY", "PROCESS", "TASK", "INDEX")
_LAST_WORDS_S = 5
"""Time between SIGTERM and the end of the grace period, after a signal of the user."""


def pod_command(program: str, text: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a script in a pod. `program` is the interpreter of its first line."""
    programs = [_program("srun.sh"), _program("scontrol.sh"), _program("queue.sh")]
    return ["sh", "-c", _program("run.sh"), "weir-sbatch", program, text, *programs, *arguments]


def pod_variables(
    settings: JobSettings,
    number: int,
    *,
    gpus: int,
    chdir: str = "",
    array_variables: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variables of the container of a job. `array_variables` are those of an array."""
    devices = [str(position) for position in range(gpus)]
    of_array = array_variables is not None
    facts = PodFacts(
        job="\0TASK" if of_array else str(number),
        array=str(number) if of_array else None,
        index="\0INDEX" if of_array else None,
        array_variables=array_variables or {},
        user="\0USER",
        uid="\0UID",
        gid="\0GID",
        host="\0HOST",
        hosts="\0HOSTS",
        node="\0NODE",
        rank="\0RANK",
        devices=devices,
    )
    variables = {**script_variables(settings, facts), "SLURM_TASK_PID": "\0PROCESS"}
    fixed = {name: value for name, value in variables.items() if not value.startswith("\0")}
    if devices:
        fixed["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    for fact in _FACTS:
        names = [name for name, value in variables.items() if value == f"\0{fact}"]
        if names:
            fixed[f"WEIR_SLURM_{fact}_VARIABLES"] = " ".join(names)
    own = {
        NUMBER: str(number),
        "WEIR_SLURM_PODS": str(settings.nodes),
        "WEIR_SLURM_TASKS": str(settings.tasks),
    }
    if settings.limit_s is not None:
        own[LIMIT] = f"{settings.limit_s:.0f}"
    if chdir:
        own["WEIR_SLURM_CHDIR"] = chdir
    return fixed | own | _notice(settings)


def _notice(settings: JobSettings) -> dict[str, str]:
    """Return the settings of --signal."""
    if settings.notice is None:
        return {}
    signum, lead_s, to_script = settings.notice
    variables = {
        "WEIR_SLURM_SIGNAL": signal.Signals(signum).name.removeprefix("SIG"),
        "WEIR_SLURM_LAST_S": f"{max(0.0, settings.grace_s - _LAST_WORDS_S):g}",
    }
    if to_script:
        variables["WEIR_SLURM_SIGNAL_TO_SCRIPT"] = "1"
    if settings.limit_s is not None:
        variables["WEIR_SLURM_NOTICE_AFTER_S"] = f"{max(0.0, settings.limit_s - lead_s):g}"
    return variables


@cache
def _program(name: str) -> str:
    """Return a program of pods without its comments and indents: each pod object holds it."""
    lines = (files("weir.slurm") / "pod" / name).read_text("utf-8").splitlines()
    kept = [line.lstrip() for line in lines[1:] if not line.lstrip().startswith("#")]
    text = "\n".join([lines[0], *filter(None, kept)]) + "\n"
    return re.sub(r"@([A-Z]+)@\)?", lambda match: _options(match[1]), text)


def _options(kind: str) -> str:
    """Return the patterns of options of srun by kind, as the branches of a `case`."""
    if kind == "REFUSED":
        refused = [option for option in SRUN.by_name.values() if option.support == "needed"]
        return "\n".join(
            f'{_pattern(option)}) w_fail "$w_name: "{shlex.quote(option.why)} ;;' for option in refused
        )
    takes = {"FLAGS": "nothing", "OPTIONAL": "optional", "VALUES": "value"}[kind]
    usable = (
        option for option in SRUN.by_name.values() if option.takes == takes and option.support != "needed"
    )
    return " | ".join(map(_pattern, usable)) + ")"


def _pattern(option: SlurmOption) -> str:
    return f"--{option.name} | -{option.short}" if option.short else f"--{option.name}"
