"""Jobs that a job waits for: `--dependency=afterok:20:21,afterany:23`."""

import re
from typing import NamedTuple

from weir.slurm.errors import SlurmError

KINDS = ("after", "afterok", "afternotok", "afterany")
_NOT_OURS = {
    "aftercorr": "array tasks don't wait for tasks of another array",
    "afterburstbuffer": "there are no burst buffers",
    "expand": "a job doesn't grow by another one",
    "singleton": "several jobs of one name may run at once",
}
_JOB = re.compile(r"(\d{1,18})(?:_(\d{1,9}|\*))?(?:\+(\d{1,9}))?", re.ASCII)


class JobDependency(NamedTuple):
    """A job, and its part: `kind` is one of KINDS."""

    kind: str
    job: str


class Unmet(NamedTuple):
    """A dependency that Weir doesn't know, and the reason."""

    written: str
    why: str


def read_dependencies(text: str) -> tuple[list[JobDependency], list[Unmet]]:
    """Return the dependencies, and those without a counterpart.

    Raises:
        SlurmError: one can't be read.
    """
    dependencies: list[JobDependency] = []
    unmet: list[Unmet] = []
    if "?" in text:
        unmet.append(Unmet(text, "Weir waits for all dependencies, and `?` asks for one of them"))
    for part in re.split(r"[,?]", text):
        kind, *jobs = part.split(":")
        if kind in _NOT_OURS:
            unmet.append(Unmet(part, _NOT_OURS[kind]))
            continue
        if not jobs and _JOB.fullmatch(kind):
            kind, jobs = "afterany", [kind]
        if kind not in KINDS or not jobs:
            raise _wrong(text)
        for job in jobs:
            match = _JOB.fullmatch(job)
            if match is None:
                raise _wrong(text)
            if match[2] or match[3]:
                target = "a task of an array" if match[2] else "a time after its start"
                unmet.append(Unmet(f"{kind}:{job}", f"a job waits for whole jobs, not for {target}"))
            dependencies.append(JobDependency(kind, match[1]))
    return dependencies, unmet


def _wrong(text: str) -> SlurmError:
    return SlurmError(
        f"--dependency={text}: write conditions and job numbers, such as afterok:20:21,afterany:23"
    )
