"""`scancel` in a job: `weir stop` with the numbers of the jobs."""

import os
import sys
from collections.abc import Sequence

from weir.slurm.queue_fields import task_of

_IGNORED = ("-Q", "--quiet", "-v", "--verbose", "-f", "--full")
_FAILED = 1


def main(words: Sequence[str]) -> int:
    """Stop the jobs; return the exit code if there is nothing to stop."""
    names = [word for word in words if word not in _IGNORED]
    numbers = [os.environ["SLURM_JOB_ID"] if name == task_of(os.environ) else name for name in names]
    for number in numbers:
        if not (number.isascii() and number.isdigit()):
            return _refuse(f"{number} is no number of a job: `weir stop` takes names, patterns and options")
    if not numbers:
        return _refuse("no job is named: write its number, such as $SLURM_JOB_ID")
    stop = [sys.executable, "-I", "-m", "weir", "stop", "--yes", *numbers]
    return os.execv(sys.executable, stop)  # noqa: S606 - the stop of the person who runs the job


def _refuse(sentence: str) -> int:
    print(f"scancel: error: {sentence}", file=sys.stderr)
    return _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
