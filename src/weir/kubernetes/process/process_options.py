"""Options of a scheduler of a cluster."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.crd.scheduler_settings import SchedulerSettings

if TYPE_CHECKING:  # what isn't used isn't imported
    from weir.kubernetes.history.options import HistoryOptions
    from weir.kubernetes.process.server.webhook_server import ServingOptions
    from weir.notifications.notification_settings import NotificationSettings


@dataclass(slots=True)
class ProcessOptions:
    """Options of a scheduler."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""  # namespace of the lease; empty: that of this pod
    scheduler: str = "weir"  # value of `schedulerName` in Weir's pods
    managed: ManagedNamespaces = ALL  # namespaces in which Weir writes objects
    elects: bool = True
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)  # without a `SchedulerConfig`
    opening: "ServingOptions | None" = None  # addresses of webhooks, health and metrics
    history: "HistoryOptions | None" = None  # database for the history
    notifications: "NotificationSettings | None" = None  # mail server and allowed webhooks
