"""Settings of `weir up`, in the form in which its command line gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from weir.local.backend import LOG_MAX
from weir.local.machine.machine import PIDS_MAX
from weir.local.server.access.account_mode import ADMIN_GROUP
from weir.local.server.home.retention import RetentionSettings
from weir.local.server.settings.gpu_prices import GpuPrices
from weir.local.server.settings.remote_access import RemoteAccess
from weir.model.workloads import PRIORITY_CLASSES
from weir.notifications.notification_settings import NotificationSettings

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9347


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of a server.

    Attributes:
        home: where its state lives; made if it is missing.
        host: the address to listen on; only one of this machine itself.
        port: 0 takes any that is free.
        sessions_port: port of sessions in a browser; the one after `port` if None.
        session_headroom: most GPUs that are kept free for sessions, as learned; 0: nothing is learned.
        virtual_gpus: number of virtual GPUs to use instead of real ones, for trying Weir out.
        policy_file: a policy, or the name of a preset; `balanced` if None.
        limits_file: limits of the server, such as requests for each person; the defaults if None.
        notifications_file: file with the mail server, allowed webhooks and limits of notifications.
        notifications: the settings of that file; without mail and webhooks by default.
        database: an SQLAlchemy URL in place of the file in the home.
        begin_again: make one pool of a home and a database that don't belong together.
        log_max: bytes of output that are kept of each start of a pod; 0 for all.
        kept: how long output, details and checkpoints are kept once a workload is over.
        pids_max: processes and threads of one pod, with control groups; 0 for no limit.
        audit_to_syslog: send lines of the audit log to syslog as well.
        hides_others: leave names of other projects' work and people out of metrics and usage.
        priority_classes: names that stand for priorities.
        ignores_foreign: start work on GPUs that processes outside the pool use.
        prices: of an hour of a GPU, by model.
        shared_account: the name of the server's own user: people with tokens run their jobs as this user.
        installed: serve everyone on this machine by their Unix account, and run each job as its person.
        socket_path: the socket of an installed pool, for everyone on this machine.
        admin_group: members of this Unix group administer an installed pool.
        remote: the listener for other machines, and the sign-in that guards it.
        log_level: of the server's own log, on standard error.
        log_format: of its lines.
    """

    home: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    sessions_port: int | None = None
    session_headroom: int = 0
    virtual_gpus: int | None = None
    policy_file: Path | None = None
    limits_file: Path | None = None
    notifications_file: Path | None = None
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    database: str | None = None
    begin_again: bool = False
    log_max: int = LOG_MAX
    kept: RetentionSettings = field(default_factory=RetentionSettings)
    pids_max: int = PIDS_MAX
    audit_to_syslog: bool = False
    hides_others: bool = False
    ignores_foreign: bool = False
    priority_classes: Mapping[str, int] = field(default_factory=lambda: dict(PRIORITY_CLASSES))
    prices: GpuPrices = field(default_factory=GpuPrices)
    shared_account: str | None = None
    installed: bool = False
    socket_path: Path = Path("/run/weir/weir.sock")
    admin_group: str = ADMIN_GROUP
    remote: RemoteAccess | None = None
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"
