"""This machine as a node: capacity, limits of pods, and the devices that a pod sees."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weir.local import cgroups
from weir.local.cgroups import Limits
from weir.local.machine.cdi import DeviceSpecifications
from weir.local.machine.devices import Device, Nvml, nvml_driver, virtual_gpus
from weir.local.machine.environment import VisibleDevices
from weir.model.nodes import Node
from weir.model.resources import CPU, CPU_SLOTS, MEMORY, PODS
from weir.model.workloads import WHOLE_MILLI, Request

PODS_MAX = 512
CPU_SLOTS_MIN = 16
"""Number of CPU-only pods without --cpu that run at once on a small machine; large ones run two for each
core."""
PIDS_MAX = 16_384
"""Default limit of processes and threads of a pod: far more than training uses, and far below
the limit of a machine."""
VIRTUAL_LABEL = "weir/virtual"


@dataclass(frozen=True, slots=True)
class Machine:
    """Describes this machine to starts: devices, limits and control groups.

    Control groups end a pod that uses more memory than it requested; the processors it requested are its
    share when they are busy. `pids_max`: its processes and threads together, 0 without limit. `umask`: of
    jobs.
    """

    node: Node
    devices: tuple[Device, ...] = ()
    nvml: Nvml | None = None  # None: virtual devices, or no devices
    groups: cgroups.Cgroups = field(default_factory=lambda: cgroups.Cgroups(""))
    umask: int = 0o022
    pids_max: int = PIDS_MAX
    device_specifications: DeviceSpecifications = field(default_factory=DeviceSpecifications)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def virtual(self) -> bool:
        """Return True if the devices are virtual."""
        return self.nvml is None and bool(self.devices)

    def sight(self, request: Request, devices: tuple[int, ...]) -> VisibleDevices:
        """Return the devices that a pod with this request sees, of those that it holds."""
        if not devices:
            return VisibleDevices()
        memory = min(self.devices[index].memory for index in devices)
        return VisibleDevices(
            devices,
            tuple(self.devices[index].name for index in devices),
            request.share_on(memory) if request.gpu_memory else min(request.share_milli, WHOLE_MILLI),
            request.memory_on(memory),
        )

    def limits_of(self, request: Request) -> Limits:
        """Return the limits of a pod with this request."""
        return Limits(
            memory=request.memory,
            cpu_milli=request.cpu_milli or request.assumed_cpu_milli,
            pids=self.pids_max,
        )

    def gpu_memory_limit(self, request: Request, devices: tuple[int, ...]) -> int:
        """Return the bytes of each of its GPUs that a pod may use, for the driver; 0 without a share."""
        sight = self.sight(request, devices)
        return sight.memory if self.nvml is not None and devices and sight.share_milli < WHOLE_MILLI else 0

    def groups_of(self, pod: str, request: Request) -> list[cgroups.Words]:
        """Return the control groups of a pod with this request."""
        return self.groups.of_pod(pod, self.limits_of(request))


def this_machine(
    home: Path,
    *,
    name: str | None = None,
    virtual_devices: int | None = None,
    pids_max: int = PIDS_MAX,
    control_groups: bool = True,
    groups: cgroups.Cgroups | None = None,
    umask: int = 0o022,
) -> Machine:
    """Describe this machine.

    `groups` are the control groups of pods; None searches for them, unless `control_groups` is false.
    `virtual_devices` replace the real devices.
    """
    nvml = nvml_driver() if virtual_devices is None else None
    devices = nvml.devices() if nvml is not None else virtual_gpus(virtual_devices or 0)
    cpu_milli = 1000 * len(os.sched_getaffinity(0))
    capacity = {
        CPU: cpu_milli,
        MEMORY: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        PODS: PODS_MAX,
        CPU_SLOTS: max(CPU_SLOTS_MIN, 2 * cpu_milli // 1000),
    }
    models = {device.model for device in devices}
    node = Node(
        name or socket.gethostname(),
        len(devices),
        min((device.memory for device in devices), default=0),
        capacity,
        models.pop().replace(" ", "-") if len(models) == 1 and nvml is not None else None,
        {VIRTUAL_LABEL: "true"} if virtual_devices else {},
        (),
        nvml.links(devices) if nvml is not None else (),
    )
    if groups is None:
        groups = cgroups.usable_cgroups(_pool_name(home)) if control_groups else cgroups.Cgroups("")
    return Machine(node, devices, nvml if devices else None, groups, umask, pids_max)


def _pool_name(home: Path) -> str:
    """Return the name of this pool's control groups, unique for each state directory."""
    home.mkdir(0o700, parents=True, exist_ok=True)
    stat = home.stat()
    return f"weir-{stat.st_dev:x}-{stat.st_ino:x}"
