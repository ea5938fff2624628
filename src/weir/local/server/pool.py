"""Composition root: the store, the backend and control, and the changes that people make.

A change is checked completely, then committed, then passed to the backend; after a crash in between,
recovery finds it. Reads use immutable rows, or query the control thread.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from structlog import get_logger

from weir.api.answers import Answer, QueueRow, WorkloadRow
from weir.api.submissions import Submission
from weir.control.clock import Clock
from weir.control.journal import StartConditions, WorkloadRecord
from weir.control.port import CancelRequested, Fact
from weir.local import persistent_clock
from weir.local.gpu_memory_limits import GpuMemoryLimits
from weir.local.server import submissions
from weir.local.server.account_mode import AccountMode, PoolAccounts
from weir.local.server.authorization import Action, Person, require
from weir.local.server.cancellations import Cancellations
from weir.local.server.container_checks import ContainerChecks
from weir.local.server.control_hooks import PoolControlHooks
from weir.local.server.event_log import event_row
from weir.local.server.event_stream import EventStream
from weir.local.server.gpu_prices import GpuPrices
from weir.local.server.health import Health, Probe, Trouble
from weir.local.server.job_reports import JobReports
from weir.local.server.memberships import Memberships
from weir.local.server.node_changes import NodeChanges
from weir.local.server.notifications.notification_service import Notifications
from weir.local.server.pending_limits import PendingLimits
from weir.local.server.pool_backend import PoolBackend
from weir.local.server.pool_state import PoolState
from weir.local.server.priority_changes import change_priority, check_new_priority
from weir.local.server.problem_details import RequestRefused, read_as
from weir.local.server.project_secrets import ProjectSecrets
from weir.local.server.queue_changes import QueueChanges
from weir.local.server.request_limiter import SuggestionQueue
from weir.local.server.rerun_rights import check_rerun
from weir.local.server.server_limits import ServerLimits
from weir.local.server.start_conditions import StartGates, start_conditions
from weir.local.server.wall_clock import on_wall_clock
from weir.local.server.worker_threads import Workers
from weir.local.server.workload_lookup import find_workload, live_name, unknown_workload
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI, Workload
from weir.service.control_thread import ControlThread, ControlUnavailable
from weir.service.queue_rows import bare_queue_row, queue_rows
from weir.service.shutdown_deadline import ShutdownDeadline
from weir.state.cluster import Cluster
from weir.state.events import WorkloadSuspended
from weir.store import HistoryEvent, MembershipRecord, NameTaken, NotSuspended, Store

Found = TypeVar("Found")
Shown = TypeVar("Shown", bound=Answer)
_LOG = get_logger(__name__)
NAMES_TRIED_MOST = 5
ASK_S_MOST = 10.0
DEFAULT_PROJECT = "default"


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
        if not store.queues():
            everyone = MembershipRecord(DEFAULT_PROJECT, "everyone", "", "member")
            member = everyone if accounts.mode is AccountMode.UNIX_ACCOUNTS else None
            _create_default_project(store, node, clock or Clock(), member)
        super().__init__(store, node, policy, stream, home=home, clock=clock)
        self.limits = ServerLimits() if limits is None else limits
        self.accounts = accounts
        self.workers = Workers()
        self.containers = ContainerChecks()
        self.prices = GpuPrices()
        self.gpu_memory: GpuMemoryLimits | None = None  # None: the driver is never asked for limits
        self.device_rules = ""  # means of the kernel that holds GPUs apart; empty: there is none
        self.hides_others = False  # hide names of others' work, and usage by person, from members
        stream.on_wall_clock = self.on_wall_clock
        self.secrets = ProjectSecrets(self)
        self.cancellations = Cancellations(self)
        self.gates = StartGates(self)
        hooks = PoolControlHooks(self, self.secrets, self.cancellations, self.gates)
        self.control_thread = ControlThread(hooks, self.clock)
        self.job_reports = JobReports(self, self.control_thread.wake)
        self.checks: dict[str, Callable[[], Trouble]] = {"control": lambda: self.control_thread.trouble}
        self.health = Health(self.checks, Probe(home, store.probe))
        self.deadline = ShutdownDeadline()
        self.suggesting = SuggestionQueue()
        self.pending_limits = PendingLimits(self.limits, lambda: list(self.view.rows.values()))
        self.memberships = Memberships(self)
        self.queue_changes = QueueChanges(self)
        self.node_changes = NodeChanges(self, self.control_thread, self.cancellations)
        self.notifications = Notifications(self)
        self._stop_listening = store.listen(self._on_stored_events)

    def start(self, backend: PoolBackend) -> None:
        """Begin to decide."""
        self.backend = backend
        self.node_changes.begin()
        self.cancellations.reserve.restore()
        self.checks["maintenance"] = lambda: self.node_changes.maintenance.trouble
        self.checks["notifications"] = lambda: self.notifications.trouble
        self.checks["watch"] = lambda: backend.trouble
        self.notifications.start()
        self.control_thread.start()

    def close(self) -> None:
        """Stop deciding; jobs run on."""
        self.closing = True
        self.health.close()
        self.deadline.waits_for = "weir-notify"
        self.notifications.close()
        self.deadline.waits_for = "weir-control"
        self.control_thread.close()
        self.deadline.waits_for = "weir-store"
        self._stop_listening()
        now_s = self.clock()
        try:
            self.store.sample(self.meter.take(now_s))
            self.store.write_token_uses()
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
        return (
            self.cancellations.trouble
            or self.store.trouble
            or self.control_thread.trouble
            or self.disk_trouble
        )

    def on_wall_clock(self, answer: Shown) -> Shown:
        """Return an answer with its times as the wall clock reads them now."""
        return on_wall_clock(answer, self.clock.ahead_s)

    async def query(self, fn: Callable[[Cluster], Found]) -> Found:
        """Have something read from the cluster, between steps.

        Raises:
            Refused: the control loop can't answer now.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.control_thread.query(fn)), ASK_S_MOST)
        except ControlUnavailable as error:
            raise RequestRefused(503, f"The pool makes no decisions now: {error}") from None
        except TimeoutError:
            raise RequestRefused(503, "The pool is too busy to answer now: try again in a moment.") from None

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
            Refused: the request is invalid, or not allowed for this person.
            NameTaken, NoSuchQueue, StoreFailed: the store's own refusals.
        """
        if submission.project in self.inventory.of:
            require(person, Action.SUBMIT, submission.project)
            await self.secrets.check(submission)
        if submission.name in self.view.workloads:  # over in the store perhaps, and not yet in control
            raise NameTaken(f"A workload called {submission.name} isn't over yet: write another name.")
        account = await self.accounts.job_account(person.user)
        exists = await submissions.directory_exists(submission, self.workers, account)
        home = None if account is None else account.home
        queue = self.inventory.of.get(submission.project)
        own = None if queue is None else queue.limits_of(person.user)
        conditions = await start_conditions(submission, self)
        with self.pending_limits.reserved(person, submission.project, own):
            record, row = await self._enqueue(submission, conditions, raw, size, person, exists, home)
        self.stream.send([("workload", row, None)])  # before control can send that it has started
        self.backend.submitted(record)
        self.gates.add(record)
        self.control_thread.wake()
        return record, row

    async def _enqueue(
        self,
        submission: Submission,
        conditions: StartConditions,
        raw: Mapping[str, object],
        size: int,
        person: Person,
        directory_exists: bool | None,
        home: str | None,
    ) -> tuple[WorkloadRecord, WorkloadRow]:
        """Check a submission and write it down, under another name if a made one is taken."""
        for tries_left in reversed(range(NAMES_TRIED_MOST)):
            check = partial(
                submissions.check_submission,
                submission,
                person=person,
                now_s=self.clock(),
                inventory=self.inventory,
                rules=self.policy.life,
                directory_exists=directory_exists,
                home=home,
                containers=self.containers,
            )
            made = replace(await self.workers.parse(size, check), conditions=conditions)
            try:
                record = await asyncio.wrap_future(self.store.submit_soon(made, raw))
            except NameTaken:
                if submission.name is not None or not tries_left:
                    raise
                continue
            break
        workload = record.workload
        row = self.view.add(record)
        sentence = f"{person.user} submitted {workload.name} to project {workload.project}."
        self._add_event(
            workload,
            record.launch.uid,
            "submitted",
            sentence,
            person,
            at_s=record.submitted_at_s,
            devices=record.devices,
        )
        return record, row

    async def stop(self, name: str, person: Person) -> WorkloadRow:
        """End a workload for good."""
        name = await self._workload_to_change(name, person)
        at_s = self.clock()

        def confirmed(workload: Workload, uid: int) -> None:
            self._add_event(workload, uid, "withdrawn", f"{person.user} stops {name}.", person, at_s=at_s)

        uid = await self.cancellations.withdraw(CancelRequested(name, at_s, person.user), confirmed)
        return await self._row_after_step(name, uid)

    async def suspend(self, name: str, person: Person) -> WorkloadRow:
        """Suspend a workload: it releases its devices and waits until it is resumed."""
        name = await self._workload_to_change(name, person)
        why, at_s = f"suspended by {person.user}", self.clock()
        record = await asyncio.wrap_future(self.store.suspend_soon(name, why))
        sentence = f"{person.user} suspends {name}."
        self._add_event(record.workload, record.launch.uid, "suspended", sentence, person, at_s=at_s)
        self.backend.tell(WorkloadSuspended(name, True, why))
        return await self._row_after_step(name, record.launch.uid)

    async def set_priority(self, name: str, priority: int, person: Person) -> WorkloadRow:
        """Change the priority of a workload that isn't over."""
        name = await self._workload_to_change(name, person)
        line = self.view.workloads.get(name)
        if line is None:
            raise RequestRefused(409, f"{name} is over already.")
        check_new_priority(line.spec, priority, self.inventory, person)
        record = await change_priority(self.store, self.backend, name, priority, self.clock())
        sentence = f"{person.user} sets the priority of {name} to {priority}."
        self._add_event(record.workload, record.launch.uid, "priority", sentence, person, priority=priority)
        return await self._row_after_step(name, record.launch.uid)

    async def resume(self, name: str, person: Person) -> WorkloadRow:
        """Let a suspended workload go on; one that isn't suspended starts without its conditions."""
        name = await self._workload_to_change(name, person)
        line = self.view.workloads.get(name)
        if line is not None:
            require(person, Action.SUBMIT, line.spec.project)
        await self.secrets.check_resumed(name)
        try:
            record = await asyncio.wrap_future(self.store.resume_soon(name))
            sentence = f"{person.user} resumes {name}."
            facts: list[Fact] = [WorkloadSuspended(name, False)]
        except NotSuspended:
            record = await asyncio.wrap_future(self.store.drop_conditions_soon(name))
            sentence = f"{person.user} lets {name} start without its conditions."
            facts = self.gates.release(record)
        self._add_event(record.workload, record.launch.uid, "resumed", sentence, person)
        for fact in facts:
            self.backend.tell(fact)
        return await self._row_after_step(name, record.launch.uid)

    async def rerun(self, name: str, person: Person) -> tuple[WorkloadRecord, WorkloadRow]:
        """Submit an ended workload again."""
        if live_name(self.view, name) in self.view.workloads:
            name = await self._workload_to_change(name, person)
            sentence = f"{name} isn't over yet: stop it first, or submit it under another name."
            raise RequestRefused(409, sentence)
        found = await asyncio.to_thread(find_workload, self.store, name)
        if found is None:
            raise unknown_workload(name)
        self.require_visible(person, found.row.project, found.row.submitted_s)
        check_rerun(found, person)
        name = found.row.name
        raw = {**found.asked, "name": name}
        text = json.dumps(raw)
        read = partial(read_as, Submission, text, f"The submission of {name}", self.priority_classes)
        submission = await self.workers.parse(len(text), read)
        return await self.submit(submission, raw, len(text), person)

    async def _workload_to_change(self, word: str, person: Person) -> str:
        """Return the name of the workload that a name or uid means, if this person may act on it."""
        name = live_name(self.view, word)
        line = self.view.workloads.get(name)
        if line is not None:
            require(person, Action.CONTROL, line.spec.project, owner=line.spec.user)
            return name
        found = await asyncio.to_thread(find_workload, self.store, word)
        if found is None:
            raise unknown_workload(word)
        require(person, Action.CONTROL, found.row.project, owner=found.row.user)
        if found.row.name != word and found.row.ended_s is not None:
            raise RequestRefused(409, f"Workload {word}, {found.row.name}, is over already.")
        return found.row.name

    async def _row_after_step(self, name: str, uid: int) -> WorkloadRow:
        """Return a workload's row after control has taken in all facts."""
        try:
            await self.query(lambda _: None)
        except RequestRefused:
            _LOG.info("told_but_not_taken_in", workload=name)
        row = self.view.row_of(uid)
        if row is None:
            raise unknown_workload(name)
        return row

    def _add_event(
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

    def _on_stored_events(self, recollected: Sequence[HistoryEvent]) -> None:
        """Publish stored events. Called from the writer's thread."""
        if self.stream.readers:
            self.stream.send([("event", event_row(each), each.project) for each in recollected])


def _create_default_project(store: Store, node: Node, clock: Clock, member: MembershipRecord | None) -> None:
    """Create a project in a new pool, so that people can submit to it at once."""
    quota = {GPU: node.gpus * WHOLE_MILLI}
    store.set_queue(Queue(DEFAULT_PROJECT, quota=quota, created_s=clock()), member)
