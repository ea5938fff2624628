"""`weir exec`: a command next to a running pod, on the pod's machine.

The environment of a pod's process is in /proc, readable for its own user only. In a personal pool the command
enters the pod's control groups by itself; in a pool for several users the server has it put there. The pod's
id stays in the environment, so the command ends with the pod.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.api.answers import PodRow, WorkloadDetail
    from weir.local.pod_records import RunningRecord

BEGUN_S_MAX, BEGUN_LOOK_S = 10.0, 0.02
"""Time for which the process of a pod that has just begun is awaited, and between two looks."""
_TICKS_AT = 19
"""Where /proc/PID/stat says when a process started, counted after the name."""


class _NotHere(Exception):
    """The command can't run; the text says what to do."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code


def exec_(name: str, /, *command: str, pod: str | None = None) -> int:
    """Run a command next to a running workload, as in `weir exec NAME -- nvidia-smi`.

    It has the environment, the devices and the directory of one of its pods, and ends with it. This works
    on the machine the workload runs on, for its submitter.

    Parameters
    ----------
    name
        The workload.
    command
        The command: everything after --.
    pod
        The pod as group/index; by default the first running one.
    """
    from weir.cli.connect import connect

    if not command:
        print("weir: no command is named: write it after --, such as -- nvidia-smi.", file=sys.stderr)
        return 2
    with connect() as pool:
        detail = pool.get(name)
        if pool.address.is_cluster:
            print(f"weir: that is done with {_kubectl(detail)}.", file=sys.stderr)
            return 2
        try:
            chosen = _chosen(detail, pod)
            if pool.address.is_installed:
                entry = pool.enter(detail.name, pod="/".join(chosen[0].name.rsplit("/", 2)[-2:]))
                leader, ticks = entry.leader, entry.leader_ticks
            else:
                record = _running(detail, chosen, local=pool.address.is_loopback)
                leader, ticks = record.leader, record.leader_ticks
                _join(record.cgroups)
            environment, directory = _seen(leader, ticks)
            if detail.image:
                return _in_container(environment, command)
        except _NotHere as reason:
            print(f"weir: {reason}.", file=sys.stderr)
            return reason.code
    sys.stdout.flush()
    try:
        os.chdir(directory)
        os.execvpe(command[0], command, environment)  # noqa: S606 - that is what was asked for
    except OSError as error:
        print(f"weir: {command[0]} can't be run: {error.strerror}.", file=sys.stderr)
        return 1


def _in_container(environment: dict[str, str], command: Sequence[str]) -> int:
    """Run a command in the container of a pod; return its exit code.

    Raises:
        _NotHere: it can't be entered.
    """
    from weir.local.containers import enter

    sys.stdout.flush()
    try:
        return enter.run(enter.first_process(environment), command)
    except enter.NotEntered as reason:
        raise _NotHere(str(reason)) from None


def _kubectl(detail: "WorkloadDetail") -> str:
    namespace = detail.name.partition("/")[0]
    pod = next((row.name.rpartition("/")[2] for row in detail.pod_rows if row.status == "running"), "POD")
    return f"kubectl exec -n {namespace} -it {pod} -- COMMAND"


def _chosen(detail: "WorkloadDetail", pod: str | None) -> "tuple[PodRow, int]":
    """Return the chosen pod and the position of its group."""
    if not detail.command:
        raise _NotHere(f"your token doesn't hold for project {detail.project}", code=2)
    groups: dict[str, int] = {}
    for row in detail.pod_rows:
        group = row.name.rsplit("/", 2)[-2]
        at = groups.setdefault(group, len(groups))
        short = "/".join(row.name.rsplit("/", 2)[-2:])
        if row.status == "running" and pod in (None, short, row.name) and row.start is not None:
            return row, at
    which = detail.name if pod is None else f"{detail.name}'s pod {pod}"
    raise _NotHere(f"{which} doesn't run; `weir describe {detail.name}` shows what does")


def _running(detail: "WorkloadDetail", chosen: "tuple[PodRow, int]", *, local: bool) -> "RunningRecord":
    """Return the record of the pod's supervisor."""
    from weir.client.address import home
    from weir.local import pod_files
    from weir.local.job_files import UnreadableFile
    from weir.local.pod_records import parse_running

    if not local:
        raise _NotHere("the pool is on another machine: run this there")
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
        raise _NotHere(f"{directory} isn't there: run this on the machine of the pool")
    if isinstance(record, UnreadableFile):
        raise _NotHere(f"{directory} can't be read: run this as the person who runs the pool")
    return record


def _seen(leader: int, leader_ticks: int | None) -> tuple[dict[str, str], str]:
    """Return the environment and directory of the pod's process, if its id still belongs to it."""
    at = Path("/proc") / str(leader)
    try:
        ticks = (at / "stat").read_text().rpartition(")")[2].split()[_TICKS_AT]
        if leader_ticks not in (None, int(ticks)):
            raise _NotHere("its process is over")
        raw = (at / "environ").read_bytes().decode("utf-8", "surrogateescape")
        directory = str((at / "cwd").readlink())
    except PermissionError:
        raise _NotHere("its process belongs to someone else: run this as its submitter") from None
    except (OSError, IndexError, ValueError):
        raise _NotHere("its process is over") from None
    return dict(each.split("=", 1) for each in raw.split("\0") if "=" in each), directory


def _join(cgroups: Sequence[str]) -> None:
    """Join the pod's cgroups, if the kernel permits it."""
    for each in cgroups:
        with suppress(OSError):
            Path(each, "cgroup.procs").write_text(str(os.getpid()))
