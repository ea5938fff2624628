"""Environment of a job script, with the variables that Slurm sets."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from weir.slurm.job_place import DIRECTORY, LIMIT, STARTED, JobNumbers, host, with_programs
from weir.slurm.job_settings import FUNCTIONS, JobSettings
from weir.slurm.script_variables import PodFacts, script_variables
from weir.user_names import own_user


def batch_environment(
    inherited: Mapping[str, str], settings: JobSettings, numbers: JobNumbers, place: Path
) -> dict[str, str]:
    """Return the complete environment of a job script."""
    kept = {key: value for key, value in inherited.items() if key != FUNCTIONS}
    functions = json.loads(inherited.get(FUNCTIONS, "{}"))
    restarts = {"SLURM_RESTART_COUNT": str(numbers.restarts)} if numbers.restarts else {}
    return {
        **kept,
        **functions,
        **_pool(inherited),
        **restarts,
        **script_variables(settings, _facts(inherited, numbers)),
        "PATH": with_programs(kept.get("PATH", ""), place),
        DIRECTORY: str(place),
        STARTED: str(int(time.time())),
        **({} if settings.limit_s is None else {LIMIT: f"{settings.limit_s:g}"}),
    }


def _facts(inherited: Mapping[str, str], numbers: JobNumbers) -> PodFacts:
    return PodFacts(
        job=numbers.job,
        array=numbers.array,
        index=numbers.index,
        array_variables=inherited,
        user=own_user(),
        uid=str(os.getuid()),
        gid=str(os.getgid()),
        host=host(),
        hosts=host(),
        devices=[device for device in inherited.get("WEIR_DEVICES", "").split(",") if device],
    )


def _pool(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the home of a personal pool, by which `sbatch` in the job finds it."""
    home = Path(inherited.get("WEIR_NOTES", "")).parent
    is_personal = "WEIR_HOME" not in inherited and os.access(home / "server.json", os.R_OK)
    return {"WEIR_HOME": str(home)} if is_personal and home.is_absolute() else {}
