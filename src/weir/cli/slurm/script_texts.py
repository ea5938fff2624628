"""Names that the body of a job script holds: variables of Slurm, and programs."""

import re

_SLURM_VARIABLE = re.compile(r"\bSLURM[A-Z_]*\b")
_VARIABLE = re.compile(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_PROGRAM = re.compile(
    r"^\s*(?:\w+=\S*\s+)*(srun|scontrol|sbatch|squeue|scancel|sacct|sinfo|sstat)\b", re.MULTILINE
)
_WORD = re.compile(r"[\w.-]+")


def body_of(text: str) -> str:
    """Return the lines of a script that aren't comments."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def slurm_variables_in(body: str) -> list[str]:
    """Return the variables of Slurm, each once."""
    return list(dict.fromkeys(_SLURM_VARIABLE.findall(body)))


def variables_in(body: str) -> list[str]:
    """Return the variables that a shell would read, each once."""
    return list(dict.fromkeys(_VARIABLE.findall(body)))


def slurm_programs_in(body: str) -> list[str]:
    """Return the programs of Slurm that begin a line, each once."""
    return list(dict.fromkeys(_PROGRAM.findall(body)))


def words_in(body: str) -> set[str]:
    """Return all words."""
    return set(_WORD.findall(body))
