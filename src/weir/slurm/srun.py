"""Start the tasks of a step, as `srun` does inside a job: `srun [OPTIONS] COMMAND`.

Tasks are plain processes of the job's one node. The exit code is the highest of the tasks; a signal counts
as 128 and its number.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from weir.slurm.errors import SlurmError
from weir.slurm.job_place import DIRECTORY
from weir.slurm.multi_prog import read_programs
from weir.slurm.running_steps import next_step, register, unregister
from weir.slurm.step_environment import task_environment
from weir.slurm.step_request import StepRequest, read_step
from weir.slurm.step_resources import StepResources
from weir.slurm.step_tasks import StepTasks, TaskStart

_FAILED = 1


def main(words: Sequence[str]) -> int:
    """Run a step; return its exit code."""
    place = Path(os.environ.get(DIRECTORY, ""))
    if not os.environ.get(DIRECTORY) or not place.is_dir():
        return _fail("runs inside of a job alone: submit a script with `weir sbatch`")
    if any(word in ("--version", "-V") for word in words[:1]):
        print("slurm (Weir)")
        return 0
    if "--mpi=list" in words:
        print("MPI plugin types are...\n\tnone")
        return 0
    try:
        request = read_step(words, os.environ)
        return _run(request, place)
    except SlurmError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename or 'the step'}: {error.strerror}")


def _run(request: StepRequest, place: Path) -> int:
    """Run the tasks of a step.

    Raises:
        SlurmError: the job lacks what it asks for, or its programs can't be read.
    """
    cpus = int(os.environ.get("SLURM_CPUS_ON_NODE", "1")) or 1
    devices = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    needed = max(1, request.tasks * request.cpus_per_task)
    wanted = request.gpus or 0
    if request.overcommit:
        needed = min(needed, cpus)
    if needed > cpus and not request.overlap:
        raise SlurmError(
            f"the step asks for {needed} CPUs, and the job has {cpus}: write --ntasks in the script"
        )
    if wanted > len(devices):
        raise SlurmError(
            f"the step asks for {wanted} GPUs, and the job has {len(devices)}: write --gpus in the script"
        )
    commands = _commands(request)
    held: Sequence[int] = range(wanted)
    if not request.overlap:
        resources = StepResources(place, cpus, len(devices))
        held = resources.take(needed if request.exact else cpus, wanted, _tell_waiting)
    step = next_step(place)
    lock = register(place, step)
    gpus = None if request.gpus is None else [devices[position] for position in held]
    starts = [
        TaskStart(
            commands[rank], task_environment(os.environ, request, step, rank, _gpus_of(request, gpus, rank))
        )
        for rank in range(request.tasks)
    ]
    try:
        return StepTasks(request, step, starts).run()
    finally:
        unregister(place, step, lock)


def _commands(request: StepRequest) -> Sequence[Sequence[str]]:
    if not request.multi_prog:
        return [request.command] * request.tasks
    file = Path(request.command[0])
    programs = read_programs(file.read_text("utf-8", "replace"), file.name, request.tasks)
    return [[*programs[rank], *request.command[1:]] for rank in range(request.tasks)]


def _gpus_of(request: StepRequest, gpus: Sequence[str] | None, rank: int) -> Sequence[str] | None:
    """Return the GPUs that a task sees: its own, or all of the step; None if the devices are unknown."""
    if gpus is None or request.gpus_per_task is None:
        return gpus
    first = rank * request.gpus_per_task
    return gpus[first : first + request.gpus_per_task]


def _tell_waiting() -> None:
    print("srun: the step waits: other steps use the CPUs or GPUs of the job", file=sys.stderr, flush=True)


def _fail(sentence: str) -> int:
    print(f"srun: error: {sentence}", file=sys.stderr, flush=True)
    return _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
