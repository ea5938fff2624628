"""Use of GPUs in a scheduler process: the reader's results for control, people and reports.

Every replica reads, because every replica answers questions. The leader alone tells control.
"""

import asyncio
from collections.abc import Callable

from weir.control.port import ActivitySampled
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.process.config_watcher import ConfigWatcher
from weir.kubernetes.usage.cluster_use import ClusterUse
from weir.kubernetes.usage.node_reports import NodeReports
from weir.kubernetes.usage.usage_reader import UsageReader
from weir.model.activity import Activity
from weir.model.policy import LifecyclePolicy

TELL_ALL_EVERY = 10
"""Readings after which control gets all states again. In between it gets idle ones and changes."""
_SETTLED = frozenset((Activity.WORKING, Activity.UNKNOWN, None))


class UsageService:
    """The reader of one scheduler process. `use` is the newest result, for any thread."""

    def __init__(
        self,
        backend: KubernetesBackend,
        settings: ConfigWatcher,
        rules: Callable[[], LifecyclePolicy],
        clock: Callable[[], float],
        leads: Callable[[], bool],
    ) -> None:
        self.use = ClusterUse()
        self.published: Callable[[ClusterUse], None] = lambda _: None
        """Called with each result, on the event loop."""
        self.measured: Callable[[ClusterUse], None] = lambda _: None
        """Called with each result, in the thread of the reader."""
        self._backend = backend
        self._settings = settings
        self._leads = leads
        self._loop = asyncio.get_running_loop()
        self._told: dict[str, Activity | None] = {}
        self._readings = 0
        self.node_reports = NodeReports(clock)
        self.reader = UsageReader(
            backend,
            lambda: settings.settings.usage,
            rules,
            clock,
            self._taken,
            node_reports=self.node_reports,
        )
        self.node_reports.first = self.wake

    def start(self) -> None:
        """Begin to read, if a source is named."""
        self.reader.start()

    def wake(self) -> None:
        """Read at once, with changed settings."""
        self.reader.wake()

    def close(self) -> None:
        """Stop reading."""
        self.reader.close()

    def _taken(self, use: ClusterUse) -> None:
        """Publish a result. Called in the thread of the reader."""
        self.use = use
        self.measured(use)
        if self._leads():
            self._backend.tell(self._facts(use))
        else:
            self._told, self._readings = {}, 0
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._publish, use, self.reader.trouble)

    def _facts(self, use: ClusterUse) -> list[ActivitySampled]:
        """Return the states that control doesn't know yet."""
        before = {} if self._readings % TELL_ALL_EVERY == 0 else self._told
        self._readings += 1
        states = {name: measured.activity.state for name, measured in use.workloads.items()}
        facts = [
            ActivitySampled(name, state, use.at_s, use.workloads[name].activity.quiet_s)
            for name, state in states.items()
            if state not in _SETTLED or name not in before or before[name] is not state
        ]
        self._told = states
        return facts

    def _publish(self, use: ClusterUse, trouble: str | None) -> None:
        """Tell people, on the event loop."""
        self._settings.set_usage_trouble(trouble, nodes_report=self.node_reports.exist)
        self.published(use)
