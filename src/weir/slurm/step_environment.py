"""Environment of the tasks of a step."""

import os
from collections.abc import Mapping, Sequence

from weir.slurm.job_place import host
from weir.slurm.step_request import StepRequest

_ALWAYS = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR")
_PREFIXES = ("SLURM", "WEIR_", "CUDA_", "GPU_DEVICE_ORDINAL")


def task_environment(
    inherited: Mapping[str, str], request: StepRequest, step: int, rank: int, gpus: Sequence[str] | None
) -> dict[str, str]:
    """Return the complete environment of a task. `gpus` are those that it sees; None: those of the job."""
    node, tasks = host(), str(request.tasks)
    own = {
        "SLURM_STEP_ID": str(step),
        "SLURM_STEPID": str(step),
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_NODELIST": node,
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_TASKS_PER_NODE": tasks,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_GTIDS": ",".join(map(str, range(request.tasks))),
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_UMASK": f"{_umask():04o}",
    }
    if request.cpus_given:
        own["SLURM_CPUS_PER_TASK"] = str(request.cpus_per_task)
    if request.label:
        own["SLURM_LABELIO"] = "1"
    if gpus is not None:
        own |= {"CUDA_VISIBLE_DEVICES": ",".join(gpus), "SLURM_STEP_GPUS": ",".join(gpus)}
        own["GPU_DEVICE_ORDINAL"] = ",".join(map(str, range(len(gpus))))
    return _exported(inherited, request.export) | own


def _exported(inherited: Mapping[str, str], export: str | None) -> dict[str, str]:
    """Return the variables that --export passes on."""
    words = (export or "ALL").split(",")
    stated = dict(word.partition("=")[::2] for word in words if "=" in word)
    if "ALL" in words:
        return {**inherited, **stated}
    kept = {key: value for key, value in inherited.items() if key in _ALWAYS or key.startswith(_PREFIXES)}
    if "NONE" in words:
        return kept
    named = {word: inherited[word] for word in words if word in inherited}
    return kept | named | stated


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
