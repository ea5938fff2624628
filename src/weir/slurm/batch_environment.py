"""Environment of a job script, with the variables that Slurm sets."""

import json
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from weir.slurm.job_place import DIRECTORY, JobNumbers, host, with_programs
from weir.slurm.job_settings import FUNCTIONS, JobSettings


def batch_environment(
    inherited: Mapping[str, str], settings: JobSettings, numbers: JobNumbers, place: Path
) -> dict[str, str]:
    """Return the complete environment of a job script."""
    kept = {key: value for key, value in inherited.items() if key != FUNCTIONS}
    functions = json.loads(inherited.get(FUNCTIONS, "{}"))
    own = (
        _pool(inherited)
        | _job(settings, numbers)
        | _node(settings)
        | _array(inherited, numbers)
        | _gpus(inherited)
    )
    return {
        **kept,
        **functions,
        **own,
        **settings.variables,
        "PATH": with_programs(kept.get("PATH", ""), place),
        DIRECTORY: str(place),
    }


def _job(settings: JobSettings, numbers: JobNumbers) -> dict[str, str]:
    restarts = {"SLURM_RESTART_COUNT": str(numbers.restarts)} if numbers.restarts else {}
    return {
        "SLURM_JOB_ID": numbers.job,
        "SLURM_JOBID": numbers.job,
        "SLURM_JOB_NAME": settings.name,
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_GID": str(os.getgid()),
        "SLURM_JOB_USER": user(),
        "SLURM_CLUSTER_NAME": "weir",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_GTIDS": "0",
        "ENVIRONMENT": "BATCH",
        **restarts,
    }


def _pool(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the home of a personal pool, by which `sbatch` in the job finds it."""
    home = Path(inherited.get("WEIR_NOTES", "")).parent
    found = "WEIR_HOME" not in inherited and os.access(home / "server.json", os.R_OK)
    return {"WEIR_HOME": str(home)} if found and home.is_absolute() else {}


def _node(settings: JobSettings) -> dict[str, str]:
    node = host()
    return {
        "SLURMD_NODENAME": node,
        "HOSTNAME": node,
        "SLURM_NODELIST": node,
        "SLURM_JOB_NODELIST": node,
        "SLURM_NNODES": "1",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_TASKS_PER_NODE": str(settings.tasks),
        "SLURM_CPUS_ON_NODE": str(settings.cpus),
        "SLURM_JOB_CPUS_PER_NODE": str(settings.cpus),
        "SLURM_TOPOLOGY_ADDR": node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }


def _array(inherited: Mapping[str, str], numbers: JobNumbers) -> dict[str, str]:
    if numbers.index is None:
        return {}
    found = {"SLURM_ARRAY_JOB_ID": numbers.array or numbers.job, "SLURM_ARRAY_TASK_ID": numbers.index}
    for name in ("COUNT", "MIN", "MAX", "STEP"):
        if f"WEIR_ARRAY_{name}" in inherited:
            found[f"SLURM_ARRAY_TASK_{name}"] = inherited[f"WEIR_ARRAY_{name}"]
    return found


def _gpus(inherited: Mapping[str, str]) -> dict[str, str]:
    devices = [each for each in inherited.get("WEIR_DEVICES", "").split(",") if each]
    if not devices:
        return {}
    listed = ",".join(devices)
    return {
        "SLURM_GPUS_ON_NODE": str(len(devices)),
        "SLURM_JOB_GPUS": listed,
        "GPU_DEVICE_ORDINAL": ",".join(map(str, range(len(devices)))),
    }


def user() -> str:
    """Return the name of the account that the job runs as."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
