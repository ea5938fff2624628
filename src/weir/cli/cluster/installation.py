"""The settings of an installation that the command line shares with the scheduler."""

from dataclasses import dataclass, field

from weir.cli.cluster.errors import refused
from weir.cli.cluster.objects import ConfigMapView
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.install.installation_name import INSTALLATION
from weir.kubernetes.translate.device_list import read_devices
from weir.kubernetes.translate.device_resources import DeviceResources

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class InstallationView:
    """The scheduler's name and the GPU resources."""

    scheduler: str = "weir"
    devices: DeviceResources = field(default_factory=DeviceResources)

    @property
    def gpu_resource(self) -> str:
        """Return the resource for the GPUs of a Job: the first one with a complete name."""
        names = (name for name in self.devices.resources if not name.endswith("*"))
        return next(names, DEFAULT_GPU_RESOURCE)


async def read_installation(api: ApiClient, home: str) -> InstallationView:
    """Return the settings in Weir's namespace; the defaults if the ConfigMap is absent or can't be read.

    Raises:
        Refused: the ConfigMap has a mistake.
    """
    try:
        settings = await api.get(path_of("v1", "configmaps", home, INSTALLATION), ConfigMapView)
    except ApiRefused as error:
        if error.status not in (403, 404):
            raise
        return InstallationView()
    scheduler, devices = settings.data.get("scheduler", "").strip(), settings.data.get("devices", "").strip()
    try:
        chosen = read_devices(devices) if devices else DeviceResources()
    except ValueError as error:
        sentence = f"The ConfigMap {INSTALLATION} of {home} has a mistake: devices: {error}."
        raise refused(500, sentence) from None
    return InstallationView(scheduler or "weir", chosen)
