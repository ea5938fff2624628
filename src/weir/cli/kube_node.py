"""`weir kube node`: the agent of a cluster's node, which the DaemonSet `weir-node` runs."""

import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

if TYPE_CHECKING:
    from weir.kubernetes.node.gpu_holders import WholeGpu
    from weir.local.devices import DeviceActivity, Nvml

_PORT_MAX = 65_535


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


def node(
    *,
    server: str = "weir-replicas.weir-system.svc",
    port: Annotated[int, Parameter(validator=Number(gte=1, lte=_PORT_MAX))] = 9443,
    server_name: str = "weir.weir-system.svc",
    authority: Path = Path("/etc/weir/authority/ca.crt"),
    token: Path = Path("/var/run/secrets/weir.dev/token"),
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
    interval: Annotated[float, Parameter(validator=Number(gte=1, lte=60))] = 30.0,
) -> int:
    """Report the use of a cluster node's GPUs to Weir. The DaemonSet weir-node runs it.

    It reads NVIDIA's driver and the kubelet's pod-resources socket, and opens no port.

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
    from weir.local.devices import nvml_driver

    nvml = nvml_driver()
    if nvml is None:
        print(
            "weir: NVIDIA's driver can't be used here: run it where the container toolkit gives the driver's "
            "libraries to the container, with NVIDIA_VISIBLE_DEVICES=all and the RuntimeClass of NVIDIA.",
            file=sys.stderr,
        )
        return 1
    sender = ReportSender(server, port, server_name, authority, token)
    agent = NodeAgent(DriverGpus(nvml), pod_resources, sender, interval)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.end.set())
    agent.run()
    return 0
