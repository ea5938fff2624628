"""The resources that count as devices, as an administrator writes them: names with commas between them.

A name may have a weight: `nvidia.com/mig-1g.10gb=1/7` counts as a seventh of a GPU in quotas.
"""

import re

from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.workloads import WHOLE_MILLI
from weir.scenario_io.scalars import gpu_weight_milli

NAMES_MAX = 16
_RESOURCE = re.compile(
    r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?|[A-Za-z0-9][-\w.]{0,61}\*)",
    re.ASCII,
)


def read_devices(text: str) -> DeviceResources:
    """Return the devices of a list such as `nvidia.com/gpu,nvidia.com/mig-1g.10gb=1/7`.

    Raises:
        ValueError: an entry is no name of a resource, its weight can't be used, or there are too many.
    """
    weights: dict[str, int] = {}
    for part in text.split(","):
        name, has_weight, weight = part.strip().partition("=")
        weights[device_name(name)] = gpu_weight_milli(weight) if has_weight else WHOLE_MILLI
    if len(weights) > NAMES_MAX:
        raise ValueError(f"{len(weights)} resources are named: write at most {NAMES_MAX}")
    return DeviceResources.weighted(weights)


def device_name(name: str) -> str:
    """Return the name of a resource of devices.

    Raises:
        ValueError: the text is no name of a resource.
    """
    if not _RESOURCE.fullmatch(name):
        raise ValueError(
            f"{name[:100]!r} is no resource of a device plugin: write names such as nvidia.com/gpu, "
            "with commas between them"
        )
    return name


def devices_written(devices: DeviceResources) -> str:
    """Return devices as they are written in a list."""
    weights = dict(devices.weights)
    return ",".join(
        f"{name}={weights[name] / WHOLE_MILLI:g}" if name in weights else name for name in devices.resources
    )
