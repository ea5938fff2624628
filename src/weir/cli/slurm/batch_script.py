"""A job script with its effective options: from the script, variables and the command line."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from weir.cli.slurm.job_command import WRAPPED
from weir.cli.submissions.job_script import SCRIPT_BYTES_MAX
from weir.slurm.batch_request import BatchRequest, read_request
from weir.slurm.directives import STANDARD_INPUT, Directives, read_directives
from weir.slurm.errors import SlurmError
from weir.slurm.given_options import GivenOption, from_command_line, from_script, from_variables
from weir.slurm.options import OPTIONS, OptionTable, SlurmOption

_OWN = (
    SlurmOption("best-effort", takes="nothing"),
    SlurmOption("project"),
    SlurmOption("image"),
    SlurmOption("namespace"),
)
_NAME_OF_INPUT = "sbatch"
"""Name of a job whose script comes from standard input, as with Slurm."""
_TABLE = OptionTable("sbatch", (*OPTIONS, *_OWN))


@dataclass(frozen=True, slots=True)
class BatchScript:
    """A script, its request and its arguments. `name` is that of the job, and `file` the path of the script.

    `project`, `image` and `namespace` are those of the command line. `from_input`: the script is in no file.
    """

    text: str
    name: str
    file: str
    arguments: Sequence[str]
    directives: Directives
    request: BatchRequest
    best_effort: bool
    project: str | None = None
    image: str | None = None
    namespace: str | None = None
    from_input: bool = False

    @property
    def interpreter(self) -> list[str]:
        """Return the words of the first line."""
        return self.text.splitlines()[0].removeprefix("#!").split()


def read_batch_script(words: Sequence[str], variables: Mapping[str, str]) -> BatchScript:
    """Return the script of a command line.

    Raises:
        SlurmError: an option or the script can't be used.
    """
    given, rest = from_command_line(words, _TABLE)
    own = {given_option.name: given_option for given_option in given if given_option.option in _OWN}
    given = [given_option for given_option in given if given_option.option not in _OWN]
    text, file, arguments = _script(given, rest)
    if len(text.encode()) > SCRIPT_BYTES_MAX:
        right = "put its work into a second file that it runs"
        raise SlurmError(f"{file}: is larger than {SCRIPT_BYTES_MAX} bytes: {right}")
    shown = Path(file).name
    from_input = file == STANDARD_INPUT
    if from_input:
        file = _NAME_OF_INPUT
    directives = read_directives(text, shown)
    options = [*from_script(directives, shown), *from_variables(variables), *given]
    request = read_request(options, datetime.now().astimezone())
    name = request.text("job-name") or Path(file).name
    words_of = {
        key: given_option.text for key, given_option in own.items() if given_option.option.takes == "value"
    }
    best_effort = "best-effort" in own
    return BatchScript(
        text, name, file, arguments, directives, request, best_effort, **words_of, from_input=from_input
    )


def _script(given: Sequence[GivenOption], rest: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """Return the text of the script, its name and its arguments."""
    wrapped = [given_option.text for given_option in given if given_option.name == "wrap"]
    if wrapped:
        if rest:
            raise SlurmError(f"--wrap and the script {rest[0]} exclude each other: write one of them")
        return f"{WRAPPED}{wrapped[-1]}\n", "wrap", ()
    if not rest:
        if sys.stdin.isatty():
            raise SlurmError("no script is named: write weir sbatch FILE")
        return _decoded(sys.stdin.buffer.read(SCRIPT_BYTES_MAX + 1), STANDARD_INPUT), STANDARD_INPUT, ()
    if ":" in rest:
        raise SlurmError("a colon makes a heterogeneous job, and Weir has none: submit each part by itself")
    file = Path(rest[0])
    try:
        with file.open("rb") as opened:
            raw = opened.read(SCRIPT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SlurmError(f"{file} can't be read: {reason}") from None
    return _decoded(raw, str(file)), str(file), rest[1:]


def _decoded(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SlurmError(f"{name}: isn't UTF-8 at byte {error.start}: convert it, as with iconv") from None
