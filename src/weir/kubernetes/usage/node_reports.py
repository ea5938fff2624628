"""Use of GPUs as the agents of the nodes report it, instead of a Prometheus server.

A report counts for the pods of its own node alone. A node without a fresh report is unknown.
"""

import time
from collections.abc import Callable, Iterable
from typing import Annotated

from msgspec import Meta, Struct

from weir.kubernetes.state.pods.share_memory import NodeMemory
from weir.kubernetes.usage.held_pods import DeviceHolder
from weir.kubernetes.usage.pod_metrics import DeviceMetrics, MetricsReading, PodMetrics

STALE_S = 120.0
"""Age after which a report says nothing more: four usual intervals."""
NODES_MAX = 20_000
BYTES_MAX = 256 << 10
"""Size of a report. A node has at most some hundred pods, each with a few devices."""
MEMORY_MAX = 1024
"""Pods and devices of a report whose memory is known."""
LIMITED_MAX = 1024
"""Pods of a report whose memory the driver limits."""
Uid = Annotated[str, Meta(max_length=64)]
Name = Annotated[str, Meta(max_length=253)]
Amount = Annotated[int, Meta(ge=0, le=1 << 50)]
Rate = Annotated[float, Meta(ge=0, le=1e15)]
Number = Annotated[int, Meta(ge=0, le=4096)]


class PodReport(Struct, rename="camel"):
    """A pod with its devices, and its cores in use and bytes per second where they are known."""

    namespace: Name
    name: Name
    devices: Annotated[list[DeviceMetrics], Meta(max_length=256)] = []
    cores: Rate | None = None
    disk: Rate | None = None
    network: Rate | None = None


class PodMemory(Struct, rename="camel"):
    """Memory that the processes of a pod use of a device, at most since the report before."""

    uid: Uid
    number: Number
    used: Amount


class NodeReport(Struct, rename="camel"):
    """Pods of a node that hold devices, and the memory of pods on the devices that the agent watches.

    `limited`: uids of the pods whose shares the driver limits, as the agent has read back.
    """

    pods: Annotated[list[PodReport], Meta(max_length=1024)] = []
    watched: Annotated[list[Number], Meta(max_length=256)] = []
    memory: Annotated[list[PodMemory], Meta(max_length=MEMORY_MAX)] = []
    limited: Annotated[list[Uid], Meta(max_length=LIMITED_MAX)] = []


class _Received(Struct):
    at_s: float
    pods: dict[tuple[str, str], PodMetrics]
    memory: NodeMemory


class NodeReports:
    """The newest report of each node. The event loop takes them in, the reader's thread reads them."""

    def __init__(
        self, clock: Callable[[], float] = time.time, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._now_s = now_s
        self._newest: dict[str, _Received] = {}
        self._newest_s: float | None = None
        self.first: Callable[[], None] = lambda: None
        """Called with the first report."""

    @property
    def exist(self) -> bool:
        """Return True if any node has ever reported."""
        return self._newest_s is not None

    def take(self, node: str, report: NodeReport) -> None:
        """Process the report of a node."""
        is_first = not self.exist
        if len(self._newest) >= NODES_MAX:
            self._newest = {
                name: received for name, received in self._newest.items() if self._is_fresh(received)
            }
        at_s = self._now_s()
        pods = {(pod.namespace, pod.name): _metrics(pod) for pod in report.pods}
        self._newest[node] = _Received(at_s, pods, _memory(report, at_s))
        self._newest_s = self._clock()
        if is_first:
            self.first()

    def read(self, held: Iterable[DeviceHolder]) -> MetricsReading:
        """Return the measurements of these pods, each from its own node."""
        newest = self._newest
        metrics = {}
        for pod in held:
            received = newest.get(pod.node)
            key = pod.namespace, pod.name
            if received is not None and self._is_fresh(received) and key in received.pods:
                metrics[key] = received.pods[key]
        return MetricsReading(metrics, self._newest_s)

    def memories(self) -> dict[str, NodeMemory]:
        """Return the memory of each node with watched devices or limited pods, and a fresh report."""
        newest = self._newest.copy()
        return {
            node: received.memory
            for node, received in newest.items()
            if (received.memory.watched or received.memory.limited) and self._is_fresh(received)
        }

    def _is_fresh(self, received: _Received) -> bool:
        return self._now_s() - received.at_s < STALE_S


def _metrics(pod: PodReport) -> PodMetrics:
    return PodMetrics(
        tuple(sorted(pod.devices, key=lambda device: device.place)), pod.cores, pod.disk, pod.network
    )


def _memory(report: NodeReport, at_s: float) -> NodeMemory:
    used: dict[tuple[str, int], int] = {}
    for pod_memory in report.memory:
        key = pod_memory.uid, pod_memory.number
        used[key] = max(used.get(key, 0), pod_memory.used)
    return NodeMemory(frozenset(report.watched), used, at_s, frozenset(report.limited))
