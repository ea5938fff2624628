"""Options of `weir up`, and the settings of the two processes made from them."""

import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Repeated, Switch

if TYPE_CHECKING:
    from weir.kubernetes.history.options import HistoryOptions
    from weir.kubernetes.process.process_options import ProcessOptions
    from weir.local.server.settings.server_settings import ServerSettings

_PASSWORD = re.compile(r"[^:/]+://[^/@]*:[^/@]+@")
DATABASE_URL = "WEIR_DATABASE_URL"
CLUSTER = Group("Options with --on kubernetes", sort_key=1)
"""Section of the help: few readers of `weir up --help` schedule a cluster by hand."""


@Parameter(name="*", group=CLUSTER)
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options of the scheduler of a cluster."""

    context: str | None = None
    """Context of the kubeconfig ($KUBECONFIG or ~/.kube/config); the current one by default."""
    namespace: str | None = None
    """Namespace of the lease for leader election; by default the namespace of this process."""
    scheduler: str = "weir"
    """The schedulerName of the pods that this process schedules."""
    managed_namespaces: str | None = None
    """Namespaces in which Weir manages workloads, separated by commas; all by default."""
    devices: str | None = None
    """GPU resources of a cluster, separated by commas. A name may end in *. NAME=1/7 counts each
    device as that part of a GPU in quotas."""
    overcommit_grace: str = "5m"
    """Time before preemptible pods are stopped on a node whose GPUs are overcommitted."""
    shared_nodes: Annotated[int, whole_number(0)] = 0
    """Maximum number of nodes that Weir reserves for GPU fractions while they need them."""
    workload_kinds: Path | None = None
    """File with further workload kinds: objects that create pods."""
    service: str | None = None
    """Service by which the API server reaches this process; it turns on webhooks, health and metrics."""
    client_ca: Path | None = None
    """File of certificate authorities. A webhook's caller needs a certificate that one of them signed."""
    keep_history: str = "366d"
    """Time to keep the history of a cluster, where --database or --database-file names a database for it."""


@Parameter(name="*", group=CLUSTER)
@dataclass(frozen=True, kw_only=True)
class NoProjectOptions:
    """Options for GPU pods in namespaces that no project lists."""

    without_project: str = "ignore"
    """GPU pods in namespaces that no project lists: ignore, refuse, or queue:PROJECT."""
    without_project_in: str | None = None
    """Labels of the namespaces for --without-project, as KEY=VALUE separated by commas; all by default."""
    without_project_exempt: str | None = None
    """Namespaces exempt from --without-project, separated by commas, besides those of the system."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StateOptions:
    """Options of the devices, limits and database of a machine's pool."""

    virtual_gpus: Annotated[int | None, whole_number(0, 1024)] = None
    """Number of virtual GPUs to use instead of real ones, for trying Weir out."""
    sessions_port: Annotated[int | None, whole_number(0, 65535)] = None
    """Port of sessions in a browser, such as Jupyter; by default the one after --port."""
    session_headroom: Annotated[int, whole_number(0, 1024)] = 0
    """Maximum number of GPUs to keep free of work over quota, at the hours at which sessions began in past
    weeks. With 0 nothing is learned."""
    limits: Path | None = None
    """File with limits of the server, such as requests for each person."""
    notifications: Path | None = None
    """File with the mail server, the allowed hosts of webhooks, and limits of notifications."""
    database: str | None = None
    """Database URL: of a machine's pool, instead of the file in the home; of a cluster, for its history.
    $WEIR_DATABASE_URL by default."""
    database_file: Path | None = None
    """File with the database URL, so that other users can't see its password in the process list."""
    begin_again: Switch = False
    """Join a home and a database of different pools into one new pool. Its numbers begin above both."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Options of the output, the records and the pods of a machine's pool."""

    log_max_size: str = "1Gi"
    """Size of a pod's output to keep (its beginning and its end), such as 1Gi; 0 for all of it."""
    keep_logs: str = "30d"
    """Time to keep the output of workloads that are over, such as 30d. Checkpoints stay."""
    keep_checkpoints: str | None = None
    """Time to keep checkpoint directories of workloads that are over, such as 90d; unlimited by default."""
    pids_max: Annotated[int, whole_number(0, 4_194_304)] = 16_384
    """Maximum number of processes and threads of a pod, if the kernel lets Weir limit them; 0 for no
    limit."""
    keep_details: str = "30d"
    """Time to keep commands and environments of workloads that are over, such as 30d."""
    audit_syslog: Switch = False
    """Also send the audit log to syslog, where jobs can't change it."""
    hide_others: Switch = False
    """Hide workload names of other projects in metrics, and usage by person in reports."""
    priority_class: Repeated = ()
    """Name for a priority, such as interactive=90. Repeat it for more names. Every pool has low, normal,
    high and urgent."""
    foreign_processes: Literal["avoid", "ignore"] = "avoid"
    """GPUs in use by processes that Weir didn't start: avoid them, or ignore those processes."""
    shared_account: str | None = None
    """Name of the user that runs the server: accept tokens of other people, and run all their jobs as this
    user. They can do all that it can."""
    price: Repeated = ()
    """Price of an hour of a GPU, such as 2.50, or NVIDIA-H100=2.50 for one model. Repeat it for more
    models."""
    currency: str = "USD"
    """Currency of the prices."""


def process_options(
    cluster: ClusterOptions,
    without: NoProjectOptions,
    host: str | None,
    port: int | None,
    *,
    elects: bool,
    state: StateOptions = StateOptions(),
) -> "ProcessOptions":
    """Return the options of the scheduler of a cluster, without its files.

    Raises:
        ValueError: an option can't be read; the sentence names it.
    """
    from weir.cli.kube import option_checks as check
    from weir.kubernetes.crd.scheduler_settings import SHARED_NODES_MAX, SchedulerSettings, SharedNodeRules
    from weir.kubernetes.process.process_options import ProcessOptions
    from weir.kubernetes.translate.device_list import read_devices
    from weir.kubernetes.translate.device_resources import DeviceResources

    exempt = [name for name in (without.without_project_exempt or "").split(",") if name]
    rule = check.without_project(without.without_project, without.without_project_in, exempt)
    devices = cluster.devices
    namespace = cluster.namespace or ""
    served = None
    if cluster.service is not None:  # the web server is imported on demand
        from weir.kubernetes.process.server.webhook_server import DEFAULT_PORT, ServingOptions

        served_port = DEFAULT_PORT if port is None else port
        served = ServingOptions(cluster.service, namespace, host, served_port, cluster.client_ca)
    return ProcessOptions(
        context=cluster.context,
        namespace=namespace,
        scheduler=cluster.scheduler,
        managed=check.managed_namespaces(
            None if cluster.managed_namespaces is None else cluster.managed_namespaces.split(",")
        ),
        elects=elects,
        settings=SchedulerSettings(
            devices=DeviceResources() if devices is None else check.one("--devices", read_devices, devices),
            overcommit_grace_s=_span_s("--overcommit-grace", cluster.overcommit_grace),
            shared_nodes=SharedNodeRules(max=min(cluster.shared_nodes, SHARED_NODES_MAX)),
            without_project=rule,
        ),
        opening=served,
        history=_history(cluster, state),
    )


def _history(cluster: ClusterOptions, state: StateOptions) -> "HistoryOptions | None":
    """Return the storage of a cluster's history; None: only the last hours, in memory."""
    from weir.kubernetes.history.options import KEEP_S_MIN, HistoryOptions

    keep_s = _span_s("--keep-history", cluster.keep_history)
    if keep_s < KEEP_S_MIN:
        raise ValueError(f"--keep-history: {cluster.keep_history!r} is too short; write 1d or more")
    url = database_url(state.database, state.database_file)
    if url is None:
        return None
    if cluster.service is None:
        raise ValueError("--database: the history of a cluster is served by the port; write --service too")
    if state.database_file is None:
        return HistoryOptions(lambda: url, keep_s)
    return HistoryOptions(partial(_url_in, state.database_file), keep_s)


def _url_in(file: Path) -> str:
    """Return the URL of a file, which may have changed since it was read last."""
    return database_url(None, file) or ""


def server_settings(
    state: StateOptions, pool: PoolOptions, host: str | None, port: int | None
) -> "ServerSettings":
    """Return the settings of a machine's pool, without its policy and its log.

    Raises:
        ValueError: an option can't be read; the sentence names it.
    """
    from weir.client.address import home
    from weir.local.server.home.retention import RetentionSettings
    from weir.local.server.settings.gpu_prices import read_prices
    from weir.local.server.settings.priority_classes import read_classes
    from weir.local.server.settings.server_settings import DEFAULT_HOST, DEFAULT_PORT, ServerSettings

    log_max = _bytes(pool.log_max_size)
    checkpoints = pool.keep_checkpoints
    retention = RetentionSettings(
        _span_s("--keep-logs", pool.keep_logs),
        checkpoints_s=None if checkpoints is None else _span_s("--keep-checkpoints", checkpoints),
        details_s=_span_s("--keep-details", pool.keep_details),
    )
    return ServerSettings(
        home=home(),
        host=DEFAULT_HOST if host is None else host,
        port=DEFAULT_PORT if port is None else port,
        sessions_port=state.sessions_port,
        session_headroom=state.session_headroom,
        virtual_gpus=state.virtual_gpus,
        limits_file=state.limits,
        notifications_file=state.notifications,
        database=database_url(state.database, state.database_file),
        begin_again=state.begin_again,
        log_max=log_max,
        kept=retention,
        pids_max=pool.pids_max,
        audit_to_syslog=pool.audit_syslog,
        hides_others=pool.hide_others,
        priority_classes=read_classes(pool.priority_class),
        ignores_foreign=pool.foreign_processes == "ignore",
        shared_account=pool.shared_account,
        prices=read_prices(pool.price, pool.currency),
    )


def database_url(url: str | None, file: Path | None) -> str | None:
    """Return the database URL from the option, the file or the environment; None if none is named.

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


def _bytes(written: str) -> int:
    from weir.local.supervisor.output import MIN_OUTPUT_BYTES
    from weir.model.resources import MEMORY, amount

    try:
        most = amount(MEMORY, written)
    except ValueError as error:
        raise ValueError(f"--log-max-size: {error}") from None
    if 0 < most < MIN_OUTPUT_BYTES:
        raise ValueError(f"--log-max-size: {written!r} is too little; write 1Mi or more, or 0 for all of it")
    return most


def _span_s(option: str, written: str) -> float:
    from weir.model.resources import seconds

    try:
        kept_s = seconds(written)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if kept_s < 0:
        raise ValueError(f"{option}: {written!r} is negative; write how long, such as 30d")
    return kept_s
