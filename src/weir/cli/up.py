"""`weir up`: the pool on this machine, or the scheduler of a cluster."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

if TYPE_CHECKING:
    from weir.server.door import Opening


def up(
    *,
    on: Literal["machine", "kubernetes"] = "machine",
    context: str | None = None,
    namespace: str | None = None,
    scheduler: str = "weir",
    kinds: Path | None = None,
    service: str | None = None,
    client_authorities: Path | None = None,
    alone: bool = False,
    host: str | None = None,
    port: Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))] = None,
    virtual_gpus: Annotated[int | None, Parameter(validator=Number(gte=0, lte=1024))] = None,
    policy: Path | None = None,
    database: str | None = None,
    log_most: str = "1Gi",
    keep_logs: str = "30d",
    log_level: Literal["debug", "info", "warning", "error"] = "info",
) -> int:
    """Serve this machine's GPUs as a pool, until it is told to stop. What runs goes on without it.

    Its state lives in $WEIR_HOME, or ~/.weir. With --on kubernetes it schedules the pods of a cluster whose
    schedulerName is weir instead, and all its state is in the API server.

    Parameters
    ----------
    on
        What to schedule: this machine, or a Kubernetes cluster.
    context
        The context of the kubeconfig, in $KUBECONFIG or ~/.kube/config; the current one by default.
    namespace
        Where those that stand by for one another keep their lease: where this one runs, by default.
    scheduler
        What pods of a cluster write as schedulerName to be placed by this one.
    kinds
        A file with more entries for the table of kinds that make pods.
    service
        The service by which the API server reaches this one: webhooks, health and metrics are answered then.
    client_authorities
        A file of authorities; who calls a webhook has to show a certificate that one of them signed.
    alone
        There is no other beside it: it schedules at once, without a lease.
    host
        The address to listen on; this machine alone by default.
    port
        The port to listen on; 0 takes any that is free.
    virtual_gpus
        So many GPUs that aren't there, instead of those that are: to try things out.
    policy
        A policy file; the preset fair if none.
    database
        Where state is kept, as a URL, instead of the file in the home.
    log_most
        How much of a pod's output is kept, its beginning and its end, such as 1Gi; 0 for all of it.
    keep_logs
        How long the output of a workload is kept once it is over, such as 30d. What a job saved stays.
    log_level
        What the server says of itself on the error output.
    """
    if on == "kubernetes":
        from weir.server.on_kubernetes import run as run_on_kubernetes

        return run_on_kubernetes(
            context=context,
            namespace=namespace or "",
            scheduler=scheduler,
            opening=_opening(service, namespace, host, port, client_authorities),
            elects=not alone,
            policy_file=policy,
            kinds_file=kinds,
            log_level=log_level,
        )
    from weir.client.address import home
    from weir.server.up import DEFAULT_HOST, DEFAULT_PORT, run

    try:
        most = _bytes(log_most)
        kept_s = _kept(keep_logs)
    except ValueError as error:
        print(f"weir: {error}.", file=sys.stderr)
        return 2
    return run(
        home(),
        host=DEFAULT_HOST if host is None else host,
        port=DEFAULT_PORT if port is None else port,
        virtual_gpus=virtual_gpus,
        policy_file=policy,
        database=database,
        log_most=most,
        output_kept_s=kept_s,
        log_level=log_level,
    )


def _opening(
    service: str | None,
    namespace: str | None,
    host: str | None,
    port: int | None,
    client_authorities: Path | None,
) -> "Opening | None":
    """Where to answer, if at all."""
    if service is None:
        return None
    from weir.server.door import DEFAULT_PORT, Opening

    return Opening(service, namespace or "", host, DEFAULT_PORT if port is None else port, client_authorities)


def _bytes(written: str) -> int:
    from weir.backends.local.output import LEAST
    from weir.model.resources import MEMORY, amount

    try:
        most = amount(MEMORY, written)
    except ValueError as error:
        raise ValueError(f"--log-most: {error}") from None
    if 0 < most < LEAST:
        raise ValueError(f"--log-most: {written!r} is too little; write 1Mi or more, or 0 for all of it")
    return most


def _kept(written: str) -> float:
    from weir.model.resources import seconds

    try:
        kept_s = seconds(written)
    except ValueError as error:
        raise ValueError(f"--keep-logs: {error}") from None
    if kept_s < 0:
        raise ValueError(f"--keep-logs: {written!r} is negative; write how long, such as 30d")
    return kept_s
