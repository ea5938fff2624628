"""The loop of a node's agent: sample the GPUs, ask the kubelet for their pods, report.

A reading that fails costs that report: Weir then shows the use of this node as unknown.
"""

import random
import threading
import time
from pathlib import Path

from structlog import get_logger

from weir.kubernetes.node.gpu_holders import pod_devices
from weir.kubernetes.node.kubelet_metrics import KubeletMetrics, NoKubeletMetrics, Pod, PodLoad
from weir.kubernetes.node.pod_resources import NoPodResources, given_devices
from weir.kubernetes.node.report_sender import NotDelivered, ReportSender
from weir.kubernetes.node.use_windows import GpuDriver, UseWindows

SAMPLE_S = 2.0
_LOG = get_logger(__name__)


class NodeAgent:
    """The agent. `run` it until `end` is set."""

    def __init__(
        self,
        driver: GpuDriver,
        socket: Path,
        sender: ReportSender,
        every_s: float,
        metrics: KubeletMetrics | None = None,
    ) -> None:
        self._driver = driver
        self._socket = socket
        self._sender = sender
        self._every_s = every_s
        self._metrics = metrics
        self._windows = UseWindows()
        self._load_trouble = ""
        self._trouble = ""
        self.end = threading.Event()

    def run(self) -> None:
        """Sample and report. Agents that start together don't report together."""
        due_s = time.monotonic() + random.uniform(0.0, self._every_s)  # noqa: S311 - spreads load, hides nothing
        while not self.end.wait(min(SAMPLE_S, self._every_s)):
            self._windows.sample(self._driver)
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + self._every_s
                self.report()

    def report(self) -> None:
        """Report once; say in the log why that failed, or that it works again."""
        try:
            given = given_devices(self._socket)
            report = self._windows.report(pod_devices(given, self._driver.whole_gpus()), self._loads())
            trouble = "; ".join(self._sender.send(report))
        except (NoPodResources, NotDelivered) as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            _LOG.warning("not_reported", why=trouble)
        elif self._trouble and not trouble:
            _LOG.info("reported")
        self._trouble = trouble

    def _loads(self) -> dict[Pod, PodLoad]:
        """Return the load of each pod; nothing while the kubelet doesn't tell it."""
        if self._metrics is None:
            return {}
        found: dict[Pod, PodLoad] = {}
        trouble = ""
        try:
            found = self._metrics.read()
        except NoKubeletMetrics as error:
            trouble = str(error)
        if trouble and trouble != self._load_trouble:
            _LOG.warning("pods_not_measured", why=trouble)
        self._load_trouble = trouble
        return found
