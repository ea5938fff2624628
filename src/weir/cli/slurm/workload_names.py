"""Names of workloads for jobs of Slurm, which may have any name."""

import re
import unicodedata

_NAME_MAX = 54
_JOB_NAME_MAX = 53


def workload_name(name: str) -> str:
    """Return a name for a workload that is like that of a job."""
    plain_letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", plain_letters)[:_NAME_MAX].strip("._-")
    if not kept:
        return "job"
    return f"job-{kept}" if kept.isdecimal() else kept


def job_name(name: str, number: int) -> str:
    """Return a name for the Job of a cluster: like that of the job, with its number."""
    plain_name = re.sub(r"[^a-z0-9]+", "-", workload_name(name).lower()).strip("-")
    suffix = f"-{number}"
    return f"{plain_name[: _JOB_NAME_MAX - len(suffix)].rstrip('-')}{suffix}"
