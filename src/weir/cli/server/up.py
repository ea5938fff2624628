"""`weir up`: the server of a pool on this machine, or the scheduler of a cluster."""

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from weir.cli.options.mistakes import option_mistakes
from weir.cli.options.numbers import whole_number
from weir.cli.server.remote_options import RemoteOptions, remote_access
from weir.cli.server.up_options import (
    CLUSTER,
    ClusterOptions,
    NoProjectOptions,
    PoolOptions,
    StateOptions,
    process_options,
    server_settings,
)


def up(
    *,
    on: Literal["machine", "kubernetes"] = "machine",
    host: str | None = None,
    port: Annotated[int | None, whole_number(0, 65535)] = None,
    policy: Path | None = None,
    state: StateOptions = StateOptions(),
    pool: PoolOptions = PoolOptions(),
    remote: RemoteOptions = RemoteOptions(),
    log_level: Literal["debug", "info", "warning", "error"] = "info",
    log_format: Literal["text", "json"] | None = None,
    cluster: ClusterOptions = ClusterOptions(),
    without: NoProjectOptions = NoProjectOptions(),
    leader_election: Annotated[bool, Parameter(group=CLUSTER)] = True,
) -> int:
    """Serve this machine's GPUs as a pool, until it is interrupted. Running workloads continue without it.

    Its state is in $WEIR_HOME, or ~/.weir. With --on kubernetes it schedules pods with schedulerName weir in
    a cluster, and all its state is in the API server. A history may be in a database.

    Parameters
    ----------
    on
        What to schedule: this machine, or a Kubernetes cluster.
    leader_election
        Elect a leader among several replicas. --no-leader-election schedules at once, without a lease.
    host
        Address to listen on; by default only this machine can connect.
    port
        Port to listen on; 0 for any free port.
    policy
        A policy file, or the name of a preset (balanced, throughput, fair). By default balanced.
    log_level
        Level of the server's log on the error output.
    log_format
        Format of the log: text or json; by default json for a cluster, else text.
    """
    import_log()
    with option_mistakes():
        if on == "kubernetes":
            from weir.kubernetes.process.main import run as run_scheduler

            options = process_options(cluster, without, host, port, elects=leader_election, state=state)
        else:
            from weir.local.server.main import run as run_server

            settings = replace(server_settings(state, pool, host, port), remote=remote_access(remote))
    if on == "kubernetes":
        form, kinds, told = log_format or "json", cluster.workload_kinds, state.notifications
        files = {"policy_file": policy, "kinds_file": kinds, "notifications_file": told}
        return run_scheduler(options, **files, log_level=log_level, log_format=form)
    return run_server(
        replace(settings, policy_file=policy, log_level=log_level, log_format=log_format or "text")
    )


def import_log() -> None:
    """Import structlog without rich, with which it would print tracebacks that Weir doesn't print."""
    modules: dict[str, Any] = sys.modules
    hides = "rich" not in modules
    if hides:
        modules["rich"] = None  # a module that is None can't be imported
    import_module("structlog")
    if hides:
        del modules["rich"]
