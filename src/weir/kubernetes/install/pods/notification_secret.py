"""The settings of notifications of an installation: a Secret with the file and the mail server's password."""

from dataclasses import dataclass

from weir.kubernetes.install.parts import Manifest, secret_volume

DIRECTORY = "/etc/weir/notifications"
SETTINGS_FILE = f"{DIRECTORY}/notifications.yaml"
"""File of the settings: the key `notifications.yaml` of the Secret. Other keys are files beside it."""


@dataclass(frozen=True, slots=True)
class NotificationSecret:
    """Secret with the settings; without a name, Weir sends no messages."""

    name: str = ""

    def words(self) -> list[str]:
        """Return the options of the process."""
        return ["--notifications", SETTINGS_FILE] if self.name else []

    def volumes(self) -> list[Manifest]:
        """Return the volume of the pod."""
        return [secret_volume("notifications", self.name)] if self.name else []

    def mounts(self) -> list[Manifest]:
        """Return the mount of the container."""
        return [{"name": "notifications", "mountPath": DIRECTORY, "readOnly": True}] if self.name else []
