"""Composition root: the store, the backend and control, and the changes that people make.

A change is checked completely, then committed, then passed to the backend; after a crash in between,
recovery finds it. Reads use immutable rows, or query the control thread.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from structlog import get_logger

from weir.api.answers import Answer, QueueRow, WorkloadRow
from weir.api.submissions import Submission
from weir.control.clock import Clock
from weir.control.journal import WorkloadRecord
from weir.control.port import CancelRequested
from weir.local.backend import LocalBackend
from weir.local.pods.gpu_memory_limits import GpuMemoryLimits
from weir.local.records import persistent_clock
from weir.local.server.access.account_mode import AccountMode, PoolAccounts
from weir.local.server.access.authorization import Action, Person, require
from weir.local.server.access.request_limiter import SuggestionQueue
from weir.local.server.changes.cancellations import Cancellations
from weir.local.server.changes.memberships import Memberships
from weir.local.server.changes.node_changes import NodeChanges
from weir.local.server.changes.queue_changes import QueueChanges
from weir.local.server.control.array_feed import ArrayFeed
from weir.local.server.control.control_hooks import PoolControlHooks
from weir.local.server.control.health import Health, Probe, Trouble
from weir.local.server.control.job_reports import JobReports
from weir.local.server.control.session_headroom import SessionHeadroom
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.server_limits import ServerLimits
from weir.local.server.http.worker_threads import Workers
from weir.local.server.notifications.notification_service import Notifications
from weir.local.server.settings.gpu_prices import GpuPrices
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.workload_lookup import unknown_workload, workload_to_change
from weir.local.server.submissions.admission import check_new_priority
from weir.local.server.submissions.container_checks import ContainerChecks
from weir.local.server.submissions.pending_limits import PendingLimits
from weir.local.server.submissions.project_secrets import ProjectSecrets
from weir.local.server.submissions.reruns import Reruns, stop_index
from weir.local.server.submissions.schedule_service import Schedules
from weir.local.server.submissions.start_conditions import StartGates
from weir.local.server.submissions.submitter import ReadSubmission, SubmissionServices, Submitter
from weir.local.server.submissions.template_service import Templates
from weir.local.server.sweeps.controller import SweepController
from weir.local.server.trials.rung_recorder import RungRecorder
from weir.local.server.views.array_view import ArrayFact
from weir.local.server.views.event_log import event_row
from weir.local.server.views.event_stream import EventStream
from weir.local.server.views.wall_clock import on_wall_clock
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI, Workload
from weir.service.control_thread import ControlThread, ControlUnavailable
from weir.service.decision_state import StateReader, reader_of
from weir.service.kept_suggestions import KeptSuggestions
from weir.service.queue_rows import bare_queue_row, queue_rows
from weir.service.shutdown_deadline import ShutdownDeadline
from weir.state.cluster import Cluster
from weir.state.events import WorkloadSuspended
from weir.store.errors import NotSuspended
from weir.store.records import HistoryEvent, MembershipRecord
from weir.store.store import Store

Found = TypeVar("Found")
Given = ParamSpec("Given")
Shown = TypeVar("Shown", bound=Answer)
_LOG = get_logger(__name__)
ASK_S_MAX = 10.0
BEGIN_MAX_S = 5.0
"""Time that a start waits for control at most; control that fails is tried again meanwhile."""

DEFAULT_PROJECT = "default"
STANDS_STILL = "Meanwhile nothing starts or changes, and running work goes on."


@contextmanager
def _unavailable_refused() -> Iterator[None]:
    """Refuse a request that the control loop can't answer now."""
    try:
        yield
    except ControlUnavailable as error:
        raise RequestRefused(503, f"The pool makes no decisions now: {error}") from None
    except TimeoutError:
        raise RequestRefused(503, "The pool is too busy to answer now: try again in a moment.") from None


class PoolService(PoolState):
    """Service of one pool: its state, its control, and the changes that people make."""

    def __init__(
        self,
        store: Store,
        node: Node,
        policy: Policy,
        stream: EventStream,
        *,
        home: Path,
        clock: Clock | None = None,
        limits: ServerLimits | None = None,
        accounts: PoolAccounts | None = None,
    ) -> None:
        accounts = PoolAccounts() if accounts is None else accounts
        _create_default_project(store, node, clock or Clock(), accounts)
        super().__init__(store, node, policy, stream, home=home, clock=clock)
        self.limits = ServerLimits() if limits is None else limits
        self.accounts = accounts
        self.workers = Workers()
        self.containers = ContainerChecks()
        self.prices = GpuPrices()
        self.gpu_memory: GpuMemoryLimits | None = None  # None: limits of the driver aren't used
        self.device_rules = ""  # means by which the kernel isolates GPUs; empty: none
        self.hides_others = False  # True: members don't see names of others' workloads, nor usage by person
        stream.on_wall_clock = self.on_wall_clock
        self.secrets = ProjectSecrets(self)
        self.cancellations = Cancellations(self)
        self.gates = StartGates(self)
        self.memberships = Memberships(self)
        self.trials = RungRecorder(self)
        self.sweeps = SweepController(self, self, self.trials, self.memberships.roles_of)
        self.array_feed = ArrayFeed(self, self._array_ended)
        self.wake_array = self.array_feed.wake
        hooks = PoolControlHooks(
            self, self.secrets, self.cancellations, self.gates, self.array_feed, self.sweeps
        )
        self.control_thread = ControlThread(hooks, self.clock)
        self.session_headroom = SessionHeadroom(self, self.control_thread.wake)
        self.job_reports = JobReports(self, self.trials, self.control_thread.wake)
        self.checks: dict[str, Callable[[], Trouble]] = {"control": lambda: self.control_thread.trouble}
        self.health = Health(self.checks, Probe(home, store.probe))
        self.deadline = ShutdownDeadline()
        self.suggesting = SuggestionQueue()
        self.suggestions = KeptSuggestions()
        self.pending_limits = PendingLimits(self.limits, self.view.listed)
        services = SubmissionServices(
            self.accounts, self.secrets, self.pending_limits, self.containers, self.workers
        )
        self.submitter = Submitter(self, services, self.gates, self.trials, self.control_thread.wake)
        self.reruns = Reruns(self, self.submitter, self.workers)
        roles = self.memberships.roles_of
        self.templates = Templates(self, self.submitter, self.limits.workload_bytes_max)
        self.schedules = Schedules(self, self.submitter, self.accounts, roles, self.stop)
        self.queue_changes = QueueChanges(self, self.secrets, self.queue_rows)
        self.node_changes = NodeChanges(self, self.control_thread, self.cancellations)
        self.notifications = Notifications(self)
        self._stop_listening = store.events.listen(self._on_stored_events)

    def start(self, backend: LocalBackend) -> None:
        """Begin to decide."""
        self.backend = backend
        self.node_changes.begin()
        self.cancellations.reserve.restore()
        self.checks["maintenance"] = lambda: self.node_changes.maintenance.trouble
        self.checks["notifications"] = lambda: self.notifications.trouble
        self.checks["watch"] = lambda: backend.trouble
        self.notifications.start()
        self.checks["arrays"] = lambda: self.array_feed.trouble
        self.checks["sweeps"] = lambda: self.sweeps.trouble
        self.array_feed.start()
        self.control_thread.start()
        self.control_thread.wait_begun(BEGIN_MAX_S)  # lists are complete from then on

    def close(self) -> None:
        """Stop deciding; jobs run on."""
        self.closing = True
        self.health.close()
        self.deadline.waits_for = "weir-notify"
        self.notifications.close()
        self.deadline.waits_for = "weir-arrays"
        self.array_feed.close()
        self.deadline.waits_for = "weir-control"
        self.control_thread.close()
        self.deadline.waits_for = "weir-store"
        self._stop_listening()
        now_s = self.clock()
        try:
            self.store.samples.add(self.meter.take(now_s))
            self.store.tokens.write_uses()
        except (OSError, RuntimeError):
            _LOG.warning("last_sample_lost")
        self.series.flush((), now=True)
        self.workers.close()
        persistent_clock.keep(self.home, self.clock)
        self.cancellations.close()
        self.deadline.waits_for = "weir-watch"
        self.backend.close()
        self.deadline.waits_for = "weir-store"
        self.store.close()
        self.deadline.waits_for = "threads that answer requests"

    @property
    def trouble(self) -> str | None:
        """Return the sentence shown beside every list while the pool is impaired; None if all is well."""
        stored = self.store.trouble
        return (
            self.cancellations.trouble
            or (stored and f"{stored} {STANDS_STILL}")
            or self.control_thread.trouble
            or self.disk_trouble
        )

    async def probed_trouble(self) -> str | None:
        """Return the trouble of the pool after a write to the disk and the database; None without trouble."""
        unwritten = await self.health.unwritten()
        return self.trouble or (unwritten and f"{unwritten} {STANDS_STILL}")

    def on_wall_clock(self, answer: Shown) -> Shown:
        """Return an answer with its times as the wall clock reads them now."""
        return on_wall_clock(answer, self.clock.ahead_s)

    async def query(self, fn: Callable[[Cluster], Found]) -> Found:
        """Run a query on the cluster between steps of control.

        Raises:
            RequestRefused: the control loop can't answer now.
        """
        with _unavailable_refused():
            return await asyncio.wait_for(asyncio.wrap_future(self.control_thread.query(fn)), ASK_S_MAX)

    async def read_state(
        self,
        work: Callable[Concatenate[StateReader, Given], Found],
        *args: Given.args,
        **keywords: Given.kwargs,
    ) -> Found:
        """Call a function on a worker thread with a reader of the state that decisions are made from.

        Raises:
            RequestRefused: the control loop can't answer now.
        """
        with _unavailable_refused():
            return await asyncio.to_thread(work, reader_of(self.control_thread), *args, **keywords)

    async def queue_rows(self) -> dict[str, QueueRow]:
        """Return the row of every department and project."""
        running, pending = self.view.counts()
        rows = await self.query(lambda c: queue_rows(c, self.policy, self.clock(), running, pending))
        return {queue.name: rows.get(queue.name) or bare_queue_row(queue) for queue in self.inventory.queues}

    # Changes of workloads

    async def submit(
        self, submission: Submission, raw: Mapping[str, object], size: int, person: Person
    ) -> tuple[WorkloadRecord, WorkloadRow]:
        """Queue a workload; `size` is the number of bytes of its JSON.

        Raises:
            RequestRefused: the request is invalid, or not allowed for this person.
            NameTaken, NoSuchQueue, StoreFailed: the store's own refusals.
        """
        return await self.submitter.submit(ReadSubmission(submission, raw, size), person)

    async def stop(self, name: str, person: Person) -> WorkloadRow:
        """End a workload for good."""
        if (index := await stop_index(self, name, person)) is not None:
            return index
        name = await workload_to_change(self, name, person)
        at_s = self.clock()

        def confirmed(workload: Workload, uid: int) -> None:
            self.add_event(workload, uid, "withdrawn", f"{person.user} stops {name}.", person, at_s=at_s)

        uid = await self.cancellations.withdraw(CancelRequested(name, at_s, person.user), confirmed)
        return await self._row_after_step(name, uid)

    async def suspend(self, name: str, person: Person) -> WorkloadRow:
        """Suspend a workload: it releases its devices and waits until it is resumed."""
        name = await workload_to_change(self, name, person)
        self.trials.refuse_if_parked(name)
        why, at_s = f"suspended by {person.user}", self.clock()
        record = await asyncio.wrap_future(self.store.workloads.suspend(name, why))
        sentence = f"{person.user} suspends {name}."
        self.add_event(record.workload, record.launch.uid, "suspended", sentence, person, at_s=at_s)
        self.tell(WorkloadSuspended(name, True, why))
        return await self._row_after_step(name, record.launch.uid)

    async def set_priority(self, name: str, priority: int, person: Person) -> WorkloadRow:
        """Change the priority of a workload that isn't over."""
        name = await workload_to_change(self, name, person)
        spec = self.view.spec_of(name)
        if spec is None:
            raise RequestRefused(409, f"{name} is over already.")
        check_new_priority(spec, priority, self.inventory, person)
        record = await asyncio.wrap_future(self.store.workloads.set_priority(name, priority))
        self.change(record)
        sentence = f"{person.user} sets the priority of {name} to {priority}."
        self.add_event(record.workload, record.launch.uid, "priority", sentence, person, priority=priority)
        return await self._row_after_step(name, record.launch.uid)

    async def resume(self, name: str, person: Person) -> WorkloadRow:
        """Resume a suspended workload; one that isn't suspended starts without its conditions."""
        name = await workload_to_change(self, name, person)
        spec = self.view.spec_of(name)
        if spec is not None:
            require(person, Action.SUBMIT, spec.project)
        self.trials.refuse_if_parked(name)
        await self.secrets.check_resumed(name)
        try:
            record = await asyncio.wrap_future(self.store.workloads.resume(name))
            sentence = f"{person.user} resumes {name}."
            facts: list[ArrayFact] = [WorkloadSuspended(name, False)]
        except NotSuspended:
            record = await asyncio.wrap_future(self.store.workloads.drop_conditions(name))
            sentence = f"{person.user} lets {name} start without its conditions."
            facts = [*self.gates.release(record)]
        self.add_event(record.workload, record.launch.uid, "resumed", sentence, person)
        for fact in facts:
            self.tell(fact)
        return await self._row_after_step(name, record.launch.uid)

    async def _row_after_step(self, name: str, uid: int) -> WorkloadRow:
        """Return a workload's row after control has processed all facts."""
        try:
            await self.query(lambda _: None)
        except RequestRefused:
            _LOG.info("told_but_not_taken_in", workload=name)
        row = self.view.row_of(uid)
        if row is None:
            raise unknown_workload(self.view, name)
        return row

    def _array_ended(self, row: WorkloadRow) -> None:
        """Let workloads start that depend on an ended array. A restarted control loop needs no such call."""
        self.control_thread.query(lambda _: self.gates.changed([row]))

    def _on_stored_events(self, recollected: Sequence[HistoryEvent]) -> None:
        """Publish stored events. Called from the writer's thread."""
        if self.stream.readers:
            self.stream.send([("event", event_row(event), event.project) for event in recollected])


def _create_default_project(store: Store, node: Node, clock: Clock, accounts: PoolAccounts) -> None:
    """Create a project with all GPUs in a pool that has none. On a shared machine everyone is its member."""
    if store.queues():
        return
    everyone = MembershipRecord(DEFAULT_PROJECT, "everyone", "", "member")
    member = everyone if accounts.mode is AccountMode.UNIX_ACCOUNTS else None
    quota = {GPU: node.gpus * WHOLE_MILLI}
    store.set_queue(Queue(DEFAULT_PROJECT, quota=quota, created_s=clock()), member)
