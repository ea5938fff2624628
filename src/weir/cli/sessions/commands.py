"""`weir shell` and `weir ssh`: start an interactive workload and enter it, in one command."""

import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from weir.cli.options.option_types import Switch
from weir.cli.output.terminal import has_person
from weir.cli.pool.connect import connect
from weir.cli.sessions import ssh_config, ssh_files
from weir.cli.sessions.exec import run_beside
from weir.cli.sessions.pipe import found_sshd, no_terminals, pipe
from weir.cli.sessions.pod_entry import SHELL_IN_CONTAINER, EntryRefused, enter, first_process
from weir.cli.sessions.start import (
    SessionOptions,
    default_name,
    live,
    running,
    say_kept,
    say_stop,
    ssh_program,
    submit_session,
)
from weir.client.address import find

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.client.api import Pool

ELSEWHERE = "a session is entered on the machine of the pool, or with WEIR_URL=ssh://HOST"

SessionName = Annotated[str | None, Parameter(help="The workload; shell-USER if left out.")]
app = App(name="session", help="Forward connections to running workloads.")
app.command(pipe)


def shell(
    name: SessionName = None,
    /,
    *command: str,
    options: SessionOptions = SessionOptions(),
) -> int:
    """Open a shell in a workload, as in `weir shell dev -p vision --gpus 1`.

    If there is no workload of this name, an interactive one is queued with these options, and entered once it
    runs. The workload goes on after the shell; `weir stop` ends it.

    Parameters
    ----------
    command
        Command to run there in place of a shell: everything after --.
    """
    if find().is_cluster:
        from weir.cli.sessions.kubernetes import cluster_shell

        return cluster_shell.shell(name, command, options)

    def enter_shell(pool: "Pool", detail: "WorkloadDetail") -> int:
        if pool.address.ssh is not None:
            directory = shlex.quote(detail.directory or ".")
            run = shlex.join(command) or '"${SHELL:-/bin/sh}"'
            terminal = not command or has_person()
            return _become_ssh(pool, detail, "-t" if terminal else "", f"cd {directory}; exec {run}")
        leader = enter(pool, detail)
        if detail.image:
            return run_beside(leader, command or SHELL_IN_CONTAINER, first_process(leader, awaited=True))
        return run_beside(leader, command or [leader.environment.get("SHELL") or "/bin/sh"], None)

    return in_session(name, options, enter_shell)


def ssh(
    name: SessionName = None,
    /,
    *command: str,
    options: SessionOptions = SessionOptions(),
    print_config: Switch = False,
) -> int:
    """Log in to a workload with OpenSSH, as in `weir ssh dev -p vision --gpus 1`.

    If there is no workload of this name, an interactive one is queued with these options. From then on
    `ssh weir-dev`, scp, sftp, rsync and editors reach it by its name, without a port.

    Parameters
    ----------
    command
        Command to run there: everything after --; without one, a login shell.
    print_config
        Print the configuration of ssh for your workloads, and do nothing else.
    """
    if print_config:
        return _print_config()
    if find().is_cluster:
        from weir.cli.sessions.kubernetes import cluster_shell

        return cluster_shell.ssh(name, command, options)
    return in_session(name, options, lambda pool, detail: _become_ssh(pool, detail, "", *command))


def _become_ssh(pool: "Pool", detail: "WorkloadDetail", option: str, *command: str) -> int:
    """Become ssh to a workload.

    Raises:
        EntryRefused: OpenSSH is missing, or the workload's name is no host.
    """
    client = ssh_program()
    if pool.address.ssh is None and not detail.image:
        found_sshd()
        if not command and sys.stdin.isatty() and (why := no_terminals()):
            raise EntryRefused(f"{why} sets it, and `weir shell {detail.name}` does without")
    host = ssh_files.host_alias(detail.name)
    try:
        path = ssh_config.write(ssh_config.configuration(pool))
        ssh_config.offer_inclusion(path)
    except OSError as error:
        where = error.filename or ssh_config.config_path()
        raise EntryRefused(
            f"{where}: {error.strerror}: the configuration of ssh can't be written there; set "
            f"XDG_CONFIG_HOME to another directory, or use `weir shell {detail.name}`"
        ) from None
    sys.stdout.flush()
    words = [client, "-F", str(path), *([option] if option else ()), "--", host, *command]
    os.execv(client, words)  # noqa: S606 - what was asked for


def _print_config() -> int:
    if find().is_cluster:
        from weir.cli.sessions.kubernetes import cluster_shell

        return cluster_shell.print_config()
    with connect() as pool:
        print(ssh_config.configuration(pool), end="")
    return 0


def in_session(
    name: str | None, options: SessionOptions, enter_it: "Callable[[Pool, WorkloadDetail], int]"
) -> int:
    """Enter the named session once it runs; queue it first if there is none. Return the exit code."""
    with connect(namespace=options.placement.namespace) as pool:
        detail = _session(pool, name, options)
        say_stop(detail.name)
        return enter_it(pool, detail)


def _session(pool: "Pool", name: str | None, options: SessionOptions) -> "WorkloadDetail":
    """Return the named session once it runs; queue it first if there is none."""
    if not pool.address.is_loopback and pool.address.ssh is None:
        raise EntryRefused(ELSEWHERE, 2)
    name = name or default_name(pool.whoami().user, "shell")
    detail = live(pool, name)
    if detail is None:
        return running(pool, submit_session(pool, name, options), is_new=True)
    if options.fields:
        say_kept(name)
    return running(pool, detail, is_new=False)
