"""A submission, or several of them, as a YAML or JSON file or from the standard input."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weir.api.batches import SubmissionBatch
from weir.api.submissions import Submission
from weir.cli.submissions.job_script import is_script, read_script
from weir.scenario_io.document import input_name, input_text, read_document
from weir.scenario_io.error_messages import validated
from weir.scenario_io.source_map import Mistakes, Step

_SCRIPTS = {".py": "python", ".sh": "sh"}
"""Programs that run scripts, by the ends of their names."""


class _Lines(Mistakes):
    """Mistakes of a submission, whose pod fields may stand at its top."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.top: frozenset[str] = frozenset()

    def line(self, path: Sequence[Step]) -> int:
        """Return the line of a path in the file."""
        inside = list(path[2:])
        at_top = list(path[:2]) == ["pods", 0] and bool(inside) and inside[0] in self.top
        return super().line(inside if at_top else path)


def read_submission(file: Path, command: Sequence[str] = ()) -> tuple[dict[str, Any], Sequence[str]]:
    """Return the submission of a file, and the command that overrides its own; `-` is the standard input.

    A job script takes the words of the command as its arguments, so none are left.

    Raises:
        scenario.InvalidFile: the file has mistakes; each has its line.
        ScriptError: a job script has a mistake.
    """
    mistakes = _Lines(input_name(file))
    text = input_text(file, mistakes)
    if is_script(text):
        return read_script(text, file, command), ()
    if file.suffix in _SCRIPTS:
        right = f"add one, or write weir submit -- {_SCRIPTS[file.suffix]} {file}"
        mistakes.on(1, f"is a script without #! in its first line; {right}")
        mistakes.refuse_if_any()
    body = read_document(text, mistakes)
    if not isinstance(body, dict):
        mistakes.on(1, "is no mapping; write keys and values such as project: vision")
    mistakes.refuse_if_any()
    mistakes.top = frozenset(body)
    if "workloads" in body:
        _check_batch(body, mistakes)
        return dict(body), command
    # Options may add the project and the command.
    validated(Submission, {"project": "-", **({} if "run" in body else {"command": ["-"]}), **body}, mistakes)
    return dict(body), command


def _check_batch(body: dict[str, Any], mistakes: Mistakes) -> None:
    """Check a file with several workloads; options may still name the project.

    Raises:
        scenario.InvalidFile: with all mistakes.
    """
    defaults = body.get("defaults", {})
    defaults = {"project": "-", **defaults} if isinstance(defaults, dict) else defaults
    validated(SubmissionBatch, {**body, "defaults": defaults}, mistakes)
