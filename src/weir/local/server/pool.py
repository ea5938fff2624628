"""Composition root: the store, the backend and control, and the changes that people make.

A change is checked completely, then committed, then passed to the backend; after a crash in between,
recovery finds it. Reads use immutable rows, or query the control thread.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from structlog import get_logger

from weir.api.answers import Answer, EventRow, QueueDeleted, QueueRow, TokenRow, WorkloadRow
from weir.api.submissions import Submission
from weir.control.clock import Clock
from weir.control.journal import WorkloadRecord
from weir.control.port import CancelRequested, Effect, Fact
from weir.local import persistent_clock
from weir.local.running_pods import PodSnapshot
from weir.local.server import submissions
from weir.local.server.auth import Person, acts_only
from weir.local.server.cancellations import Cancellations
from weir.local.server.control_hooks import PoolControlHooks
from weir.local.server.event_log import EventLog
from weir.local.server.event_stream import EventStream
from weir.local.server.health import Health, Probe, Trouble
from weir.local.server.metrics import PoolCounters, WorkloadUtilization
from weir.local.server.pending_limits import PendingLimits
from weir.local.server.pool_view import PoolView
from weir.local.server.problem_details import RequestRefused, read_as
from weir.local.server.project_secrets import ProjectSecrets
from weir.local.server.request_limiter import SuggestionQueue
from weir.local.server.rerun_rights import check_rerun
from weir.local.server.server_limits import ServerLimits
from weir.local.server.wall_clock import on_wall_clock
from weir.local.server.worker_threads import Workers
from weir.local.server.workload_lookup import find_workload, live_name
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import as_clause
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI, Workload
from weir.scenario_io.written import WrittenDepartment, WrittenProject
from weir.service.control_thread import ControlThread, ControlUnavailable
from weir.service.queue_rows import DeviceUtilization, bare_queue_row, queue_rows
from weir.service.shutdown_deadline import ShutdownDeadline
from weir.state.cluster import Cluster
from weir.state.events import PodKey, QueuesSet, WorkloadSuspended
from weir.store import HistoryEvent, NameTaken, Store, StoredEvent, UsageMeter

Found = TypeVar("Found")
Shown = TypeVar("Shown", bound=Answer)
_LOG = get_logger(__name__)
NAMES_TRIED_MOST = 5
ASK_S_MOST = 10.0
REPORTED_MOST = 64
"""Number of reported values kept for a workload: the latest ones."""
DEFAULT_PROJECT = "default"


class PoolBackend(Protocol):
    """Methods that the pool needs of its backend besides the port."""

    def events(self) -> Iterable[Fact]:
        """Return the facts that control doesn't know yet."""
        ...

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry effects out."""
        ...

    def connect(self) -> None:
        """Let the next `events` return the whole state."""
        ...

    def submitted(self, kept: WorkloadRecord) -> None:
        """Add a new workload."""
        ...

    def tell(self, fact: Fact) -> None:
        """Something else is true."""
        ...

    def pods(self) -> Sequence[PodSnapshot]:
        """Return all starts of pods that aren't over."""
        ...

    def foreign(self, devices: tuple[int, ...]) -> None:
        """Set the devices that processes outside the pool use; the pool starts nothing on them."""
        ...

    def is_quiet(self, workload: str) -> bool:
        """Return True if none of a workload's own processes is left."""
        ...

    @property
    def trouble(self) -> str | None:
        """Return why the ends of pods aren't noticed; None if they are."""
        ...

    def close(self) -> None:
        """Let go of everything but the pods."""
        ...


@dataclass(slots=True)
class ReportedProgress:
    """Progress that a workload's pods reported last."""

    uid: int
    step: int | None = None
    values: Mapping[str, float] | None = None


class PoolService:
    """Service of one pool: its store, backend and control, and the changes that people make."""

    def __init__(
        self,
        store: Store,
        node: Node,
        policy: Policy,
        hub: EventStream,
        *,
        home: Path,
        clock: Clock | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self.limits = ServerLimits() if limits is None else limits
        self.workers = Workers()
        self.store = store
        self.home = home
        self.closing = False
        self.hides_others = False  # hide names of others' work, and usage by person, from members
        self.node = node
        self.policy = policy
        self.hub = hub
        self.clock = clock or Clock()
        self.started_s = self.clock()
        hub.on_wall_clock = self.on_wall_clock
        self.view = PoolView(self.clock)
        self.story = EventLog(self.view)
        self.tally = PoolCounters(self.view)
        self.meter = UsageMeter(self.view.uid_of)
        self.turns = ControlThread(PoolControlHooks(self), self.clock)
        self.device_use: dict[tuple[str, int], DeviceUtilization] = {}
        self.uses: dict[str, WorkloadUtilization] = {}
        self.disk_trouble: str | None = None
        self.reported: dict[str, ReportedProgress] = {}
        self.backend: PoolBackend
        self.secrets = ProjectSecrets(self)
        self.checks: dict[str, Callable[[], Trouble]] = {"control": lambda: self.turns.trouble}
        self.health = Health(self.checks, Probe(home, store.probe))
        self.deadline = ShutdownDeadline()
        self.withdrawals = Cancellations(self)
        self.done: deque[HistoryEvent] = deque()  # events of people's changes
        self.suggesting = SuggestionQueue()
        self.backlog = PendingLimits(self.limits, lambda: list(self.view.rows.values()))
        self._queues_changing = asyncio.Lock()
        self._make_default()
        self.inventory = submissions.pool_inventory([node], {}, store.queues())
        self._deaf = store.listen(self._heard)

    def start(self, backend: PoolBackend) -> None:
        """Begin to decide."""
        self.backend = backend
        self.withdrawals.reserve.restore()
        self.checks["watch"] = lambda: backend.trouble
        self.turns.start()

    def close(self) -> None:
        """Stop deciding; jobs run on."""
        self.closing = True
        self.health.close()
        self.deadline.waits_for = "weir-control"
        self.turns.close()
        self.deadline.waits_for = "weir-store"
        self._deaf()
        now_s = self.clock()
        try:
            self.store.sample(self.meter.take(now_s))
            self.store.write_token_uses()
        except (OSError, RuntimeError):
            _LOG.warning("last_sample_lost")
        self.workers.close()
        persistent_clock.keep(self.home, self.clock)
        self.withdrawals.close()
        self.deadline.waits_for = "weir-watch"
        self.backend.close()
        self.deadline.waits_for = "weir-store"
        self.store.close()
        self.deadline.waits_for = "threads that answer requests"

    def record(self, told: Iterable[HistoryEvent]) -> None:
        """Write down the acts of people, then these events. On the control thread."""
        these = [*(self.done.popleft() for _ in range(len(self.done))), *told]
        if these:
            self.store.record(these)

    def _make_default(self) -> None:
        """Create a project in a new pool, so that people can submit to it at once."""
        if not self.store.queues():
            quota = {GPU: self.node.gpus * WHOLE_MILLI}
            self.store.set_queue(Queue(DEFAULT_PROJECT, quota=quota, created_s=self.clock()))

    # Queries

    @property
    def trouble(self) -> str | None:
        """Return the sentence shown beside every list while the pool is impaired; None if all is well."""
        return self.withdrawals.trouble or self.store.trouble or self.turns.trouble or self.disk_trouble

    def on_wall_clock(self, answer: Shown) -> Shown:
        """Return an answer with its times as the wall clock reads them now."""
        return on_wall_clock(answer, self.clock.ahead_s)

    async def ask(self, fn: Callable[[Cluster], Found]) -> Found:
        """Have something read from the cluster, between steps.

        Raises:
            Refused: the control loop can't answer now.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.turns.ask(fn)), ASK_S_MOST)
        except ControlUnavailable as error:
            raise RequestRefused(503, f"The pool makes no decisions now: {error}") from None
        except TimeoutError:
            raise RequestRefused(503, "The pool is too busy to answer now: try again in a moment.") from None

    def made_at(self, projects: Iterable[str]) -> dict[str, float]:
        """Return when each of these projects was created; missing projects are left out."""
        of = self.inventory.of
        return {name: of[name].created_s for name in projects if name in of}

    def sees(self, person: Person, project: str, submitted_s: float) -> bool:
        """Return True if a person may see all of a workload.

        Workloads of a former project of the same name aren't this project's.
        """
        made_s = self.made_at((project,)).get(project, 0.0)
        return person.is_admin or (person.acts_in(project) and submitted_s >= made_s)

    def sees_only(self, person: Person, project: str, submitted_s: float) -> None:
        """Refuse a person who may not see all of a workload.

        Raises:
            Refused: they may not.
        """
        acts_only(person, project)
        if not self.sees(person, project, submitted_s):
            raise RequestRefused(403, f"It belongs to a former project {project}: ask an administrator.")

    async def queue_rows(self) -> dict[str, QueueRow]:
        """Return the row of every department and project."""
        running, pending = self.view.counts()
        rows = await self.ask(lambda c: queue_rows(c, self.policy, self.clock(), running, pending))
        return {queue.name: rows.get(queue.name) or bare_queue_row(queue) for queue in self.inventory.queues}

    # Changes of workloads

    async def submit(
        self, asked: Submission, raw: Mapping[str, object], size: int, person: Person
    ) -> tuple[WorkloadRecord, WorkloadRow]:
        """Queue a workload; `size` is the number of bytes of its JSON.

        Raises:
            Refused: the request is invalid, or not allowed for this person.
            NameTaken, NoSuchQueue, StoreFailed: the store's own refusals.
        """
        if asked.project in self.inventory.of:
            acts_only(person, asked.project)
            await self.secrets.check(asked)
        if asked.name in self.view.lines:  # it may be over in the store, and control not yet done with it
            raise NameTaken(f"A workload called {asked.name} isn't over yet: write another name.")
        exists: bool | None = True
        if asked.directory is not None and submissions.can_be_directory(asked.directory):
            exists = await self.workers.is_directory(asked.directory)
        with self.backlog.reserved(person, asked.project):
            kept, row = await self._queued(asked, raw, size, person, exists)
        self.backend.submitted(kept)
        self.hub.send([("workload", row, None)])
        return kept, row

    async def _queued(
        self,
        asked: Submission,
        raw: Mapping[str, object],
        size: int,
        person: Person,
        directory_exists: bool | None,
    ) -> tuple[WorkloadRecord, WorkloadRow]:
        """Check a submission and write it down, under another name if a made one is taken."""
        for tries_left in reversed(range(NAMES_TRIED_MOST)):
            check = partial(
                submissions.check_submission,
                asked,
                raw,
                person=person,
                now_s=self.clock(),
                inventory=self.inventory,
                rules=self.policy.life,
                directory_exists=directory_exists,
            )
            made = await self.workers.parse(size, check)
            try:
                kept = await asyncio.wrap_future(self.store.submit_soon(made))
            except NameTaken:
                if asked.name is not None or not tries_left:
                    raise
                continue
            break
        workload = kept.workload
        row = self.view.known(kept, made.devices)
        sentence = f"{person.user} submitted {workload.name} to project {workload.project}."
        self._did(
            workload,
            kept.launch.uid,
            "submitted",
            sentence,
            person,
            at_s=kept.submitted_at_s,
            devices=made.devices,
        )
        return kept, row

    async def stop(self, name: str, person: Person) -> WorkloadRow:
        """End a workload for good."""
        name = await self._acts_on(name, person)
        at_s = self.clock()

        def told(workload: Workload, uid: int) -> None:
            self._did(workload, uid, "withdrawn", f"{person.user} stops {name}.", person, at_s=at_s)

        uid = await self.withdrawals.withdraw(CancelRequested(name, at_s, person.user), told)
        return await self._row_after(name, uid)

    async def suspend(self, name: str, person: Person) -> WorkloadRow:
        """Suspend a workload: it releases its devices and waits until it is resumed."""
        name = await self._acts_on(name, person)
        why, at_s = f"suspended by {person.user}", self.clock()
        kept = await asyncio.wrap_future(self.store.hold_soon(name, why))
        sentence = f"{person.user} suspends {name}."
        self._did(kept.workload, kept.launch.uid, "suspended", sentence, person, at_s=at_s)
        self.backend.tell(WorkloadSuspended(name, True, why))
        return await self._row_after(name, kept.launch.uid)

    async def resume(self, name: str, person: Person) -> WorkloadRow:
        """Let a suspended workload go on."""
        name = await self._acts_on(name, person)
        await self.secrets.check_resumed(name)
        kept = await asyncio.wrap_future(self.store.release_soon(name))
        self._did(kept.workload, kept.launch.uid, "resumed", f"{person.user} resumes {name}.", person)
        self.backend.tell(WorkloadSuspended(name, False))
        return await self._row_after(name, kept.launch.uid)

    async def rerun(self, name: str, person: Person) -> tuple[WorkloadRecord, WorkloadRow]:
        """Submit an ended workload again."""
        if live_name(self.view, name) in self.view.lines:
            name = await self._acts_on(name, person)
            raise RequestRefused(
                409, f"{name} isn't over yet: stop it first, or submit it under another name."
            )
        found = await asyncio.to_thread(find_workload, self.store, name)
        if found is None:
            raise _unknown(name)
        self.sees_only(person, found.listed.project, found.listed.submitted_s)
        check_rerun(found, person)
        name = found.listed.name
        raw = {**found.asked, "name": name}
        text, said = json.dumps(raw), f"The submission of {name}"
        asked = await self.workers.parse(len(text), lambda: read_as(Submission, text, said))
        return await self.submit(asked, raw, len(text), person)

    async def _acts_on(self, word: str, person: Person) -> str:
        """Return the name of the workload that a name or uid means, if this person may act on it."""
        name = live_name(self.view, word)
        line = self.view.lines.get(name)
        if line is not None:
            acts_only(person, line.spec.project)
            return name
        found = await asyncio.to_thread(find_workload, self.store, word)
        if found is None:
            raise _unknown(word)
        acts_only(person, found.listed.project)
        if found.listed.name != word and found.listed.ended_s is not None:
            raise RequestRefused(409, f"Workload {word}, {found.listed.name}, is over already.")
        return found.listed.name

    async def _row_after(self, name: str, uid: int) -> WorkloadRow:
        """Return a workload's row after control has taken in all facts."""
        try:
            await self.ask(lambda _: None)
        except RequestRefused:
            _LOG.info("told_but_not_taken_in", workload=name)
        row = self.view.ended.get(uid) or self.view.row(name)
        if row is None:
            raise _unknown(name)
        return row

    def _did(
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
        self.done.append(
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

    # Changes of departments and projects

    async def set_queue(
        self, asked: WrittenDepartment | WrittenProject, name: str, person: Person
    ) -> tuple[bool, QueueRow]:
        """Create or change a department or project; return True if it is new, and its row."""
        async with self._queues_changing:
            inventory = self.inventory
            queue = submissions.checked_queue(asked, name=name, now_s=self.clock(), inventory=inventory)
            new = name not in inventory.of
            if new:  # of a former project whose deletion broke off
                await asyncio.to_thread(self.secrets.forget, name)
            followed = submissions.following_departments(queue, name, inventory)
            queues = inventory.queues
            for each in (queue, *followed):
                queues = await asyncio.to_thread(self.store.set_queue, each)
            self._queues_are(queues)
        noun = "project" if queue.is_project else "department"
        self._queue_did(f"{person.user} {'makes' if new else 'changes'} {noun} {name}.", queue, person)
        return new, (await self.queue_rows())[name]

    async def delete_queue(self, name: str, is_project: bool, person: Person) -> QueueDeleted:
        """Delete an empty department or project; return what was deleted with it."""
        noun = "project" if is_project else "department"
        async with self._queues_changing:
            inventory = self.inventory
            queue = inventory.of.get(name)
            if queue is None or queue.is_project != is_project:
                raise RequestRefused(404, f"There is no {noun} {name}.")
            followed = submissions.following_departments(None, name, inventory)
            held = [row for row in self.store.tokens() if is_project and name in row.projects]
            queues = await asyncio.to_thread(self.store.delete_queue, name)
            secrets = await asyncio.to_thread(self.secrets.forget, name) if is_project else []
            for each in followed:
                queues = await asyncio.to_thread(self.store.set_queue, each)
            self._queues_are(queues)
        self._queue_did(f"{person.user} deletes {noun} {name}.", queue, person)
        fields = TokenRow.model_fields
        tokens = [TokenRow(**{key: getattr(row, key) for key in fields}) for row in held]
        return QueueDeleted(name=name, tokens=tokens, secrets=secrets)

    def _queues_are(self, queues: tuple[Queue, ...]) -> None:
        self.backend.tell(QueuesSet(queues))
        self.inventory = submissions.pool_inventory(self.inventory.nodes, self.inventory.topologies, queues)

    def _queue_did(self, sentence: str, queue: Queue, person: Person) -> None:
        project = queue.name if queue.is_project else None
        self.done.append(
            HistoryEvent(self.clock(), "queue", sentence, project=project, numbers={"user": person.user})
        )
        self.turns.wake()

    def noted(self, pod: PodKey, uid: int, step: int | None, values: Mapping[str, float]) -> None:
        """Store the progress that a job reported. Called from the watcher's thread."""
        said = self.reported.get(pod.workload)
        if said is None or said.uid != uid:
            said = self.reported[pod.workload] = ReportedProgress(uid)
        if step is not None:
            said.step = step
        if values:
            kept = {**(said.values or {}), **values}
            said.values = dict(list(kept.items())[-REPORTED_MOST:])

    def refused(self, pod: PodKey, uid: int, sentence: str) -> None:
        """Something of a pod can't be read, and is passed over. From any thread."""
        line = self.view.lines.get(pod.workload)
        group = str(pod.group) if line is None else line.spec.groups[pod.group].name
        told = f"Pod {pod.workload}/{group}/{pod.index}: {as_clause(sentence)}"
        _LOG.warning("unreadable", workload=pod.workload, why=told)
        project, name = (None, None) if line is None else (line.spec.project, pod.workload)
        self.done.append(
            HistoryEvent(self.clock(), "unreadable", told, uid=uid, workload=name, project=project)
        )
        self.turns.wake()

    def _heard(self, recollected: Sequence[StoredEvent]) -> None:
        """Publish stored events. Called from the writer's thread."""
        if self.hub.readers:
            self.hub.send([("event", event_row(each), each.project) for each in recollected])


def event_row(happening: StoredEvent) -> EventRow:
    """Return an event as the API shows it."""
    return EventRow.model_construct(
        id=happening.id,
        at_s=happening.at_s,
        kind=happening.kind,
        workload=happening.workload,
        project=happening.project,
        pod=happening.pod,
        sentence=happening.sentence,
        numbers=dict(happening.numbers),
    )


def _unknown(name: str) -> RequestRefused:
    return RequestRefused(404, f"There is no workload {name}; `weir list -A` shows which there are.")
