"""Entry of this process into a running pod, on the pod's machine.

The environment of a pod's process is in /proc, readable for its own user only. In a personal pool this
process enters the pod's control groups by itself; in a pool for several users the server has it put there.
The pod's id stays in the environment, so this process ends with the pod.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from weir.cli.options.mistakes import CommandError

if TYPE_CHECKING:
    from weir.api.answers import PodRow, WorkloadDetail
    from weir.client.api import Pool
    from weir.local.records.pod_records import RunningRecord

BEGUN_S_MAX, BEGUN_LOOK_S = 10.0, 0.02
"""Time for which the process of a pod that has just begun is awaited, and between two looks."""
CONTAINER_LOOK_S = 0.1
"""Interval of checks for a container that still pulls its image."""
SHELL_IN_CONTAINER = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")
NOT_STARTED, NOT_FOUND = 126, 127
"""Exit codes of a program that can't be started and of one that doesn't exist, as a shell has them."""
_AWAITED = "The container starts once it has its image: `weir logs` shows the output meanwhile."


class EntryRefused(CommandError):
    """The pod can't be entered; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class EnteredLeader:
    """The first process of an entered pod.

    `ends_with_it`: control groups end this process with the pod. `ticks`: when the first process began.
    """

    pid: int
    ticks: int
    environment: dict[str, str]
    directory: str
    ends_with_it: bool


def enter(pool: "Pool", detail: "WorkloadDetail", pod: str | None = None) -> EnteredLeader:
    """Enter a pod of a workload, by default the first one that runs.

    Raises:
        EntryRefused: it doesn't run, runs on another machine, or belongs to someone else.
    """
    chosen = _chosen(detail, pod)
    if pool.address.is_installed:
        entry = pool.enter(detail.name, pod="/".join(chosen[0].name.rsplit("/", 2)[-2:]))
        leader, ticks, joined = entry.leader, entry.leader_ticks, True
    else:
        record = _running(detail, chosen, local=pool.address.is_loopback)
        leader, ticks = record.leader, record.leader_ticks
        joined = _join(record.cgroups)
    return EnteredLeader(leader, *_seen(leader, ticks), ends_with_it=joined)


def first_process(leader: EnteredLeader, *, awaited: bool = False) -> int:
    """Return the first process of an entered pod's container; wait for its image if it is `awaited`.

    Raises:
        EntryRefused: it doesn't run.
    """
    from weir.local.containers import enter as container
    from weir.local.records import pod_files

    is_said = False
    while True:
        try:
            return container.first_process(leader.environment)
        except container.NotEntered as reason:
            if not awaited:
                raise EntryRefused(str(reason)) from None
        if pod_files.started_ticks(leader.pid) != leader.ticks:  # the process id may have been reused
            raise EntryRefused("its container is over: `weir describe` and `weir logs` say why")
        if not is_said:
            print(_AWAITED, file=sys.stderr, flush=True)
            is_said = True
        sleep(CONTAINER_LOOK_S)


def _chosen(detail: "WorkloadDetail", pod: str | None) -> "tuple[PodRow, int]":
    """Return the chosen pod and the position of its group."""
    if not detail.command:
        raise EntryRefused(f"your token doesn't hold for project {detail.project}", code=2)
    groups: dict[str, int] = {}
    for row in detail.pod_rows:
        group = row.name.rsplit("/", 2)[-2]
        position = groups.setdefault(group, len(groups))
        short = "/".join(row.name.rsplit("/", 2)[-2:])
        if row.status == "running" and pod in (None, short, row.name) and row.start is not None:
            return row, position
    raise EntryRefused(not_running(detail, pod))


def not_running(detail: "WorkloadDetail", pod: str | None) -> str:
    """Return a sentence about a workload, or a pod of it, that can't be entered now."""
    name = detail.name
    if detail.ended_s is not None:
        return f"{name} is over: it has {detail.status if detail.status != 'stopped' else 'been stopped'}"
    if detail.status == "pending":
        return f"{name} is pending; `weir why {name}` explains it"
    which = name if pod is None else f"{name}'s pod {pod}"
    return f"{which} doesn't run; `weir describe {name}` shows its running pods"


def _running(detail: "WorkloadDetail", chosen: "tuple[PodRow, int]", *, local: bool) -> "RunningRecord":
    """Return the record of the pod's supervisor."""
    from weir.client.address import home
    from weir.local.files.job_files import UnreadableFile
    from weir.local.records import pod_files
    from weir.local.records.pod_records import parse_running

    if not local:
        raise EntryRefused("the pool is on another machine: run this there")
    row, group = chosen
    index = row.name.rsplit("/", 1)[1]
    directory = home().absolute() / pod_files.RECORDS / str(detail.uid) / f"{row.start}-{group}-{index}"
    until_s = monotonic() + BEGUN_S_MAX
    try:
        while (text := pod_files.read(str(directory), pod_files.RUNNING)) is None:
            if monotonic() > until_s or not directory.is_dir():
                break
            sleep(BEGUN_LOOK_S)
        record = parse_running(text)
    except OSError:
        record = None
    if record is None:
        raise EntryRefused(f"{directory} isn't there: run this on the machine of the pool")
    if isinstance(record, UnreadableFile):
        raise EntryRefused(f"{directory} can't be read: run this as the user of the pool's server")
    return record


def _seen(leader: int, leader_ticks: int | None) -> tuple[int, dict[str, str], str]:
    """Return the start, environment and directory of the pod's process, if its id still belongs to it."""
    from weir.local.records import pod_files

    process = Path("/proc") / str(leader)
    ticks = pod_files.started_ticks(leader)
    if ticks is None or leader_ticks not in (None, ticks):
        raise EntryRefused("its process is over")
    try:
        raw = (process / "environ").read_bytes().decode("utf-8", "surrogateescape")
        directory = str((process / "cwd").readlink())
    except PermissionError:
        raise EntryRefused("its process belongs to someone else: run this as its submitter") from None
    except OSError:
        raise EntryRefused("its process is over") from None
    return ticks, dict(variable.split("=", 1) for variable in raw.split("\0") if "=" in variable), directory


def _join(cgroups: Sequence[str]) -> bool:
    """Join the pod's cgroups, if the kernel permits it; return True if it joined one."""
    joined = False
    for cgroup in cgroups:
        with suppress(OSError):
            Path(cgroup, "cgroup.procs").write_text(str(os.getpid()))
            joined = True
    return joined
