"""`weir kube node`: the agent of a cluster's node, which the DaemonSet `weir-node` runs."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.cli.options.mistakes import CommandError
from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Switch

if TYPE_CHECKING:
    from weir.kubernetes.node.gpu_holders import WholeGpu
    from weir.kubernetes.node.kubelet_metrics import KubeletMetrics
    from weir.kubernetes.node.memory_limits import MemoryLimits
    from weir.kubernetes.node.memory_windows import GpuMemory, MemoryWindows
    from weir.kubernetes.node.report_sender import ReportSender
    from weir.local.machine.devices import DeviceActivity, Nvml

_PORT = whole_number(1, 65_535)


class DriverGpus:
    """The whole GPUs of NVIDIA's driver. Slices of MIG are left out: their use can't be measured."""

    def __init__(self, nvml: "Nvml") -> None:
        from weir.kubernetes.node.gpu_holders import WholeGpu

        self._nvml = nvml
        self._gpus = {
            device.index: WholeGpu(device.uuid, device.handle, nvml.minor(device.index))
            for device in nvml.devices()
            if device.parent is None
        }

    def whole_gpus(self) -> "Sequence[WholeGpu]":
        """Return the GPUs that aren't divided."""
        return list(self._gpus.values())

    def activities(self) -> "Iterator[tuple[str, DeviceActivity]]":
        """Yield the activity of each of them."""
        for activity in self._nvml.doing():
            if activity.index in self._gpus:
                yield self._gpus[activity.index].uuid, activity

    def memories(self) -> "Iterator[GpuMemory]":
        """Yield the memory of each of them, by process."""
        from weir.kubernetes.node.memory_windows import GpuMemory

        for index, gpu in self._gpus.items():
            used = self._nvml.memory_used(index)
            yield GpuMemory(gpu.index, used, self._nvml.process_memory(index))

    def limit_memory(self, gpu: int, group: str, memory: int) -> str:
        """Limit a control group's memory of a GPU in bytes; return the error, "" on success."""
        from weir.local.node.gpu_memory import NotLimited, driver_library, limit_memory

        device = self._gpus.get(gpu)
        try:
            limit_memory(driver_library(), group, [device.uuid] if device is not None else [], memory)
        except NotLimited as why:
            return f"GPU {gpu}: {why}"
        return ""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class KubeletOptions:
    """The kubelet's metrics of pods, which the idle rules need."""

    kubelet: str = ""
    """Address of the kubelet, which knows the processor time and traffic of pods; not read without it."""
    kubelet_port: Annotated[int, _PORT] = 10250
    """Port of the kubelet."""
    kubelet_authority: Path = Path("/var/run/secrets/weir.dev/kubelet-ca.crt")
    """File with the authority of the kubelet's certificate."""
    kubelet_token: Path = Path("/var/run/secrets/weir.dev/kubelet-token")
    """File with the token of this pod for the kubelet."""
    kubelet_insecure_tls: Switch = False
    """Accept any certificate of the kubelet, if the cluster's authority didn't sign it."""

    @property
    def source(self) -> "KubeletMetrics | None":
        """Return the source of the metrics; None without a kubelet."""
        from weir.kubernetes.node.kubelet_metrics import KubeletMetrics

        if not self.kubelet:
            return None
        return KubeletMetrics(
            self.kubelet,
            self.kubelet_port,
            self.kubelet_authority,
            self.kubelet_token,
            verify=not self.kubelet_insecure_tls,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """The memory of GPUs that pods share."""

    watch_memory: Switch = False
    """Report the memory of GPUs by pod, too. That takes the process namespace of the node."""
    limit_memory: Switch = False
    """Limit the memory of GPU shares by the driver. It takes the node's control groups and CAP_SYS_ADMIN."""
    control_groups: Path = Path("/sys/fs/cgroup")
    """Root of the node's control groups (cgroup v2)."""

    @property
    def windows(self) -> "MemoryWindows | None":
        """Return the watch; None without one."""
        from weir.kubernetes.node.memory_windows import MemoryWindows
        from weir.kubernetes.node.pod_processes import pod_of_process

        return MemoryWindows(pod_of_process) if self.watch_memory else None

    def limits(self, gpus: DriverGpus, sender: "ReportSender") -> "MemoryLimits | None":
        """Return the limits; None without any."""
        from weir.kubernetes.node.memory_limits import MemoryLimits
        from weir.kubernetes.node.pod_groups import PodGroups

        groups = PodGroups(self.control_groups)
        return MemoryLimits(gpus, groups, lambda: sender.shares().shares) if self.limit_memory else None


def node(
    *,
    server: str = "weir-replicas.weir-system.svc",
    port: Annotated[int, _PORT] = 9443,
    server_name: str = "weir.weir-system.svc",
    authority: Path = Path("/etc/weir/authority/ca.crt"),
    token: Path = Path("/var/run/secrets/weir.dev/token"),
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
    metrics: KubeletOptions = KubeletOptions(),
    interval: Annotated[int, whole_number(1, 60)] = 30,
    memory: MemoryOptions = MemoryOptions(),
) -> int:
    """Report the use of a cluster node's GPUs to Weir.

    Parameters
    ----------
    server
        Host name of all replicas of Weir.
    port
        Their port.
    server_name
        Host name in their certificate.
    authority
        File with the authority of the certificate.
    token
        File with the token of this pod, for the audience node.weir.dev.
    pod_resources
        Socket of the kubelet.
    interval
        Seconds between two reports.
    """
    from weir.kubernetes.node.agent import NodeAgent
    from weir.kubernetes.node.report_sender import ReportSender
    from weir.local.machine.devices import nvml_driver

    nvml = nvml_driver()
    if nvml is None:
        raise CommandError(
            "NVIDIA's driver can't be used here: run it where the container toolkit gives the driver's "
            "libraries to the container, with NVIDIA_VISIBLE_DEVICES=all and the RuntimeClass of NVIDIA"
        )
    sender = ReportSender(server, port, server_name, authority, token)
    gpus = DriverGpus(nvml)
    windows, limits = memory.windows, memory.limits(gpus, sender)
    agent = NodeAgent(gpus, pod_resources, sender, interval, metrics.source, windows, limits)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.end.set())
    agent.run()
    return 0
