"""The history of an installation: a database named by a Secret, or a file on a volume."""

from dataclasses import dataclass

from weir.kubernetes.install.parts import Manifest, secret_volume

SECRET_DIRECTORY = "/etc/weir/history"  # noqa: S105 - a directory
URL_FILE = f"{SECRET_DIRECTORY}/url"
"""File of the database's URL: the key `url` of the Secret. Other keys, such as ca.crt, are beside it."""
VOLUME_DIRECTORY = "/var/lib/weir"
VOLUME_URL = f"sqlite:///{VOLUME_DIRECTORY}/history.db"
GROUP = 65532
"""Group of the image's user, which the volume's files get."""
DEFAULT_KEEP = "366d"


@dataclass(frozen=True, slots=True)
class HistoryStorage:
    """Storage of the history: the name of a Secret, or of a PersistentVolumeClaim; neither by default."""

    secret: str = ""
    claim: str = ""
    keep: str = DEFAULT_KEEP
    fixed_group: bool = True
    """The pod names the group of the volume's files; without, the cluster chooses it, as on OpenShift."""

    def words(self) -> list[str]:
        """Return the options of the process."""
        arguments = ["--database-file", URL_FILE] if self.secret else []
        if self.claim:
            arguments += ["--database", VOLUME_URL]
        return [*arguments, "--keep-history", self.keep] if arguments else []

    def volumes(self) -> list[Manifest]:
        """Return the volumes of the pod."""
        volumes: list[Manifest] = []
        if self.secret:
            volumes.append(secret_volume("history-secret", self.secret))
        if self.claim:
            volumes.append({"name": "history", "persistentVolumeClaim": {"claimName": self.claim}})
        return volumes

    def mounts(self) -> list[Manifest]:
        """Return the mounts of the container."""
        mounts: list[Manifest] = []
        if self.secret:
            mounts.append({"name": "history-secret", "mountPath": SECRET_DIRECTORY, "readOnly": True})
        if self.claim:
            mounts.append({"name": "history", "mountPath": VOLUME_DIRECTORY})
        return mounts

    def security(self) -> Manifest:
        """Return the fields of the pod's security context that a volume needs."""
        return {"fsGroup": GROUP} if self.claim and self.fixed_group else {}

    def strategy(self) -> Manifest:
        """Return the fields of the Deployment that a volume needs: one pod at a time has it."""
        return {"strategy": {"type": "Recreate"}} if self.claim else {}


def checked_storage(storage: HistoryStorage, replicas: int) -> HistoryStorage:
    """Return where the history is kept.

    Raises:
        ValueError: two places are named, or several replicas would share a volume.
    """
    if storage.secret and storage.claim:
        raise ValueError("--history-secret and --history-claim both name a place; write one of them")
    if storage.claim and replicas != 1:
        raise ValueError(f"--history-claim: a volume serves one replica, not {replicas}; add --replicas 1")
    return storage
