"""Options of a scheduler of a cluster."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from weir.engine.overcommit import GRACE_S
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.crd.scheduler_config import SchedulerSettings
from weir.kubernetes.crd.scheduler_settings import SharedNodeRules
from weir.kubernetes.crd.without_project import IGNORE, WithoutProject
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.policy import Policy

if TYPE_CHECKING:  # what isn't used isn't imported
    from weir.kubernetes.history.options import HistoryOptions
    from weir.kubernetes.process.webhook_server import ServingOptions
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
    policy: Policy = field(default_factory=Policy)
    kinds: str | None = None  # an administrator's entries of the table of kinds
    devices: DeviceResources = field(default_factory=DeviceResources)
    opening: "ServingOptions | None" = None  # addresses of webhooks, health and metrics
    overcommit_grace_s: float = GRACE_S  # time before pods of an over-committed node are evicted
    shared_nodes: SharedNodeRules = field(default_factory=SharedNodeRules)  # set aside automatically by Weir
    without_project: WithoutProject = IGNORE
    history: "HistoryOptions | None" = None  # database for the history
    notifications: "NotificationSettings | None" = None  # mail server and allowed webhooks

    @property
    def settings(self) -> SchedulerSettings:
        """Return the settings that apply without a `SchedulerConfig`."""
        return SchedulerSettings(
            self.policy,
            self.kinds,
            self.devices,
            self.overcommit_grace_s,
            self.shared_nodes,
            self.without_project,
        )
