"""Fields of the own job as `squeue` writes them, from the variables of the job."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime

from weir.slurm.job_place import DIRECTORY, LIMIT, STARTED
from weir.slurm.job_settings import SCRIPT_NAME

Variables = Mapping[str, str]
_UNKNOWN, _UNLIMITED = "INVALID", "UNLIMITED"


def task_of(variables: Variables) -> str:
    """Return the job as squeue writes it: with the index of a task of an array."""
    own, index = variables.get("SLURM_JOB_ID", ""), variables.get("SLURM_ARRAY_TASK_ID")
    return own if index is None else f"{variables.get('SLURM_ARRAY_JOB_ID', own)}_{index}"


def _variable(name: str, default: str = "") -> Callable[[Variables], str]:
    return lambda variables: variables.get(name, default)


def _text(value: str) -> Callable[[Variables], str]:
    return lambda _: value


def _started_s(variables: Variables) -> float | None:
    written = variables.get(STARTED)
    return float(written) if written else None


def _limit_s(variables: Variables) -> float | None:
    written = variables.get(LIMIT)
    return float(written) if written else None


def span_of(seconds: float) -> str:
    """Return a time span as Slurm writes it: 1-02:03:04 or 3:04."""
    minutes, left = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _used(variables: Variables) -> str:
    started_s = _started_s(variables)
    return _UNKNOWN if started_s is None else span_of(time.time() - started_s)


def _limit(variables: Variables) -> str:
    limit_s = _limit_s(variables)
    return _UNLIMITED if limit_s is None else span_of(limit_s)


def _left(variables: Variables) -> str:
    started_s, limit_s = _started_s(variables), _limit_s(variables)
    if limit_s is None:
        return _UNLIMITED
    return _UNKNOWN if started_s is None else span_of(started_s + limit_s - time.time())


def _moment(at_s: float | None) -> str:
    return "N/A" if at_s is None else datetime.fromtimestamp(at_s).strftime("%Y-%m-%dT%H:%M:%S")  # noqa: DTZ006


def _end(variables: Variables) -> str:
    started_s, limit_s = _started_s(variables), _limit_s(variables)
    return _moment(None if started_s is None or limit_s is None else started_s + limit_s)


FIELDS: dict[str, tuple[str, Callable[[Variables], str]]] = {
    "A": ("JOBID", _variable("SLURM_JOB_ID")),
    "a": ("ACCOUNT", _variable("SLURM_JOB_ACCOUNT", "(null)")),
    "B": ("EXEC_HOST", _variable("SLURMD_NODENAME")),
    "C": ("CPUS", _variable("SLURM_CPUS_ON_NODE", "1")),
    "D": ("NODES", _variable("SLURM_JOB_NUM_NODES", "1")),
    "e": ("END_TIME", _end),
    "F": (
        "ARRAY_JOB_ID",
        lambda variables: variables.get("SLURM_ARRAY_JOB_ID", variables.get("SLURM_JOB_ID", "")),
    ),
    "i": ("JOBID", task_of),
    "j": ("NAME", _variable("SLURM_JOB_NAME")),
    "K": ("ARRAY_TASK_ID", _variable("SLURM_ARRAY_TASK_ID", "N/A")),
    "L": ("TIME_LEFT", _left),
    "l": ("TIME_LIMIT", _limit),
    "M": ("TIME", _used),
    "N": ("NODELIST", _variable("SLURM_JOB_NODELIST")),
    "o": ("COMMAND", lambda variables: f"{variables.get(DIRECTORY, '')}/{SCRIPT_NAME}"),
    "P": ("PARTITION", _variable("SLURM_JOB_PARTITION")),
    "R": ("NODELIST(REASON)", _variable("SLURM_JOB_NODELIST")),
    "r": ("REASON", _text("None")),
    "S": ("START_TIME", lambda variables: _moment(_started_s(variables))),
    "T": ("STATE", _text("RUNNING")),
    "t": ("ST", _text("R")),
    "U": ("UID", _variable("SLURM_JOB_UID")),
    "u": ("USER", _variable("SLURM_JOB_USER")),
    "Z": ("WORK_DIR", _variable("SLURM_SUBMIT_DIR")),
}
"""Header and value of each field, by the code of --format."""
LONG_NAMES = {
    "account": "a",
    "arrayjobid": "F",
    "arraytaskid": "K",
    "batchhost": "B",
    "command": "o",
    "endtime": "e",
    "jobarrayid": "i",
    "jobid": "A",
    "name": "j",
    "nodelist": "N",
    "numcpus": "C",
    "numnodes": "D",
    "partition": "P",
    "reason": "r",
    "reasonlist": "R",
    "starttime": "S",
    "state": "T",
    "statecompact": "t",
    "timeleft": "L",
    "timelimit": "l",
    "timeused": "M",
    "userid": "U",
    "username": "u",
    "workdir": "Z",
}
"""Codes by the names of --Format, in small letters."""
