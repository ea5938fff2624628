"""Command of a workload that runs a job script of Slurm, with the values that the job needs."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence

from weir.slurm.batch_request import BatchRequest
from weir.slurm.job_settings import JobSettings, as_text
from weir.slurm.node_resources import NodeResources

WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"
_TASK_OPTIONS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "gpus-per-task")
_AS_WRITTEN = {
    "account": "SLURM_JOB_ACCOUNT",
    "qos": "SLURM_JOB_QOS",
    "reservation": "SLURM_JOB_RESERVATION",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "gpus-per-socket": "SLURM_GPUS_PER_SOCKET",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "dependency": "SLURM_JOB_DEPENDENCY",
    "distribution": "SLURM_DISTRIBUTION",
    "hint": "SLURM_HINT",
    "export": "SLURM_EXPORT_ENV",
}
OF_OPTIONS = frozenset(
    (
        *_AS_WRITTEN.values(),
        *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU"),
        *("SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
        *(f"SLURM_ARRAY_TASK_{name}" for name in ("COUNT", "MIN", "MAX", "STEP")),
    )
)
"""Variables that a job has with some options alone."""
_PARTITION = "weir"
"""Partition of a job that names none."""


def job_settings(
    request: BatchRequest, resources: NodeResources, name: str, directory: str, *, nodes: int = 1
) -> JobSettings:
    """Return the settings of a job, with the resources of a node and the directory of the submission."""
    notice = request.signal
    return JobSettings(
        name=name,
        tasks=request.tasks,
        nodes=nodes,
        cpus=resources.cpus or 1,
        output=request.text("output") or None,
        error=request.text("error") or None,
        input=request.text("input") or None,
        append=request.append,
        requeue=request.requeue,
        variables=slurm_variables(request, directory),
        notice=None if notice is None else (notice.number, notice.lead_s, int(notice.to_shell)),
        limit_s=None if request.limit_minutes is None else request.limit_minutes * 60.0,
        grace_s=request.grace_s,
    )


def job_command(settings: JobSettings, text: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a script on the machine of its pool."""
    return [sys.executable, "-I", "-m", "weir.slurm.batch", as_text(settings), text, *arguments]


def slurm_variables(request: BatchRequest, directory: str) -> Mapping[str, str]:
    """Return the variables that sbatch sets for the options of a job."""
    variables = {
        "SLURM_SUBMIT_DIR": directory,
        "SLURM_SUBMIT_HOST": socket.gethostname(),
        "SLURM_PRIO_PROCESS": str(os.nice(0)),
        "SLURM_JOB_PARTITION": request.text("partition") or _PARTITION,
    }
    for option, variable in _AS_WRITTEN.items():
        if request.has(option):
            variables[variable] = request.text(option)
    if any(request.has(option) for option in _TASK_OPTIONS) or (request.nodes and request.nodes[0] > 1):
        variables |= {"SLURM_NTASKS": str(request.tasks), "SLURM_NPROCS": str(request.tasks)}
    for memory, variable in (
        (request.memory, "SLURM_MEM_PER_NODE"),
        (request.memory_per_cpu, "SLURM_MEM_PER_CPU"),
        (request.memory_per_gpu, "SLURM_MEM_PER_GPU"),
    ):
        if memory is not None:
            variables[variable] = str(memory)
    return variables
