"""Scripts that run on Slurm and on Weir, and the files and exit codes that both leave."""

import re
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.slurm.corpus import SCRIPTS

PATIENCE_S = 180.0
VARIABLES = {"ALPHA": "1", "GAMMA": "three", "WEIR_PROJECT": "default"}
ARGUMENTS: Mapping[str, Sequence[str]] = {
    "arguments": ("one", "two words", "--three", "$HOME", "", "--", "-n"),
    "python_script": ("-x", "y z"),
}
FILES: Mapping[str, Mapping[str, str]] = {
    "append": {"append.out": "before\n"},
    "input_file": {"script.in": "from a file\n"},
    "nested_dirs": {"logs/keep": ""},
    "chdir": {"sub/keep": ""},
}

_WAITS = re.compile(r"srun: (Job \d+ step creation temporarily disabled|Step created for job|the step waits)")
"""Lines of a step that waits for the resources of another one, which a busy machine brings about."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Exit code and files of a job; numbers of jobs, directories and hosts are replaced."""

    code: int
    files: Mapping[str, str] = field(default_factory=dict)


def names() -> list[str]:
    """Return the names of all scripts."""
    return [file.stem for file in sorted(SCRIPTS.glob("*.sh"))]


def prepare(name: str, directory: Path) -> list[str]:
    """Make the directory of a script, and return the words that submit it."""
    directory.mkdir(parents=True)
    shutil.copy(SCRIPTS / f"{name}.sh", directory)
    for path, text in FILES.get(name, {}).items():
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text(text)
    return [f"{name}.sh", *ARGUMENTS.get(name, ())]


def outcome(code: int, job: str, directory: Path, node: str) -> Outcome:
    """Return what a job left in its directory."""
    files = {}
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.suffix != ".sh":
            path = str(file.relative_to(directory))
            files[_neutral(path, job, directory, node)] = _neutral(file.read_text(), job, directory, node)
    return Outcome(code, files)


def wait_for(what: Callable[[], bool]) -> None:
    """Wait for an outcome."""
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def _neutral(text: str, job: str, directory: Path, node: str) -> str:
    text = text.replace(str(directory), "DIRECTORY")
    text = re.sub(rf"\b{re.escape(node)}\b|\b{re.escape(socket.gethostname())}\b", "NODE", text)
    text = re.sub(rf"(?<=slurm-){job}\b|(?<=hello-){job}\b", "JOB", text)
    lines = [line for line in text.splitlines(keepends=True) if not _WAITS.match(line)]
    text = "".join(lines)
    return "".join(sorted(lines)) if any(re.match(r"\d+: |rank \d", line) for line in lines) else text
