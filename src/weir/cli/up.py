"""`weir up`: the pool on this machine, or the scheduler of a cluster."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

if TYPE_CHECKING:
    from weir.kubernetes.process.webhook_server import ServingOptions

_PASSWORD = re.compile(r"[^:/]+://[^/@]*:[^/@]+@")
DATABASE_URL = "WEIR_DATABASE_URL"


def up(
    *,
    on: Literal["machine", "kubernetes"] = "machine",
    context: str | None = None,
    namespace: str | None = None,
    scheduler: str = "weir",
    devices: str | None = None,
    overcommit_grace: str = "5m",
    shared_nodes: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    workload_kinds: Path | None = None,
    service: str | None = None,
    client_ca: Path | None = None,
    without_project: str = "ignore",
    without_project_in: str | None = None,
    without_project_exempt: str | None = None,
    leader_election: bool = True,
    host: str | None = None,
    port: Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))] = None,
    virtual_gpus: Annotated[int | None, Parameter(validator=Number(gte=0, lte=1024))] = None,
    policy: Path | None = None,
    limits: Path | None = None,
    database: str | None = None,
    database_file: Path | None = None,
    begin_again: Annotated[bool, Parameter(negative=())] = False,
    log_max_size: str = "1Gi",
    keep_logs: str = "30d",
    keep_checkpoints: str | None = None,
    pids_max: Annotated[int, Parameter(validator=Number(gte=0, lte=4_194_304))] = 16_384,
    keep_details: str = "30d",
    audit_syslog: Annotated[bool, Parameter(negative=())] = False,
    hide_others: Annotated[bool, Parameter(negative=())] = False,
    log_level: Literal["debug", "info", "warning", "error"] = "info",
    log_format: Literal["text", "json"] | None = None,
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
    devices
        The resources of a cluster that are devices, separated by commas; a name may end in *, and have
        the part of a GPU behind it that each counts as in quotas, as in =1/7.
    overcommit_grace
        How long more GPUs of a node may be in use than it has, before preemptible pods on it are stopped.
    shared_nodes
        Nodes of a cluster that Weir may set aside for shares of GPUs by itself, as long as shares need them.
    workload_kinds
        A file with more entries for the table of kinds that make pods.
    service
        The service by which the API server reaches this one: webhooks, health and metrics are answered then.
    client_ca
        A file of authorities; who calls a webhook has to show a certificate that one of them signed.
    leader_election
        Elect a leader among several instances. --no-leader-election schedules at once, without a lease.
    without_project
        GPU pods in namespaces that no project of the cluster lists: ignore, refuse, or queue:PROJECT.
    without_project_in
        Labels of the namespaces this holds in, as KEY=VALUE separated by commas; all by default.
    without_project_exempt
        Namespaces it doesn't hold in, separated by commas, beside those of the system.
    host
        The address to listen on; this machine alone by default.
    port
        The port to listen on; 0 takes any that is free.
    virtual_gpus
        So many GPUs that aren't there, instead of those that are: to try things out.
    policy
        A policy file; the preset fair if none.
    limits
        A file with limits of the server, such as requests for each person; the defaults if none.
    database
        Where state is kept, as a URL, instead of the file in the home; $WEIR_DATABASE_URL if left out.
    database_file
        A file with that URL, so that a password in it isn't among the processes' arguments.
    begin_again
        Make one pool of a home and a database that don't belong together; numbers begin above what is there.
    log_max_size
        How much of a pod's output is kept, its beginning and its end, such as 1Gi; 0 for all of it.
    keep_logs
        How long the output of a workload is kept once it is over, such as 30d. What a job saved stays.
    keep_checkpoints
        How long a checkpoint directory is kept once its workload is over, such as 90d; for ever if none.
    pids_max
        Processes and threads one pod may have, where the kernel lets Weir limit them; 0 for no limit.
    keep_details
        How long the command and environment of a workload are kept once it is over, such as 30d.
    audit_syslog
        Send lines of the audit log to syslog as well, out of the reach of jobs.
    hide_others
        Leave names of other projects' workloads out of the metrics, and use by person out of reports.
    log_level
        What the server says of itself on the error output.
    log_format
        Lines of text or of JSON; JSON by default in front of a cluster, else text.
    """
    if on == "kubernetes":
        from weir.cli import kube_options as check
        from weir.kubernetes.process.main import run as run_on_kubernetes
        from weir.kubernetes.translate.device_list import read_devices

        try:
            names = [each for each in (without_project_exempt or "").split(",") if each]
            rule = check.without_project(without_project, without_project_in, names)
            named = None if devices is None else read_devices(devices)
        except check.WrongOption as error:
            print(f"weir: {error}.", file=sys.stderr)
            return 2
        except ValueError as error:
            print(f"weir: --devices: {error}.", file=sys.stderr)
            return 2
        try:
            overcommit_grace_s = _kept("--overcommit-grace", overcommit_grace)
        except ValueError as error:
            print(f"weir: {error}.", file=sys.stderr)
            return 2
        return run_on_kubernetes(
            context=context,
            namespace=namespace or "",
            scheduler=scheduler,
            devices=named,
            overcommit_grace_s=overcommit_grace_s,
            shared_nodes=shared_nodes,
            opening=_opening(service, namespace, host, port, client_ca),
            elects=leader_election,
            policy_file=policy,
            kinds_file=workload_kinds,
            without_project=rule,
            log_level=log_level,
            log_format=log_format or "json",
        )
    from weir.client.address import home
    from weir.local.server.main import run
    from weir.local.server.retention import RetentionSettings
    from weir.local.server.settings import DEFAULT_HOST, DEFAULT_PORT, ServerSettings

    try:
        most = _bytes(log_max_size)
        kept_s = _kept("--keep-logs", keep_logs)
        saved_s = None if keep_checkpoints is None else _kept("--keep-checkpoints", keep_checkpoints)
        details_s = _kept("--keep-details", keep_details)
        url = database_url(database, database_file)
    except ValueError as error:
        print(f"weir: {error}.", file=sys.stderr)
        return 2
    settings = ServerSettings(
        home=home(),
        host=DEFAULT_HOST if host is None else host,
        port=DEFAULT_PORT if port is None else port,
        virtual_gpus=virtual_gpus,
        policy_file=policy,
        limits_file=limits,
        database=url,
        begin_again=begin_again,
        log_most=most,
        kept=RetentionSettings(kept_s, details_s, saved_s),
        pids_most=pids_max,
        audit_to_syslog=audit_syslog,
        hides_others=hide_others,
        log_level=log_level,
        log_format=log_format or "text",
    )
    return run(settings)


def database_url(url: str | None, file: Path | None) -> str | None:
    """Return the database's address: as an option says it, or a file, or the environment.

    Raises:
        ValueError: two of them are given, or the file can't be used.
    """
    if url is not None and file is not None:
        raise ValueError("--database and --database-file both name the database; write one of them")
    if url is not None and _PASSWORD.match(url):
        warning = "the password in --database can be read in the list of processes; use --database-file"
        print(f"weir: {warning}.", file=sys.stderr)
    if file is None:
        return url or os.environ.get(DATABASE_URL) or None
    try:
        written = file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise ValueError(f"--database-file: {file} can't be read: {said}") from None
    if not written or len(written.split()) != 1:
        raise ValueError(f"--database-file: {file} doesn't hold one address; write the URL on one line")
    return written


def _opening(
    service: str | None,
    namespace: str | None,
    host: str | None,
    port: int | None,
    client_ca: Path | None,
) -> "ServingOptions | None":
    """Where to answer, if at all."""
    if service is None:
        return None
    from weir.kubernetes.process.webhook_server import DEFAULT_PORT, ServingOptions

    return ServingOptions(service, namespace or "", host, DEFAULT_PORT if port is None else port, client_ca)


def _bytes(written: str) -> int:
    from weir.local.output import MIN_OUTPUT_BYTES
    from weir.model.resources import MEMORY, amount

    try:
        most = amount(MEMORY, written)
    except ValueError as error:
        raise ValueError(f"--log-max-size: {error}") from None
    if 0 < most < MIN_OUTPUT_BYTES:
        raise ValueError(f"--log-max-size: {written!r} is too little; write 1Mi or more, or 0 for all of it")
    return most


def _kept(option: str, written: str) -> float:
    from weir.model.resources import seconds

    try:
        kept_s = seconds(written)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if kept_s < 0:
        raise ValueError(f"{option}: {written!r} is negative; write how long, such as 30d")
    return kept_s
