"""State of a pool's server: the store, the backend and the readers of control. It makes no changes."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock

from weir.control.clock import Clock
from weir.control.journal import WorkloadRecord
from weir.local.backend import LocalBackend
from weir.local.server.access.account_mode import PoolAccounts
from weir.local.server.access.authorization import Action, Person, may, require
from weir.local.server.home.gpu_drain import with_drained
from weir.local.server.home.series_store import SeriesStore
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.state.pool_inventory import pool_inventory
from weir.local.server.state.what_if_runs import WhatIfRuns
from weir.local.server.views.activity import ActivityView
from weir.local.server.views.array_view import ArrayFact
from weir.local.server.views.event_log import EventLog
from weir.local.server.views.event_stream import EventStream
from weir.local.server.views.interactions import Interactions
from weir.local.server.views.metrics import PoolCounters
from weir.local.server.views.pool_view import PoolView
from weir.local.server.views.reported_progress import ReportedProgress
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.workloads import PRIORITY_CLASSES, Workload
from weir.service.control_thread import ControlThread
from weir.service.queue_rows import DeviceUtilization
from weir.state.events import WorkloadChanged
from weir.store.records import HistoryEvent
from weir.store.store import Store
from weir.store.usage.meter import UsageMeter


class PoolState:
    """Everything that the parts of a pool's server share."""

    def __init__(
        self,
        store: Store,
        node: Node,
        policy: Policy,
        stream: EventStream,
        *,
        home: Path,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        self.home = home
        self.closing = False
        self.node = node
        self.policy = policy
        self.stream = stream
        self.clock = clock or Clock()
        self.started_s = self.clock()
        self.reported: dict[str, ReportedProgress] = {}
        self.view = PoolView(self.clock, self.reported)
        self.activity_view = ActivityView(self.view)
        self.event_log = EventLog(self.view)
        self.counters = PoolCounters(self.view)
        self.meter = UsageMeter(self.view.uid_of)
        self._readings: dict[tuple[str, int], DeviceUtilization] = {}
        self._drained_gpus: dict[int, str] = {}
        self._device_use: dict[tuple[str, int], DeviceUtilization] = {}
        self._merging = Lock()  # readings and drains come from different threads
        self.priority_classes: Mapping[str, int] = PRIORITY_CLASSES
        self.ignores_foreign = False  # True: start workloads on GPUs that foreign processes use
        self.foreign_commands: dict[int, str] = {}  # command lines by GPU, for administrators only
        self.disk_trouble: str | None = None
        self.series = SeriesStore(home)
        self.what_if = WhatIfRuns(home)
        self.interactions = Interactions()
        self.backend: LocalBackend
        self.accounts: PoolAccounts
        self.control_thread: ControlThread
        self.certificate_ends_s: Callable[[], float | None] = lambda: None
        self.wake_array: Callable[[int], None] = lambda _: None
        self.user_events: deque[HistoryEvent] = deque()  # events of changes by users
        self.inventory = pool_inventory([node], {}, store.queues())

    def tell(self, fact: ArrayFact) -> None:
        """Pass a fact about a workload to the backend, or one about an array to its indices."""
        name = fact.workload.name if isinstance(fact, WorkloadChanged) else fact.workload
        view = self.view.arrays.named(name)
        if view is None:
            if not isinstance(fact, WorkloadChanged):
                self.backend.tell(fact)
        else:
            view.facts.append(fact)
            self.wake_array(view.record.uid)

    def change(self, record: WorkloadRecord) -> None:
        """Pass on the new specification of a workload or an array: its priority changed."""
        if self.view.arrays.named(record.workload.name) is None:
            self.backend.changed(record, self.clock())
        else:
            self.tell(WorkloadChanged(record.workload, self.clock()))

    def add_event(
        self,
        workload: Workload,
        uid: int,
        kind: str,
        sentence: str,
        person: Person,
        *,
        at_s: float | None = None,
        **numbers: object,
    ) -> None:
        """Queue the event of a user's change for storage. Any thread may call it."""
        self.user_events.append(
            HistoryEvent(
                self.clock() if at_s is None else at_s,
                kind,
                sentence,
                uid=uid,
                workload=workload.name,
                project=workload.project,
                numbers={"user": person.user, **numbers},
            )
        )

    def add_pool_event(
        self, kind: str, sentence: str, *, project: str | None = None, **numbers: object
    ) -> None:
        """Queue an event without a workload, which control stores. Any thread may call it."""
        event = HistoryEvent(self.clock(), kind, sentence, project=project, numbers=numbers)
        self.user_events.append(event)
        self.control_thread.wake()

    @property
    def device_use(self) -> dict[tuple[str, int], DeviceUtilization]:
        """Return the latest readings of devices, and which are drained; each change makes a new map."""
        return self._device_use

    @device_use.setter
    def device_use(self, readings: dict[tuple[str, int], DeviceUtilization]) -> None:
        with self._merging:
            self._readings = readings
            self._merge()

    @property
    def drained_gpus(self) -> dict[int, str]:
        """Return the state of each drained GPU in words."""
        return self._drained_gpus

    @drained_gpus.setter
    def drained_gpus(self, sentences: dict[int, str]) -> None:
        with self._merging:
            self._drained_gpus = sentences
            self._merge()

    def _merge(self) -> None:
        """Build the map of readings and drains; the caller holds the lock."""
        self._device_use = with_drained(self._readings, self.node.name, self._drained_gpus)

    def created_at(self, projects: Iterable[str]) -> dict[str, float]:
        """Return when each of these projects was created; missing projects are left out."""
        queues = self.inventory.queues_by_name
        return {name: queues[name].created_s for name in projects if name in queues}

    def may_see(self, person: Person, project: str, submitted_s: float) -> bool:
        """Return True if a person may see all of a workload.

        Workloads of a former project of the same name aren't this project's.
        """
        made_s = self.created_at((project,)).get(project, 0.0)
        return may(person, Action.ADMINISTER) or (may(person, Action.VIEW, project) and submitted_s >= made_s)

    def require_visible(
        self,
        person: Person,
        project: str,
        submitted_s: float,
        action: Action = Action.VIEW,
        owner: str | None = None,
    ) -> None:
        """Refuse a person who may not see a workload, or who lacks the right to a part of it.

        Raises:
            RequestRefused: the person lacks the right.
        """
        require(person, action, project, owner=owner)
        if not self.may_see(person, project, submitted_s):
            raise RequestRefused(403, f"It belongs to a former project {project}: ask an administrator.")

    def record(self, events: Iterable[HistoryEvent]) -> None:
        """Write down the acts of people, then these events. On the control thread."""
        these = [*(self.user_events.popleft() for _ in range(len(self.user_events))), *events]
        if these:
            self.store.events.record(these)
