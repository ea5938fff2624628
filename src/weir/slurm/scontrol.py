"""Answer the questions that scripts ask `scontrol`: names of hosts, and facts of the own job."""

import os
import sys
from collections.abc import Sequence

from weir.slurm.errors import SlurmError
from weir.slurm.hostlists import expand_hosts, fold_hosts
from weir.slurm.job_place import DIRECTORY
from weir.slurm.job_settings import SCRIPT_NAME

_RIGHT = "write scontrol show hostnames, scontrol show hostlist or scontrol show job"


def main(words: Sequence[str]) -> int:
    """Answer; return the exit code."""
    plain = [word for word in words if not word.startswith("-")]
    try:
        for line in _answer(plain):
            print(line)
    except SlurmError as error:
        print(f"scontrol: error: {error}", file=sys.stderr)
        return 1
    return 0


def _answer(words: Sequence[str]) -> Sequence[str]:
    """Return the lines of an answer.

    Raises:
        SlurmError: the question has no answer here.
    """
    if len(words) < 2 or not "show".startswith(words[0]):
        named = " ".join(words) or "nothing"
        raise SlurmError(f"{named!r} is no question that a job can ask here: {_RIGHT}")
    subject, rest = words[1], words[2:]
    if subject in ("hostnames", "hostname"):
        return expand_hosts(rest[0] if rest else os.environ.get("SLURM_JOB_NODELIST", ""))
    if subject in ("hostlist", "hostlistsorted"):
        return [fold_hosts([name for word in rest for name in word.split(",")])]
    if subject in ("job", "jobs"):
        return [_job(rest[0] if rest else os.environ.get("SLURM_JOB_ID", ""))]
    raise SlurmError(f"show {subject} is no question that a job can ask here: {_RIGHT}")


def _job(number: str) -> str:
    """Return the facts of the own job."""
    variables = os.environ
    own = variables.get("SLURM_JOB_ID", "")
    if number != own:
        raise SlurmError(f"job {number} is another one: `weir describe {number}` shows it")
    lines = (
        f"JobId={own} JobName={variables.get('SLURM_JOB_NAME', '')}",
        f"   UserId={variables.get('SLURM_JOB_USER', '')}({variables.get('SLURM_JOB_UID', '')})",
        "   JobState=RUNNING Reason=None",
        f"   Requeue=1 Restarts={variables.get('SLURM_RESTART_COUNT', '0')} BatchFlag=1",
        f"   Partition={variables.get('SLURM_JOB_PARTITION', '')}",
        f"   NodeList={variables.get('SLURM_JOB_NODELIST', '')}",
        f"   BatchHost={variables.get('SLURMD_NODENAME', '')}",
        f"   NumNodes=1 NumCPUs={variables.get('SLURM_CPUS_ON_NODE', '1')}",
        f"   Command={variables.get(DIRECTORY, '')}/{SCRIPT_NAME}",
        f"   WorkDir={variables.get('SLURM_SUBMIT_DIR', '')}",
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
