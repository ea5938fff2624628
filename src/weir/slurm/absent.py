"""Programs of Slurm without an answer in a job, by their names: each names the command of Weir."""

import os
import sys
from collections.abc import Sequence

_FAILED = 1
INSTEAD = {
    "sacct": "`weir describe {job}` shows its times, use and end",
    "sinfo": "`weir nodes` lists the nodes",
    "sstat": "`weir describe {job}` shows its use",
}


def main(words: Sequence[str]) -> int:
    """Print the command of Weir; return the exit code of a failure."""
    program, job = words[0], os.environ.get("SLURM_JOB_ID", "NAME")
    print(f"{program}: error: Weir has no {program}: {INSTEAD[program].format(job=job)}", file=sys.stderr)
    return _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
