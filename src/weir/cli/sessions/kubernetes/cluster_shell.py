"""`weir shell`, `weir exec`, `weir ssh` and `weir session pipe` on a cluster."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from weir.cli.output.terminal import has_person
from weir.cli.sessions import ssh_config, ssh_files
from weir.cli.sessions.kubernetes.cluster_entry import ClusterPool, cluster_pool
from weir.cli.sessions.kubernetes.container_sshd import check_command, not_started, refusal_of, serve_command
from weir.cli.sessions.kubernetes.session_container import (
    missing_program,
    namespace_of,
    running_container,
    short_name,
)
from weir.cli.sessions.pod_entry import NOT_FOUND, NOT_STARTED, SHELL_IN_CONTAINER, EntryRefused, not_running
from weir.cli.sessions.start import SessionOptions, live, say_stop, ssh_program
from weir.client.errors import PoolError
from weir.kubernetes.api.container_address import ContainerAddress, ExecNotStarted
from weir.kubernetes.api.errors import ApiError, ApiRefused

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail

_OF_WORKLOAD = "_"
"""Separator of namespace and name in a host of ssh: no name of Kubernetes has it."""
_SESSIONS_MAX = 100
_BROKEN = 255
"""Exit code of a connection that broke off, as that of ssh."""
T = TypeVar("T")


def shell(name: str | None, command: Sequence[str], options: SessionOptions) -> int:
    """Run a command, by default a shell, in the named session; queue it first if there is none.

    Raises:
        EntryRefused: it can't be entered.
    """
    with cluster_pool(options.placement.namespace) as cluster:
        detail, address = cluster.session(name or cluster.default_name("shell"), options)
        say_stop(short_name(detail.name))
        return _run(cluster, detail, address, command or SHELL_IN_CONTAINER, terminal=has_person())


def execute(name: str, command: Sequence[str], pod: str | None) -> int:
    """Run a command in a running workload; return its exit code.

    Raises:
        EntryRefused: it can't be entered.
    """
    with cluster_pool() as cluster:
        whole = name
        with suppress(PoolError):  # in a project of several namespaces, the name alone is enough
            whole = cluster.whole_name(name)
        detail = cluster.pool.get(whole)
        cluster.check_right(namespace_of(detail.name))
        address = running_container(cluster.transport, detail, pod)
        if address is None:
            raise EntryRefused(not_running(detail, pod))
        return _run(cluster, detail, address, command, terminal=has_person())


def ssh(name: str | None, command: Sequence[str], options: SessionOptions) -> int:
    """Replace this process by ssh to the named session; queue it first if there is none.

    Raises:
        EntryRefused: it can't be entered, or not by ssh.
    """
    client = ssh_program()
    from weir.cli.sessions.kubernetes import exec_terminal

    with cluster_pool(options.placement.namespace) as cluster:
        detail, address = cluster.session(name or cluster.default_name("shell"), options)
        alias = _alias(cluster, detail)
        key = ssh_files.client_key(alias)
        access, check = cluster.transport.access, check_command(key)
        code, user = entered(lambda: exec_terminal.capture(access, address, check))
        if code:
            raise EntryRefused(refusal_of(code, user, short_name(detail.name)) or not_started(code))
        ssh_files.keep_user(alias, user.strip())
        path = ssh_config.write(configuration(cluster, alias))
        ssh_config.offer_inclusion(path)
        say_stop(short_name(detail.name))
    sys.stdout.flush()
    os.execv(client, [client, "-F", str(path), "--", ssh_files.host_alias(alias), *command])  # noqa: S606


def pipe(host: str, user: str | None) -> int:
    """Carry an SSH connection into the workload of a host; return the exit code.

    `user`: the account that ssh logs in to.

    Raises:
        EntryRefused: it can't be entered, or not by ssh.
    """
    alias = host.removeprefix(ssh_files.HOST_PREFIX)
    with cluster_pool() as cluster:
        workload = live(cluster.pool, alias.replace(_OF_WORKLOAD, "/", 1))
        if workload is None:
            raise EntryRefused(f"there is no workload {alias}: `weir ssh {alias}` makes one", 2)
        cluster.check_right(namespace_of(workload.name))
        detail, address = cluster.entered(workload, is_new=False)
        command = serve_command(ssh_files.client_key(alias), user or "")
        code = _run(cluster, detail, address, command, terminal=False)
        if (refusal := refusal_of(code, user or "", short_name(detail.name))) is not None:
            raise EntryRefused(refusal)
        return code


def configuration(cluster: ClusterPool, *further: str) -> str:
    """Return the configuration of ssh: for sessions that were entered from here, and for further ones."""
    rows = cluster.pool.page(type="build", limit=_SESSIONS_MAX).items
    entered = ssh_files.remote_names()
    names = {name for row in rows for name in _names(row.name) if name in entered} | set(further)
    users = {ssh_files.host_alias(name): ssh_files.user_of(name) for name in names}
    return ssh_config.render_for_cluster(users)


def print_config() -> int:
    """Print the configuration of ssh."""
    with cluster_pool() as cluster:
        print(configuration(cluster), end="")
    return 0


def _names(workload: str) -> tuple[str, str]:
    """Return the possible ssh host names of a workload."""
    short = short_name(workload)
    return short, f"{namespace_of(workload)}{_OF_WORKLOAD}{short}"


def _alias(cluster: ClusterPool, detail: "WorkloadDetail") -> str:
    """Return the ssh host name of a workload: the short one if it is found without a namespace."""
    from weir.client.errors import Refused

    short, whole = _names(detail.name)
    try:
        return short if cluster.pool.get(short).name == detail.name else whole
    except Refused:
        return whole


def _run(
    cluster: ClusterPool,
    detail: "WorkloadDetail",
    address: ContainerAddress,
    command: Sequence[str],
    *,
    terminal: bool,
) -> int:
    """Run a command in a container; say why it ended if its pod did.

    Raises:
        EntryRefused: it can't be started, or the stream broke off.
    """
    from weir.cli.sessions.kubernetes import exec_terminal

    access, code = cluster.transport.access, None
    try:
        code = entered(lambda: exec_terminal.run(access, address, command, terminal=terminal))
    except EntryRefused as refusal:
        over = cluster.why_over(detail, address, None) if refusal.code == _BROKEN else ""
        raise EntryRefused(over or str(refusal), refusal.code) from None
    if over := cluster.why_over(detail, address, code):
        print(f"weir: {over}.", file=sys.stderr)
    return code


def entered(run: Callable[[], T]) -> T:
    """Return the result of a command in a container.

    Raises:
        EntryRefused: it can't be started, or the stream broke off.
    """
    try:
        return run()
    except ExecNotStarted as error:
        if (missing := missing_program(str(error))) is not None:
            raise EntryRefused(f"the container has no program {missing}", NOT_FOUND) from None
        why = f"the command can't be started in the container: {error}".rstrip(".")
        raise EntryRefused(why, NOT_STARTED) from None
    except ApiRefused as error:
        raise EntryRefused(f"the API server refused the entry: {error.message}".rstrip(".")) from None
    except ApiError as error:
        again = "the same command connects again"
        raise EntryRefused(f"the connection broke off: {error}; {again}", _BROKEN) from None
