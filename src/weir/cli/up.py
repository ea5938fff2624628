"""`weir up`: the server of a pool on this machine, or the scheduler of a cluster."""

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
    """Serve this machine's GPUs as a pool, until it is interrupted. Running workloads continue without it.

    Its state is in $WEIR_HOME, or ~/.weir. With --on kubernetes it schedules pods with schedulerName weir in
    a cluster, and all its state is in the API server.

    Parameters
    ----------
    on
        What to schedule: this machine, or a Kubernetes cluster.
    context
        Context of the kubeconfig ($KUBECONFIG or ~/.kube/config); the current one by default.
    namespace
        Namespace of the lease for leader election; by default the namespace of this process.
    scheduler
        The schedulerName of the pods that this process schedules.
    devices
        Resources of the cluster that are GPUs, separated by commas. A name may end in *. NAME=1/7 counts each
        device as that part of a GPU in quotas.
    overcommit_grace
        Time before preemptible pods are stopped on a node whose GPUs are overcommitted.
    shared_nodes
        Maximum number of nodes that Weir reserves for GPU fractions while they need them.
    workload_kinds
        File with further workload kinds: objects that create pods.
    service
        Service by which the API server reaches this process; it turns on webhooks, health and metrics.
    client_ca
        File of certificate authorities. A webhook's caller needs a certificate that one of them signed.
    leader_election
        Elect a leader among several replicas. --no-leader-election schedules at once, without a lease.
    without_project
        GPU pods in namespaces that no project lists: ignore, refuse, or queue:PROJECT.
    without_project_in
        Labels of the namespaces for --without-project, as KEY=VALUE separated by commas; all by default.
    without_project_exempt
        Namespaces exempt from --without-project, separated by commas, besides those of the system.
    host
        Address to listen on; by default only this machine can connect.
    port
        Port to listen on; 0 for any free port.
    virtual_gpus
        Number of virtual GPUs to use instead of real ones, for trying Weir out.
    policy
        Policy file; the preset fair by default.
    limits
        File with limits of the server, such as requests for each person.
    database
        Database URL instead of the file in the home; $WEIR_DATABASE_URL by default.
    database_file
        File with the database URL, so that other users can't see its password in the process list.
    begin_again
        Use a home and a database that don't belong together as one pool; new numbers begin above both.
    log_max_size
        Size of a pod's output to keep (its beginning and its end), such as 1Gi; 0 for all of it.
    keep_logs
        Time to keep the output of workloads that are over, such as 30d. Checkpoints stay.
    keep_checkpoints
        Time to keep checkpoint directories of workloads that are over, such as 90d; unlimited by default.
    pids_max
        Maximum number of processes and threads of a pod, if the kernel lets Weir limit them; 0 for no limit.
    keep_details
        Time to keep commands and environments of workloads that are over, such as 30d.
    audit_syslog
        Also send the audit log to syslog, where jobs can't change it.
    hide_others
        Hide workload names of other projects in metrics, and usage by person in reports.
    log_level
        Level of the server's log on the error output.
    log_format
        Format of the log: text or json; by default json for a cluster, else text.
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
    """Return the database URL from the option, the file or the environment.

    Raises:
        ValueError: option and file are both given, or the file can't be used.
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
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise ValueError(f"--database-file: {file} can't be read: {reason}") from None
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
    """Return where to serve webhooks, health and metrics; None if nothing is served."""
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
