"""The loop of a node's agent: sample the GPUs, ask the kubelet for their pods, report.

A reading that fails costs that report: Weir then shows the use of this node as unknown.
"""

import random
import threading
import time
from pathlib import Path
from typing import Protocol

from structlog import get_logger

from weir.kubernetes.node.gpu_holders import pod_devices
from weir.kubernetes.node.kubelet_metrics import KubeletMetrics, NoKubeletMetrics, Pod, PodLoad
from weir.kubernetes.node.memory_limits import LimitDriver, MemoryLimits
from weir.kubernetes.node.memory_windows import MemoryDriver, MemoryWindows
from weir.kubernetes.node.pod_resources import NoPodResources, given_devices
from weir.kubernetes.node.report_sender import NotDelivered, ReportSender
from weir.kubernetes.node.use_windows import GpuDriver, UseWindows
from weir.kubernetes.usage.node_reports import PodMemory


class NodeDriver(GpuDriver, MemoryDriver, LimitDriver, Protocol):
    """The driver of the node's GPUs."""


SAMPLE_S = 2.0
UNSEEN = "the driver doesn't say which process uses their memory: the agent needs the processes of its node"
_LOG = get_logger(__name__)


class NodeAgent:
    """The agent. `run` it until `end` is set."""

    def __init__(
        self,
        driver: NodeDriver,
        socket: Path,
        sender: ReportSender,
        every_s: float,
        metrics: KubeletMetrics | None = None,
        memory: MemoryWindows | None = None,
        limits: MemoryLimits | None = None,
    ) -> None:
        self._driver = driver
        self._socket = socket
        self._sender = sender
        self._every_s = every_s
        self._metrics = metrics
        self._windows = UseWindows()
        self._memory = memory
        self._limits = limits
        self._unwatched: frozenset[int] = frozenset()
        self._load_trouble = ""
        self._trouble = ""
        self.end = threading.Event()

    def run(self) -> None:
        """Sample and report. Agents that start together don't report together."""
        due_s = time.monotonic() + random.uniform(0.0, self._every_s)  # noqa: S311 - spreads load, hides nothing
        while not self.end.wait(min(SAMPLE_S, self._every_s)):
            self._windows.sample(self._driver)
            if self._memory is not None:
                self._memory.sample(self._driver)
            is_due = time.monotonic() >= due_s
            if self._limits is not None:
                self._limits.apply(is_due=is_due)
            if is_due:
                due_s = time.monotonic() + self._every_s
                self.report()

    def report(self) -> None:
        """Report once; log why that failed, or that it works again."""
        try:
            given = given_devices(self._socket)
            report = self._windows.report(pod_devices(given, self._driver.whole_gpus()), self._loads())
            report.watched, report.memory = self._memory_used()
            report.limited = [] if self._limits is None else self._limits.limited
            trouble = "; ".join(self._sender.send(report))
        except (NoPodResources, NotDelivered) as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            _LOG.warning("not_reported", why=trouble)
        elif self._trouble and not trouble:
            _LOG.info("reported")
        self._trouble = trouble

    def _memory_used(self) -> tuple[list[int], list[PodMemory]]:
        """Return the watched GPUs and the memory of pods on them; log the GPUs that can't be watched."""
        if self._memory is None:
            return [], []
        watched, memory = self._memory.take()
        unwatched = frozenset(gpu.index for gpu in self._driver.whole_gpus()) - frozenset(watched)
        if unwatched != self._unwatched:
            _LOG.warning("memory_not_watched", gpus=sorted(unwatched), why=UNSEEN)
        self._unwatched = unwatched
        return watched, memory

    def _loads(self) -> dict[Pod, PodLoad]:
        """Return the load of each pod; empty while the kubelet doesn't report it."""
        if self._metrics is None:
            return {}
        loads: dict[Pod, PodLoad] = {}
        trouble = ""
        try:
            loads = self._metrics.read()
        except NoKubeletMetrics as error:
            trouble = str(error)
        if trouble and trouble != self._load_trouble:
            _LOG.warning("pods_not_measured", why=trouble)
        self._load_trouble = trouble
        return loads
