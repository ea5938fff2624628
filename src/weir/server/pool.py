"""The composition root: the store, the backend and control put together, and what people do to them.

What people do is checked completely, then committed, then told to the backend: a crash in between is found
by the next relist. What they read comes from rows anyone may read, or is asked of the control thread.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from structlog import get_logger

from weir.backends.local.journal import Kept
from weir.backends.local.launched import PodNow
from weir.cluster.events import PodKey, QueuesSet, WorkloadHeld
from weir.cluster.state import Cluster
from weir.control.port import Effect, Fact, Withdrawn
from weir.model.files.written import WrittenDepartment, WrittenProject
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.pool import EventRow, QueueRow, Submission, WorkloadRow
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI, Workload
from weir.server import asking
from weir.server.amounts import DeviceUse, bare_queue_row, queue_rows
from weir.server.around import Around
from weir.server.auth import Person, acts_only
from weir.server.live import Hub
from weir.server.metrics import Tally, WorkloadUse
from weir.server.problems import Refused, read_as
from weir.server.story import Story
from weir.server.turns import NotNow, Turns
from weir.server.view import View
from weir.store import Happening, Meter, NameTaken, Recollected, Store

Found = TypeVar("Found")
_LOG = get_logger(__name__)
NAMES_TRIED_MOST = 5
ASK_S_MOST = 10.0
DEFAULT_PROJECT = "default"


class PoolBackend(Protocol):
    """What the pool needs of its backend besides the port."""

    def events(self) -> Iterable[Fact]:
        """As the port says."""
        ...

    def apply(self, effects: Sequence[Effect]) -> None:
        """As the port says."""
        ...

    def connect(self) -> None:
        """The next `events` is the whole picture."""
        ...

    def submitted(self, kept: Kept) -> None:
        """A workload is new."""
        ...

    def tell(self, fact: Fact) -> None:
        """Something else is true."""
        ...

    def pods(self) -> Sequence[PodNow]:
        """All starts of pods that aren't over."""
        ...

    def close(self) -> None:
        """Let go of everything but the pods."""
        ...


@dataclass(slots=True)
class Reported:
    """What a workload's pods said of themselves last."""

    uid: int
    step: int | None = None
    values: Mapping[str, float] | None = None


class Pool:
    """One pool. Methods that are coroutines belong to the event loop."""

    def __init__(
        self,
        store: Store,
        node: Node,
        policy: Policy,
        hub: Hub,
        *,
        home: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.home = home
        self.closing = False
        self.node = node
        self.policy = policy
        self.hub = hub
        self.clock = clock
        self.started_s = clock()
        self.view = View()
        self.story = Story(self.view)
        self.tally = Tally(self.view)
        self.meter = Meter(self.view.uid_of)
        self.turns = Turns(Around(self), clock)
        self.device_use: dict[tuple[str, int], DeviceUse] = {}
        self.uses: dict[str, WorkloadUse] = {}
        self.reported: dict[str, Reported] = {}
        self.backend: PoolBackend
        self.done: deque[Happening] = deque()  # what people did
        self.trying = asyncio.Semaphore(1)  # suggestions cost a second of a processor: one at a time
        self._queues_changing = asyncio.Lock()
        self._make_default()
        self.ground = asking.ground([node], {}, store.queues())
        self._deaf = store.listen(self._heard)

    def start(self, backend: PoolBackend) -> None:
        """Begin to decide."""
        self.backend = backend
        self.turns.start()

    def close(self) -> None:
        """Stop deciding; jobs run on."""
        self.closing = True
        self.turns.close()
        self._deaf()
        now_s = self.clock()
        try:
            self.store.sample(self.meter.take(now_s))
        except (OSError, RuntimeError):
            _LOG.warning("last_sample_lost")
        self.backend.close()
        self.store.close()

    def _make_default(self) -> None:
        """A fresh pool has a project, so that something can be submitted to it at once."""
        if not self.store.queues():
            quota = {GPU: self.node.gpus * WHOLE_MILLI}
            self.store.set_queue(Queue(DEFAULT_PROJECT, quota=quota, created_s=self.clock()))

    # What others ask

    async def ask(self, fn: Callable[[Cluster], Found]) -> Found:
        """Have something read from the cluster, between steps.

        Raises:
            Refused: the control loop can't answer now.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.turns.ask(fn)), ASK_S_MOST)
        except NotNow as error:
            raise Refused(503, f"The pool doesn't decide now: {error}") from None
        except TimeoutError:
            raise Refused(503, "The pool is too busy to answer now: ask again in a moment.") from None

    async def queue_rows(self) -> dict[str, QueueRow]:
        """Every department and project, with what it holds and its share."""
        running, pending = self.view.counts()
        rows = await self.ask(lambda c: queue_rows(c, self.policy, self.clock(), running, pending))
        return {queue.name: rows.get(queue.name) or bare_queue_row(queue) for queue in self.ground.queues}

    # What people do to workloads

    async def submit(
        self, asked: Submission, raw: Mapping[str, object], person: Person
    ) -> tuple[Kept, WorkloadRow]:
        """Queue a workload.

        Raises:
            Refused: what is asked for isn't sound, or not this person's to ask.
            NameTaken, NoSuchQueue, StoreFailed: the store's own refusals.
        """
        if asked.project in self.ground.of:
            acts_only(person, asked.project)
        if asked.name in self.view.lines:  # it may be over in the store, and control not yet done with it
            raise NameTaken(f"A workload called {asked.name} isn't over yet: write another name.")
        for tries_left in reversed(range(NAMES_TRIED_MOST)):
            now_s = self.clock()
            made = asking.submitted(asked, raw, user=person.user, now_s=now_s, ground=self.ground)
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
        self._did(workload, kept.launch.uid, "submitted", sentence, person, devices=made.devices)
        self.backend.submitted(kept)
        self.hub.send([("workload", row, None)])
        return kept, row

    async def stop(self, name: str, person: Person) -> WorkloadRow:
        """End a workload for good."""
        self._acts_on(name, person)
        at_s = self.clock()
        kept = await asyncio.wrap_future(self.store.withdraw_soon(name, at_s))
        self._did(kept.workload, kept.launch.uid, "withdrawn", f"{person.user} stops {name}.", person)
        self.backend.tell(Withdrawn(name, at_s, person.user))
        return await self._row_after(name, kept.launch.uid)

    async def suspend(self, name: str, person: Person) -> WorkloadRow:
        """Have a workload give its room back and wait until it is resumed."""
        self._acts_on(name, person)
        why = f"suspended by {person.user}"
        kept = await asyncio.wrap_future(self.store.hold_soon(name, why))
        sentence = f"{person.user} suspends {name}."
        self._did(kept.workload, kept.launch.uid, "suspended", sentence, person)
        self.backend.tell(WorkloadHeld(name, True, why))
        return await self._row_after(name, kept.launch.uid)

    async def resume(self, name: str, person: Person) -> WorkloadRow:
        """Let a suspended workload go on."""
        self._acts_on(name, person)
        kept = await asyncio.wrap_future(self.store.release_soon(name))
        self._did(kept.workload, kept.launch.uid, "resumed", f"{person.user} resumes {name}.", person)
        self.backend.tell(WorkloadHeld(name, False))
        return await self._row_after(name, kept.launch.uid)

    async def rerun(self, name: str, person: Person) -> tuple[Kept, WorkloadRow]:
        """Submit what has ended anew."""
        if name in self.view.lines:
            self._acts_on(name, person)
            raise Refused(409, f"{name} isn't over yet: stop it first, or submit it under another name.")
        found = await asyncio.to_thread(self.store.workload, name)
        if found is None:
            raise _unknown(name)
        acts_only(person, found.listed.project)
        raw = {**found.asked, "name": name}
        asked = read_as(Submission, json.dumps(raw), f"The submission of {name}")
        return await self.submit(asked, raw, person)

    def _acts_on(self, name: str, person: Person) -> None:
        line = self.view.lines.get(name)
        if line is not None:
            acts_only(person, line.spec.project)
            return
        found = self.store.workload(name)
        if found is None:
            raise _unknown(name)
        acts_only(person, found.listed.project)

    async def _row_after(self, name: str, uid: int) -> WorkloadRow:
        """A workload's row once what was told is taken in."""
        try:
            await self.ask(lambda _: None)
        except Refused:
            _LOG.info("told_but_not_taken_in", workload=name)
        row = self.view.ended.get(uid) or self.view.row(name)
        if row is None:
            raise _unknown(name)
        return row

    def _did(
        self, workload: Workload, uid: int, kind: str, sentence: str, person: Person, **numbers: object
    ) -> None:
        self.done.append(
            Happening(
                self.clock(),
                kind,
                sentence,
                uid=uid,
                workload=workload.name,
                project=workload.project,
                numbers={"user": person.user, **numbers},
            )
        )

    # What people do to departments and projects

    async def set_queue(
        self, asked: WrittenDepartment | WrittenProject, name: str, person: Person
    ) -> tuple[bool, QueueRow]:
        """Make a department or project, or change it; whether it is new, and what it is."""
        async with self._queues_changing:
            ground = self.ground
            queue = asking.queue_from(asked, name=name, now_s=self.clock(), ground=ground)
            new = name not in ground.of
            followed = asking.follow(queue, name, ground)
            queues = ground.queues
            for each in (queue, *followed):
                queues = await asyncio.to_thread(self.store.set_queue, each)
            self._queues_are(queues)
        noun = "project" if queue.is_project else "department"
        self._queue_did(f"{person.user} {'makes' if new else 'changes'} {noun} {name}.", queue, person)
        return new, (await self.queue_rows())[name]

    async def delete_queue(self, name: str, is_project: bool, person: Person) -> None:
        """Take one out that holds nothing."""
        noun = "project" if is_project else "department"
        async with self._queues_changing:
            ground = self.ground
            queue = ground.of.get(name)
            if queue is None or queue.is_project != is_project:
                raise Refused(404, f"There is no {noun} {name}.")
            followed = asking.follow(None, name, ground)
            queues = await asyncio.to_thread(self.store.delete_queue, name)
            for each in followed:
                queues = await asyncio.to_thread(self.store.set_queue, each)
            self._queues_are(queues)
        self._queue_did(f"{person.user} deletes {noun} {name}.", queue, person)

    def _queues_are(self, queues: tuple[Queue, ...]) -> None:
        self.backend.tell(QueuesSet(queues))
        self.ground = asking.ground(self.ground.nodes, self.ground.topologies, queues)

    def _queue_did(self, sentence: str, queue: Queue, person: Person) -> None:
        project = queue.name if queue.is_project else None
        self.done.append(
            Happening(self.clock(), "queue", sentence, project=project, numbers={"user": person.user})
        )
        self.turns.wake()

    def noted(self, pod: PodKey, uid: int, step: int | None, values: Mapping[str, float]) -> None:
        """A job said something of itself. From the watch's thread."""
        said = self.reported.get(pod.workload)
        if said is None or said.uid != uid:
            said = self.reported[pod.workload] = Reported(uid)
        if step is not None:
            said.step = step
        if values:
            said.values = {**(said.values or {}), **values}

    def _heard(self, recollected: Sequence[Recollected]) -> None:
        """These are in the history now. On the writer's thread."""
        if self.hub.readers:
            self.hub.send([("event", event_row(each), each.project) for each in recollected])


def event_row(happening: Recollected) -> EventRow:
    """An event as it is answered."""
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


def _unknown(name: str) -> Refused:
    return Refused(404, f"There is no workload {name}; `weir list -A` shows which there are.")
