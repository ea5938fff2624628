"""Thread that reads the GPU use, apart from decisions: from Prometheus, or from node reports.

A server that is slow, wrong or away costs its own answers: after a failure nothing is known of any device,
and the next look waits longer. Numbers that don't get newer count as a failure, too.
"""

import threading
import time
from collections.abc import Callable

from structlog import get_logger

from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.usage_settings import UsageSettings
from weir.kubernetes.usage.cluster_use import ClusterUse, UseClassifier
from weir.kubernetes.usage.held_pods import DeviceHolder, held_pods, holding_keys
from weir.kubernetes.usage.node_reports import NodeReports
from weir.kubernetes.usage.pod_metrics import MetricsReading, SeriesSource, read_pods
from weir.kubernetes.usage.series import PrometheusFailed
from weir.model.policy import LifecyclePolicy

AT_A_TIME = 250
"""Pods that are looked up while the state is locked."""
PAUSE_S_MAX = 600.0
"""Longest pause after failures."""
STALE_AFTER_S = 300.0
"""Time without a newer sample after which a server counts as stuck."""
STUCK = "its numbers of GPUs don't get newer"
NO_DEVICES = "it has no metrics of GPUs that a pod holds"
NO_REPORTS = "no node with a pod of Weir has reported for two minutes"
_LOG = get_logger(__name__)
_NOTHING = MetricsReading({}, None)
Taken = Callable[[ClusterUse], None]


class UsageReader:
    """Reads in a thread of its own, by the settings in force. `taken` gets each result, in the thread."""

    def __init__(
        self,
        backend: KubernetesBackend,
        settings: Callable[[], UsageSettings],
        rules: Callable[[], LifecyclePolicy],
        clock: Callable[[], float],
        taken: Taken,
        connect: Callable[[str], SeriesSource] | None = None,
        node_reports: NodeReports | None = None,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._rules = rules
        self._clock = clock
        self._taken = taken
        self._connect = connect
        self._node_reports = node_reports
        self._classifier = UseClassifier()
        self._failures = 0
        self._newest_s: float | None = None
        self._newer_at_s = time.monotonic()
        self._ends = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weir-usage", daemon=True)
        # Reason for missing figures; None: none is missing, or not requested yet
        self.trouble: str | None = None
        self.read_s: float | None = None  # time of the last answer

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wake(self) -> None:
        """Read at once: the settings have changed."""
        self._failures = 0
        self._woken.set()

    def close(self) -> None:
        """Begin no further reading. An open one ends by its own time limits."""
        self._ends.set()
        self._woken.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            self._woken.clear()
            settings = self._settings()
            if self.has_source(settings):
                try:
                    self.look(settings)
                except Exception as error:  # noqa: BLE001 - a look that fails costs that look
                    _LOG.error("usage_look_failed", exc_info=error)
                    self._fail(f"a look failed: {type(error).__name__}")
                self._woken.wait(self.pause_s(settings))
            else:
                self.trouble, self.read_s = None, None
                self._taken(ClusterUse())
                self._woken.wait()

    def has_source(self, settings: UsageSettings) -> bool:
        """Return True if a server is named, or a node has reported."""
        return bool(settings.url) or (self._node_reports is not None and self._node_reports.exist)

    def pause_s(self, settings: UsageSettings) -> float:
        """Return the time until the next look: doubled with each failure in a row."""
        return float(min(max(PAUSE_S_MAX, settings.every_s), settings.every_s * 2 ** min(self._failures, 10)))

    def look(self, settings: UsageSettings) -> None:
        """Check once."""
        held = self._held()
        reading = _NOTHING
        try:
            reading = self._read(settings, held)
        except PrometheusFailed as error:
            self._fail(str(error))
        else:
            self._failures = 0
            self.read_s = self._clock()
            self._set_trouble(self._gap(reading, held) if settings.url else _report_gap(reading, held))
        pods = {} if self.trouble is not None else reading.pods
        use = self._classifier.take(
            held,
            pods,
            self._clock(),
            self._rules(),
            ignores_interaction=settings.ignore_interaction,
        )
        if not self._ends.is_set():
            self._taken(use)

    def _held(self) -> list[DeviceHolder]:
        """Return the pods that hold devices; the state is locked for some of them at a time."""
        keys = self._backend.read(holding_keys)
        held: list[DeviceHolder] = []
        for start in range(0, len(keys), AT_A_TIME):
            part = keys[start : start + AT_A_TIME]
            held += self._backend.read(lambda state, part=part: held_pods(state, part))  # type: ignore[misc]
        return held

    def _connected(self, url: str) -> SeriesSource:
        """Return a connection. Its client is loaded now: most clusters name no server, and it takes long."""
        if self._connect is not None:
            return self._connect(url)
        from weir.kubernetes.usage.prometheus_api import PrometheusApi

        return PrometheusApi(url)

    def _read(self, settings: UsageSettings, held: list[DeviceHolder]) -> MetricsReading:
        if not settings.url and self._node_reports is not None:
            return self._node_reports.read(held)
        api = self._connected(settings.url)
        try:
            source: SeriesSource = api
            return read_pods(source, settings, {(holder.namespace, holder.name) for holder in held})
        finally:
            api.close()

    def _gap(self, reading: MetricsReading, held: list[DeviceHolder]) -> str | None:
        """Return why an answer says nothing of devices; None if it does."""
        now_s = time.monotonic()
        if reading.newest_s is not None and (self._newest_s is None or reading.newest_s > self._newest_s):
            self._newer_at_s = now_s
        self._newest_s = reading.newest_s
        if reading.newest_s is not None and now_s - self._newer_at_s > STALE_AFTER_S:
            return STUCK
        if held and not any(metrics.devices for metrics in reading.pods.values()):
            return NO_DEVICES
        return None

    def _fail(self, why: str) -> None:
        self._failures += 1
        self._set_trouble(why)

    def _set_trouble(self, why: str | None) -> None:
        if why != self.trouble:
            if why is None:
                _LOG.info("usage_read")
            else:
                _LOG.warning("usage_not_read", why=why)
        self.trouble = why


def _report_gap(reading: MetricsReading, held: list[DeviceHolder]) -> str | None:
    """Return why the reports of nodes say nothing of devices; None if they do."""
    return NO_REPORTS if held and not reading.pods else None
