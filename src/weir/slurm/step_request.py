"""Request of a step: the options and the command of `srun`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.slurm.amounts import node_range, whole
from weir.slurm.errors import SlurmError
from weir.slurm.given_options import GivenOption, from_command_line, last_of
from weir.slurm.gpu_requests import read_gpus, read_gres, total
from weir.slurm.srun_options import SRUN

_NO_MPI = ("none", "list")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """A step. The field of an omitted option is None.

    Attributes:
        cpus_given: CPUs of each task are given, so the step takes no others.
        exact: the step takes only what it asks for.
        gpus: of the whole step; None: all of the job, shared with other steps.
        kill_on_bad_exit: the first task that fails ends the others.
        wait_s: time after the first task's end at which the others are ended; 0: no limit.
    """

    command: Sequence[str]
    tasks: int
    cpus_per_task: int = 1
    cpus_given: bool = False
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    gpus: int | None = None
    gpus_per_task: int | None = None
    label: bool = False
    output: str | None = None
    error: str | None = None
    input: str | None = None
    chdir: str | None = None
    export: str | None = None
    kill_on_bad_exit: bool = False
    wait_s: int = 0
    multi_prog: bool = False


def read_step(words: Sequence[str], variables: Mapping[str, str]) -> StepRequest:
    """Return the step of a command line and of the job's variables.

    Raises:
        SlurmError: it can't be started here; the message says what to write.
    """
    given, command = from_command_line(words, SRUN)
    options = last_of(given)
    _check(options)
    if not command:
        raise SlurmError("no command is named: write it after the options, such as srun python train.py")
    if ":" in command:
        raise SlurmError("a colon starts several programs as one step: write --multi-prog and a file")
    text = {name: option.text for name, option in options.items()}
    tasks = _tasks(text, variables)
    per_task = _gpus_per_task(text, variables)
    return StepRequest(
        command=command,
        tasks=tasks,
        cpus_per_task=_number(text, "cpus-per-task", 1),
        cpus_given="cpus-per-task" in text,
        exact="exact" in text or "exclusive" in text or "cpus-per-task" in text,
        overlap="overlap" in text,
        overcommit="overcommit" in text,
        gpus=_gpus(text, tasks, per_task),
        gpus_per_task=per_task,
        label="label" in text,
        output=text.get("output"),
        error=text.get("error"),
        input=text.get("input"),
        chdir=text.get("chdir"),
        export=text.get("export"),
        kill_on_bad_exit="kill-on-bad-exit" in text and text["kill-on-bad-exit"] != "0",
        wait_s=whole(text["wait"], "wait", 0) if "wait" in text else 0,
        multi_prog="multi-prog" in text,
    )


def _check(options: Mapping[str, GivenOption]) -> None:
    for given_option in options.values():
        if given_option.option.support == "needed":
            raise SlurmError(f"{given_option.written}: {given_option.option.why}")
    mpi = options["mpi"].text if "mpi" in options else "none"
    if mpi not in _NO_MPI:
        right = "write mpirun -n $SLURM_NTASKS in place of srun"
        raise SlurmError(f"--mpi={mpi}: this srun starts plain processes and offers no PMI: {right}")
    nodes = node_range(options["nodes"].text)[0] if "nodes" in options else 1
    if nodes > 1:
        raise SlurmError(f"--nodes={nodes}: the job has one node: write --nodes=1")


def _tasks(text: Mapping[str, str], variables: Mapping[str, str]) -> int:
    if "ntasks" in text:
        return whole(text["ntasks"], "ntasks")
    if "ntasks-per-node" in text:
        return whole(text["ntasks-per-node"], "ntasks-per-node")
    return int(variables.get("SLURM_NTASKS", "1"))


def _number(text: Mapping[str, str], name: str, default: int) -> int:
    return whole(text[name], name) if name in text else default


def _gpus_per_task(text: Mapping[str, str], variables: Mapping[str, str]) -> int | None:
    written = text.get("gpus-per-task", variables.get("SLURM_GPUS_PER_TASK"))
    return None if written is None else total(read_gpus(written, "gpus-per-task"))


def _gpus(text: Mapping[str, str], tasks: int, per_task: int | None) -> int | None:
    """Return the GPUs of the whole step; None if none are named."""
    for name in ("gpus", "gpus-per-node"):
        if name in text:
            return total(read_gpus(text[name], name))
    if "gres" in text:
        return total(read_gres(text["gres"])[0])
    return None if per_task is None else per_task * tasks
