"""Run a job script inside its pod: `python -m weir.slurm.batch SETTINGS SCRIPT [ARGUMENTS]`.

The script's output goes to the log of the pod and to the files that Slurm would write. The script has a
session of its own, so that notice from Weir reaches it as Slurm's signals would.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weir.slurm.batch_environment import batch_environment
from weir.slurm.batch_process import BatchProcess
from weir.slurm.file_patterns import DEFAULT, DEFAULT_OF_ARRAY, expand, pattern_values
from weir.slurm.job_place import JobNumbers, job_numbers, make_place, write_program
from weir.slurm.job_settings import SCRIPT_NAME, JobSettings, read_settings
from weir.slurm.output_copies import OutputCopy

_FAILED = 1


def main(words: Sequence[str]) -> int:
    """Run a script; return its exit code, or die of its signal."""
    settings, text, arguments = read_settings(words[0]), words[1], words[2:]
    numbers = job_numbers(os.environ)
    if numbers.restarts and not settings.requeue:
        say(f"job {numbers.job} was stopped, and isn't started again: it has --no-requeue")
        return _FAILED
    place = make_place(os.environ)
    script = place / SCRIPT_NAME
    write_program(script, text)
    environment = batch_environment(os.environ, settings, numbers, place)
    try:
        copies = _open_copies(settings, numbers)
        source = _open_input(settings, numbers)
    except OSError as error:
        say(f"{error.filename} can't be opened: {error.strerror}")
        return _FAILED
    command = [str(script), *arguments]
    try:
        process = BatchProcess(command, environment, source, copies, settings, place)
    except OSError as error:
        say(f"the script can't be started: {error.strerror}: check its first line")
        return _FAILED
    return process.run()


def _open_copies(settings: JobSettings, numbers: JobNumbers) -> tuple[OutputCopy, OutputCopy]:
    """Return the copies of the output and of the errors, which may be the same.

    Raises:
        OSError: a file can't be opened.
    """
    default = DEFAULT if numbers.index is None else DEFAULT_OF_ARRAY
    append = numbers.restarts > 0 if settings.append is None else settings.append
    output = OutputCopy(_path(settings.output or default, settings, numbers), append=append)
    if settings.error is None:
        return output, output
    path = _path(settings.error, settings, numbers)
    return output, output if path == output.path else OutputCopy(path, append=append)


def _open_input(settings: JobSettings, numbers: JobNumbers) -> int:
    path = os.devnull if settings.input is None else _path(settings.input, settings, numbers)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _path(pattern: str, settings: JobSettings, numbers: JobNumbers) -> Path:
    values = pattern_values(numbers.job, name=settings.name, array=numbers.array, index=numbers.index)
    return Path(expand(pattern, values)).absolute()


def say(sentence: str) -> None:
    """Write a sentence into the log of the pod."""
    with suppress(OSError):
        os.write(2, f"weir: {sentence}.\n".encode(errors="replace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
