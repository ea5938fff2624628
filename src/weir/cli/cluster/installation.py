"""The settings of an installation that the command line shares with the scheduler."""

from dataclasses import dataclass, field

from weir.cli.cluster.refusing import refused
from weir.cli.cluster.things import ConfigMapThing
from weir.kubernetes.api.answers import Refused
from weir.kubernetes.api.connection import Connection
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.own.manifests import INSTALLATION
from weir.kubernetes.reading.device_list import device_names
from weir.kubernetes.reading.requests import Devices

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Installed:
    """The scheduler's name and the resources that are devices."""

    scheduler: str = "weir"
    devices: Devices = field(default_factory=Devices)

    @property
    def gpu_resource(self) -> str:
        """The resource that a Job asks GPUs by: the first that is named in full."""
        names = (each for each in self.devices.resources if not each.endswith("*"))
        return next(names, DEFAULT_GPU_RESOURCE)


async def read_installation(api: Connection, home: str) -> Installed:
    """Return the settings in Weir's namespace; the defaults if the ConfigMap is absent or can't be read.

    Raises:
        Refused: the ConfigMap has a mistake.
    """
    try:
        found = await api.get(path_of("v1", "configmaps", home, INSTALLATION), ConfigMapThing)
    except Refused as error:
        if error.status not in (403, 404):
            raise
        return Installed()
    scheduler, devices = found.data.get("scheduler", "").strip(), found.data.get("devices", "").strip()
    try:
        resources = device_names(devices) if devices else Devices().resources
    except ValueError as error:
        sentence = f"The ConfigMap {INSTALLATION} of {home} has a mistake: devices: {error}."
        raise refused(500, sentence) from None
    return Installed(scheduler or "weir", Devices(resources))
