"""Job scripts: `#WEIR` lines with options of `weir submit`, and the command that runs the script.

A shell gets the text that the script has at the submission, so a change of the file while it waits means
nothing. Any other interpreter gets the path.
"""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from weir.cli.submissions.submit_options import (
    ArrayOptions,
    StartOptions,
    WorkloadOptions,
    variables,
)

DIRECTIVE = "#WEIR"
SCRIPT_BYTES_MAX = 131_071
"""Limit of one word of a command, in bytes."""
SHELLS = frozenset(("ash", "bash", "dash", "ksh", "sh", "zsh"))


class ScriptError(ValueError):
    """A job script can't be read; the message names the line."""


def is_script(text: str) -> bool:
    """Return True if a text begins as a script does."""
    return text.startswith("#!")


def read_script(text: str, file: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the submission of a job script: fields of its directives, and its command.

    Raises:
        ScriptError: a directive is wrong, or the script is too large.
    """
    directives = _directives(text, file)
    interpreter = shlex.split(text.splitlines()[0].removeprefix("#!"))
    if not interpreter:
        raise ScriptError(f"{file}:1: names no interpreter: write one such as #!/bin/bash")
    if program_of(interpreter) in SHELLS:
        if len(text.encode()) > SCRIPT_BYTES_MAX:
            right = f"write `-- {program_of(interpreter)} {file.name}` to run it by its path"
            raise ScriptError(f"{file}: is larger than {SCRIPT_BYTES_MAX} bytes: {right}")
        command = [*interpreter, "-c", text, file.name, *arguments]
    else:
        command = [*interpreter, str(file.absolute()), *arguments]
    return {**directives, "command": command}


def refuse_unread_directives(command: Sequence[str]) -> None:
    """Refuse a command that is a job script: its directives would mean nothing.

    Raises:
        ScriptError: the command's file has #WEIR lines.
    """
    text = ""
    with suppress(OSError, ValueError):  # may be a program that the pool finds, or no text
        if (file := Path(command[0])).is_file():
            with file.open("rb") as start:
                text = start.read(SCRIPT_BYTES_MAX).decode()
    if is_script(text) and any(_is_directive(line) for line in _head(text)):
        right = f"write `weir submit -f {file}`, with its arguments after --"
        raise ScriptError(f"{file}: has {DIRECTIVE} lines, which only --file reads: {right}")


def _directives(text: str, file: Path) -> dict[str, Any]:
    """Return the fields of the directives, which come before the first command."""
    words: list[str] = []
    for number, line in enumerate(_head(text), 1):
        if not _is_directive(line):
            continue
        _, _, options = line.strip().partition(" ")
        try:
            these = shlex.split(options, comments=True)
            _parsed(these)
        except (ValueError, CycloptsError) as error:
            raise ScriptError(f"{file}:{number}: {_directive_mistake(error)}") from None
        words += these
    return _parsed(words) if words else {}


def _head(text: str) -> Iterator[str]:
    """Yield the lines before the first command."""
    return takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), text.splitlines())


def _is_directive(line: str) -> bool:
    return line.strip().partition(" ")[0] == DIRECTIVE


def _parsed(words: Sequence[str]) -> dict[str, Any]:
    """Return options as fields of a submission.

    Raises:
        ValueError, CycloptsError: they can't be read.
    """
    options = App(name="weir submit", help_flags=[], version_flags=[], result_action="return_value")
    options.default(_options)
    fields: dict[str, Any] = options(list(words), exit_on_error=False, print_error=False)
    return fields


def _options(
    *,
    project: Annotated[str | None, Parameter(name=("--project", "-p"))] = None,
    name: str | None = None,
    workload: WorkloadOptions = WorkloadOptions(),
    indices: ArrayOptions = ArrayOptions(),
    conditions: StartOptions = StartOptions(),
) -> dict[str, Any]:
    """Return the fields of a submission for the options of a directive."""
    stated = {"project": project, "name": name}
    fields: dict[str, Any] = {key: value for key, value in stated.items() if value is not None}
    fields |= workload.stated(conditions, indices)
    if workload.environment.env:
        fields["env"] = variables(workload.environment.env)
    return fields


def _directive_mistake(error: Exception) -> str:
    """Return the message about a mistake in a directive, on one line."""
    sentence = " ".join(str(error).split()).rstrip(".")
    return f"{DIRECTIVE}: {sentence}; write options of `weir submit`"


def program_of(interpreter: Sequence[str]) -> str:
    """Return the name of the program that a first line runs, through `env` or not."""
    names = [Path(word).name for word in interpreter if not word.startswith("-")]
    return names[1] if names[:1] == ["env"] and len(names) > 1 else names[0] if names else ""
