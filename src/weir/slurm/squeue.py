"""Answer `squeue` for the own job, in the formats that scripts ask for."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from weir.slurm.errors import SlurmError
from weir.slurm.queue_fields import FIELDS, LONG_NAMES, task_of

_DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_CODE = re.compile(r"%(\.?)(\d*)(\w)")
_LONG = re.compile(r"([A-Za-z]+)(?::(\.?)(\d*))?")
_LONG_WIDTH = "20"
_VALUES = {"-j": "job", "--job": "job", "--jobs": "job", "-o": "format", "--format": "format"}
_VALUES |= {"-O": "names", "--Format": "names"}
_NO_HEADER = ("-h", "--noheader")
_IGNORED = ("-r", "--array", "-a", "--all")


def main(words: Sequence[str]) -> int:
    """Answer; return the exit code."""
    try:
        lines = answer(words, os.environ)
    except SlurmError as error:
        print(f"squeue: error: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def answer(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Return the lines of an answer: a header, unless it isn't wanted, and the job.

    Raises:
        SlurmError: the question is about other jobs, or has no answer here.
    """
    given, has_header = {"job": "", "format": _DEFAULT}, True
    rest = _split(words)
    for word in rest:
        if word in _VALUES:
            given[_VALUES[word]] = next(rest, "")
        elif word in _NO_HEADER:
            has_header = False
        elif word not in _IGNORED:
            raise SlurmError(f"{word} has no answer in a job: `weir list` lists the workloads")
    _check_job(given["job"], variables)
    parts = _columns(given["names"], variables) if "names" in given else _codes(given["format"], variables)
    heads, row = ("".join(texts).rstrip() for texts in zip(*parts, strict=True))
    return [heads, row] if has_header else [row]


def _split(words: Sequence[str]) -> Iterator[str]:
    """Yield options and their values as words of their own, also those of -hj7 and --jobs=7."""
    for written in words:
        word = written
        if word.startswith("--"):
            yield from filter(None, word.partition("=")[::2])
            continue
        while len(word) > 2 and word.startswith("-"):
            yield word[:2]
            word = word[2:] if word[:2] in _VALUES else f"-{word[2:]}"
        yield word


def _check_job(job: str, variables: Mapping[str, str]) -> None:
    """Check that the question is about the own job.

    Raises:
        SlurmError: the question is about all jobs, or about another one.
    """
    own = variables.get("SLURM_JOB_ID", "")
    if not job:
        raise SlurmError(f"a job can query only itself, with -j {own}: `weir list` lists the workloads")
    if job not in (own, variables.get("SLURM_ARRAY_JOB_ID"), task_of(variables)):
        raise SlurmError(f"job {job} is another one: `weir describe {job}` shows it")


def _codes(written: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield header and value of each part of a format such as `%i %.10L`.

    Raises:
        SlurmError: a code is unknown.
    """
    offset = 0
    for match in _CODE.finditer(written):
        yield (written[offset : match.start()],) * 2
        dot, width, code = match.groups()
        yield _cells(code, f"%{code}", dot, width, variables)
        offset = match.end()
    yield (written[offset:],) * 2


def _columns(written: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield header and value of each part of a format such as `JobID,TimeLeft:.10`.

    Raises:
        SlurmError: a name is unknown.
    """
    for part in written.split(","):
        match = _LONG.fullmatch(part.strip())
        name, dot, width = match.groups() if match else (part, "", "")
        yield _cells(LONG_NAMES.get(name.lower(), ""), name, dot or "", width or _LONG_WIDTH, variables)


def _cells(code: str, written: str, dot: str, width: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return header and value of a field in their width, to the right with a dot."""
    if code not in FIELDS:
        raise SlurmError(f"{written} has no answer in a job: `weir describe {task_of(variables)}` shows more")
    head, value = FIELDS[code]
    texts = (head, value(variables))
    if not width:
        return texts
    size = int(width[:3])
    return tuple(f"{text[:size]:{'>' if dot else '<'}{size}}" for text in texts)  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
