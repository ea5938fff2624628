"""`weir exec`: a command next to a running pod, on the pod's machine."""

import os
import sys
from collections.abc import Sequence

from weir.cli.options.mistakes import CommandError, WrongOption
from weir.cli.pool.connect import connect
from weir.cli.sessions.pod_entry import (
    NOT_FOUND,
    NOT_STARTED,
    EnteredLeader,
    EntryRefused,
    enter,
    first_process,
)

_TERMINAL = ("TERM", "COLORTERM", "NO_COLOR")
"""Variables that describe the terminal of the caller."""


def exec_(name: str, /, *command: str, pod: str | None = None) -> int:
    """Run a command next to a running workload, as in `weir exec NAME -- nvidia-smi`.

    The command has the environment, the devices and the directory of one pod, and ends with that pod. It
    works on the machine of the workload for its submitter, and on a cluster for people who may enter pods.

    Parameters
    ----------
    name
        The workload.
    command
        The command: everything after --.
    pod
        The pod as group/index, or its name on a cluster; by default the first running one.
    """
    from weir.client.address import find

    if not name:
        raise WrongOption("no workload is named: write it before --: weir exec NAME -- COMMAND")
    if not command:
        raise WrongOption("no command is named: write it after --, such as -- nvidia-smi")
    if find().is_cluster:
        from weir.cli.sessions.kubernetes import cluster_shell

        return cluster_shell.execute(name, command, pod)
    with connect() as pool:
        detail = pool.get(name)
        leader = enter(pool, detail, pod)
        container = first_process(leader) if detail.image else None
        return run_beside(leader, command, container)


def run_beside(leader: EnteredLeader, command: Sequence[str], container: int | None) -> int:
    """Become a command in the environment of an entered pod, or run it in the pod's container.

    `container`: the first process of the container, None for a pod without one.

    Raises:
        EntryRefused: the container can't be entered.
    """
    sys.stdout.flush()
    if container is not None:
        return _in_container(container, command)
    environment = leader.environment | {key: os.environ[key] for key in _TERMINAL if key in os.environ}
    try:
        os.chdir(leader.directory)
    except OSError as error:
        raise CommandError(f"{leader.directory} can't be entered: {error.strerror}") from None
    try:
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - that is what was asked for
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
        raise CommandError(f"{command[0]} can't be run: {error.strerror}", code) from None


def _in_container(container: int, command: Sequence[str]) -> int:
    """Run a command in the container of a pod; return its exit code.

    Raises:
        EntryRefused: it can't be entered.
    """
    from weir.local.containers.enter import NotEntered, run

    try:
        return run(container, command)
    except NotEntered as reason:
        raise EntryRefused(str(reason)) from None
