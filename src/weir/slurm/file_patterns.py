"""Names of output files: `slurm-%j.out`, `logs/%x-%A_%a.out`."""

import re
from collections.abc import Mapping

from weir.slurm.job_place import host
from weir.user_names import own_user

DEFAULT, DEFAULT_OF_ARRAY = "slurm-%j.out", "slurm-%A_%a.out"
_SYMBOL = re.compile(r"%(?:%|(\d{0,2})([A-Za-z]))")
_NUMBERS = "AaJjnst"
_NO_INDEX = "4294967294"


def pattern_values(
    job: str, *, name: str, array: str | None, index: str | None, step: str = "batch", task: str = "0"
) -> dict[str, str]:
    """Return the values of the symbols for a file of a job's script, or of a task of one of its steps."""
    return {
        "j": job,
        "J": job if step == "batch" else f"{job}.{step}",
        "A": array or job,
        "a": index or _NO_INDEX,
        "x": name,
        "u": own_user(),
        "N": host(),
        "n": "0",
        "s": step,
        "t": task,
    }


def expand(pattern: str, values: Mapping[str, str]) -> str:
    """Return a pattern with its symbols replaced, such as %j; an unknown symbol stays as it is.

    A number pads with zeros: %5j. A backslash in the pattern keeps all symbols as they are.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def value(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        replacement = values.get(match[2])
        if replacement is None:
            return match[0]
        return replacement.zfill(int(match[1])) if match[1] and match[2] in _NUMBERS else replacement

    return _SYMBOL.sub(value, pattern)
