"""Place of a job inside its pod: its numbers, its own directory, and the programs on its path."""

import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weir.slurm.absent import INSTEAD

PROGRAMS = {
    "srun": ("weir.slurm.srun",),
    "scontrol": ("weir.slurm.scontrol",),
    "sbatch": ("weir", "sbatch"),
    "squeue": ("weir.slurm.squeue",),
    "scancel": ("weir.slurm.scancel",),
    **{program: ("weir.slurm.absent", program) for program in INSTEAD},
}
"""Programs on the path of a job: the module of each, and its first words."""
DIRECTORY = "WEIR_SLURM_DIRECTORY"
"""Variable with the directory of the job's steps."""
STARTED, LIMIT = "WEIR_SLURM_STARTED_S", "WEIR_SLURM_LIMIT_S"
"""Variables with the time of the start since 1970, and with the limit of the run time if there is one."""


@dataclass(frozen=True, slots=True)
class JobNumbers:
    """Numbers of a job. `array` and `index` are those of an array, else None."""

    job: str
    array: str | None = None
    index: str | None = None
    restarts: int = 0


def job_numbers(variables: Mapping[str, str]) -> JobNumbers:
    """Return the numbers of the job, which Weir gives to its pod."""
    job = variables.get("WEIR_POD_ID", "0").partition("/")[0]
    index = variables.get("WEIR_ARRAY_INDEX")
    array = None if index is None else variables.get("WEIR_ARRAY_ID", job)
    return JobNumbers(job, array, index, int(variables.get("WEIR_RESTARTS", "0")))


def host() -> str:
    """Return the name of this node."""
    return socket.gethostname().partition(".")[0]


def make_place(variables: Mapping[str, str]) -> Path:
    """Make the directory of a job's script, programs and steps, and return it."""
    own = variables.get("WEIR_POD_DIRECTORY")
    place = Path(own, "slurm") if own else Path(tempfile.mkdtemp(prefix="slurm-job-"))
    for below in (place, place / "bin", place / "steps"):
        below.mkdir(mode=0o700, exist_ok=True)
    for program, words in PROGRAMS.items():
        line = shlex.join([sys.executable, "-I", "-m", *words])
        write_program(place / "bin" / program, f'#!/bin/sh\nexec {line} "$@"\n')
    return place


def write_program(file: Path, text: str) -> None:
    """Write an executable file."""
    file.write_text(text, "utf-8")
    file.chmod(0o700)


def with_programs(path: str, place: Path) -> str:
    """Return a PATH with the job's own programs first."""
    return os.pathsep.join([str(place / "bin"), path or "/usr/local/bin:/usr/bin:/bin"])
