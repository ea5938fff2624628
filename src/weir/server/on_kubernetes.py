"""`weir up --on kubernetes`: the control loop in front of a cluster, for as long as this one leads.

Two threads: one talks to the API server, the other is control. Reflectors run whether this one leads or not,
so that it can take over at once; control begins with the whole picture each time it is won.
"""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from structlog import get_logger

from weir.backends.kubernetes.api import objects
from weir.backends.kubernetes.api.access import (
    NOT_VERIFIED,
    SERVICE_ACCOUNT,
    Access,
    Kubeconfig,
    NoAccess,
    ServiceAccount,
)
from weir.backends.kubernetes.api.collector import collector_paused, freeze
from weir.backends.kubernetes.api.connection import Connection
from weir.backends.kubernetes.api.leading import AlwaysLeads, Leading
from weir.backends.kubernetes.api.paths import path_of
from weir.backends.kubernetes.api.reflector import Change, Reflector, Set, Unreadable
from weir.backends.kubernetes.api.server_clock import server_clock
from weir.backends.kubernetes.backend import KubernetesBackend
from weir.backends.kubernetes.own.own_objects import MakerThing, QueueThing, WorkloadThing
from weir.backends.kubernetes.own.shapes import API_VERSION
from weir.backends.kubernetes.picture.picture import Picture
from weir.backends.kubernetes.reading.kinds import Kinds, Watched, load_kinds
from weir.backends.kubernetes.reading.requests import Devices
from weir.backends.kubernetes.writing.acting import Acting
from weir.backends.kubernetes.writing.writes import Emit, Write
from weir.cluster.events import Event, PodAssigned, WorkloadEnded
from weir.control.clock import Clock
from weir.control.loop import Control
from weir.decide.plan import Plan
from weir.model.files.policies import read_policy
from weir.model.policy import Policy
from weir.model.resources import span
from weir.model.scenario import Refused as FileRefused
from weir.server import log
from weir.server.deadline import Deadline
from weir.server.queue_statuses import QueueStatuses
from weir.server.reasons import Reasons
from weir.server.turns import Turns

if TYPE_CHECKING:  # where no port is opened, nothing of what answers there is brought in
    from weir.server.door import Door, Opening

BETWEEN_S = 0.1
"""Plans are no closer to one another."""
PEOPLE_EVERY_S = 0.5
QUEUES_EVERY_S = 3.0
UNHEARD_S_MOST = 300.0
"""Even where nothing happens, the API server is asked within this time."""
OWNERS_WAIT_S = 5.0
"""How long kinds that make pods may take to be listed before those that can't be are done without."""
FAILED, WRONG_REQUEST = 1, 2
_LOG = get_logger(__name__)
WATCHED: tuple[tuple[str, str, type[Any]], ...] = (
    ("v1", "nodes", objects.KubeNode),
    ("v1", "namespaces", objects.Namespace),
    ("scheduling.k8s.io/v1", "priorityclasses", objects.PriorityClass),
    ("v1", "persistentvolumeclaims", objects.PersistentVolumeClaim),
    ("v1", "persistentvolumes", objects.PersistentVolume),
    ("storage.k8s.io/v1", "storageclasses", objects.StorageClass),
    ("storage.k8s.io/v1", "csinodes", objects.CsiNode),
    (API_VERSION, "departments", QueueThing),
    (API_VERSION, "projects", QueueThing),
    (API_VERSION, "topologies", QueueThing),
    (API_VERSION, "workloads", WorkloadThing),
    ("v1", "pods", objects.Pod),
)


@dataclass(slots=True)
class Options:
    """How to run."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""  # of the lease; where this one runs if none is named
    scheduler: str = "weir"  # the name in `schedulerName` of the pods that are ours
    elects: bool = True
    policy: Policy = field(default_factory=Policy)
    kinds: str | None = None  # an administrator's entries of the table of kinds
    devices: Devices = field(default_factory=Devices)
    opening: "Opening | None" = None  # where webhooks, health and metrics are answered


class Clustered:
    """The household of the control thread, and a reader of control."""

    def __init__(self, backend: KubernetesBackend, policy: Policy, clock: Callable[[], float]) -> None:
        self.backend = backend
        self.policy = policy
        self.wake: Callable[[], None] = lambda: None
        self.submit: Callable[[Sequence[Write | Emit]], None] = lambda _: None
        self._clock = clock
        self._reasons = Reasons(backend.reasons)
        self._queues = QueueStatuses()
        self._people_next_s = self._queues_next_s = 0.0
        self._changes = -1
        self._begins = True
        self._paused = ExitStack()  # the collector, in a first step
        self.plans = 0
        self.planning_s = 0.0

    def connect(self) -> Control:
        """A new control; the next facts are the whole picture."""
        self._paused.close()
        self._begins = True
        self.backend.connect()
        self.backend.reasons.clear()
        self._reasons = Reasons(self.backend.reasons)
        self._queues.forget()
        self._changes = -1
        return Control(self.backend, self.policy, self._clock, readers=(self,))

    def begins(self, now_s: float) -> None:  # noqa: ARG002 - the first is like any other
        """A step begins. The first one makes all there is, and hardly any garbage."""
        if self._begins:
            self._paused.enter_context(collector_paused())

    def stepped(self, control: Control, now_s: float) -> None:  # noqa: ARG002 - what was made stays
        """A step was carried out whole."""
        if self._begins:
            self._begins = False
            freeze()
            self._paused.close()

    def happened(self, event: Event) -> None:
        """What runs, or is over, doesn't wait."""
        if isinstance(event, PodAssigned):
            self.backend.reasons.pop(event.place.pod.workload, None)
        elif isinstance(event, WorkloadEnded):
            self.backend.reasons.pop(event.workload, None)

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:  # noqa: ARG002 - it shows in what happens
        """How long planning takes."""
        self.plans += 1
        self.planning_s += took_s
        if plan.acts:
            _LOG.debug(
                "planned",
                binds=len(plan.binds),
                evictions=len(plan.evictions),
                promises=len(plan.promises),
                took_s=round(took_s, 4),
            )

    def rests(self, control: Control, now_s: float) -> float | None:
        """Between steps: what people are told."""
        backend, cluster = self.backend, control.cluster
        changed = self._reasons.turn(cluster, self.policy, now_s)
        backend.reasons_changed(changed)
        if now_s >= self._people_next_s:
            backend.tell_people(now_s)
            self._people_next_s = self._clock() + PEOPLE_EVERY_S
        if now_s >= self._queues_next_s and cluster.changes != self._changes:
            self._changes = cluster.changes
            patches = list(self._queues.take(backend.queue_view(), cluster, self.policy, now_s))
            if patches:
                self.submit(patches)
            self._queues_next_s = self._clock() + QUEUES_EVERY_S
        due_s = backend.due_s
        if due_s is not None and due_s <= now_s:
            self.wake()
        times = [self._reasons.due_s(cluster), backend.people_due_s(), due_s]
        if backend.statuses.has_work:
            times.append(self._people_next_s)
        if cluster.changes != self._changes:
            times.append(self._queues_next_s)
        return min((time_s for time_s in times if time_s is not None), default=None)


class Instance:
    """One Weir in front of a cluster; everything but control on the event loop that runs it."""

    def __init__(self, api: Connection, options: Options, clock: Clock | None = None) -> None:
        self._api = api
        self._options = options
        self._clock = clock = clock or Clock()
        self._loop = asyncio.get_running_loop()
        self.kinds: Kinds = load_kinds(options.kinds)
        self.picture = Picture(self.kinds, options.devices, options.scheduler)
        self.backend = KubernetesBackend(self.picture, self._submit, self._wake, clock)
        namespace = options.namespace or api.namespace
        self.leading: Leading | AlwaysLeads = (
            Leading(api, namespace=namespace, identity=_identity()) if options.elects else AlwaysLeads()
        )
        self.acting = Acting(api, self.leading, self.backend.told, check=self.backend.check)
        self.household = Clustered(self.backend, options.policy, clock)
        self.household.submit = self._submit
        self.household.wake = self._wake
        self.turns: Turns | None = None
        self.deadline = Deadline()
        self.reflectors: dict[str, Reflector[Any]] = {}
        self._owners: dict[tuple[str, str], Reflector[Any]] = {}
        self.door = None if options.opening is None else self._door(options.opening)

    def _door(self, opening: "Opening") -> "Door":
        from weir.server.cluster_metrics import ClusterMetrics
        from weir.server.door import Door

        opening = replace(opening, namespace=opening.namespace or self._api.namespace)
        options, metrics = self._options, ClusterMetrics(self)
        door = Door(
            self._api, opening, options.scheduler, options.devices, self._is_well, metrics=metrics.text
        )
        door.trouble = self._trouble
        return door

    def _is_well(self) -> bool:
        turns = self.turns
        return turns is None or turns.trouble is None

    def _trouble(self) -> str:
        """Tell what makes no progress; empty if all does."""
        turns, now_s = self.turns, time.monotonic()
        if turns is not None and turns.trouble is not None:
            return turns.trouble
        for resource, each in self.reflectors.items():
            if each.synced.is_set() and now_s - each.heard_s > UNHEARD_S_MOST:
                return f"The API server hasn't told of {resource} for {span(now_s - each.heard_s)}."
        return ""

    # From any thread

    def _submit(self, writes: Sequence[Write | Emit]) -> None:
        self._loop.call_soon_threadsafe(self.acting.submit, list(writes))

    def _wake(self) -> None:
        turns = self.turns
        if turns is not None:
            turns.wake()

    # On the event loop

    async def run(self) -> None:
        """Serve until it is cancelled."""
        self._reflect()
        async with asyncio.TaskGroup() as tasks:
            for reflector in (*self.reflectors.values(), *self._owners.values()):
                tasks.create_task(reflector.run())
            tasks.create_task(self.acting.run())
            if self.door is not None:
                tasks.create_task(self.door.run())
            if isinstance(self.leading, Leading):
                tasks.create_task(self.leading.run())
            tasks.create_task(self._watch_owners())
            await self._sync()
            try:
                await self._lead()
            finally:
                await self._stop()

    async def _lead(self) -> None:
        while True:
            if isinstance(self.leading, Leading):
                await self.leading.won()
                _LOG.info("leading", identity=self.leading.identity)
            self.turns = Turns(self.household, self._clock, between_s=BETWEEN_S)
            self.turns.start()
            if isinstance(self.leading, AlwaysLeads):
                await asyncio.Event().wait()
            else:
                await self.leading.lost()
                _LOG.warning("not_leading_any_more")
            await self._stop()

    async def _stop(self) -> None:
        turns, self.turns = self.turns, None
        if turns is not None:
            self.deadline.waits_for = "weir-control"
            await asyncio.to_thread(turns.close)
            self.deadline.waits_for = "the API server"
            self.backend.leave()

    async def close(self) -> None:
        """A clean stop: what was ordered is carried out, and another one may lead at once."""
        await self._stop()
        await self.acting.drain(2.0)
        if isinstance(self.leading, Leading):
            await self.leading.release()

    def _reflect(self) -> None:
        for api_version, resource, of in WATCHED:
            deliver = self.backend.deliver(resource)
            self.reflectors[resource] = Reflector(self._api, path_of(api_version, resource), of, deliver)
        for watched in self.kinds.watched:
            for api_version in watched.api_versions:
                deliver = self._owner_taker(api_version, watched)
                path = path_of(api_version, watched.resource)
                self._owners[api_version, watched.kind] = Reflector(self._api, path, MakerThing, deliver)

    def _owner_taker(
        self, api_version: str, watched: Watched
    ) -> Callable[[Sequence[Change[MakerThing]]], None]:
        take = self.backend.deliver_owners()
        kinds = self.kinds

        def deliver(changes: Sequence[Change[MakerThing]]) -> None:
            kept: list[Change[Any]] = []
            for change in changes:
                if not isinstance(change, Set):
                    kept.append(change)
                    continue
                found = change.object
                try:
                    body = kinds.narrow(
                        {
                            "apiVersion": api_version,
                            "kind": watched.kind,
                            "metadata": msgspec.to_builtins(found.metadata),
                            "spec": found.spec,
                            "status": found.status,
                        }
                    )
                    kept.append(Set(change.key, body))
                except Exception as error:  # noqa: BLE001 - the others have to be heard of
                    sentence = f"{type(error).__name__}: {error}"
                    kept.append(Unreadable(change.key, found.metadata.uid, sentence))
            take(kept)

        return deliver

    async def _sync(self) -> None:
        """Wait for everything to be known, but not for kinds that make pods and can't be had."""
        began_s = time.monotonic()
        await asyncio.gather(*(each.synced.wait() for each in self.reflectors.values()))
        left_s = max(0.0, began_s + OWNERS_WAIT_S - time.monotonic())
        waits = asyncio.gather(*(each.synced.wait() for each in self._owners.values()))
        with suppress(TimeoutError):
            await asyncio.wait_for(waits, left_s)
        self._note_unreadable()
        _LOG.info("synced", pods=len(self.reflectors["pods"]), nodes=len(self.reflectors["nodes"]))

    async def _watch_owners(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._note_unreadable()

    def _note_unreadable(self) -> None:
        """Nobody waits to see an object of a kind that this cluster doesn't have, or that we may not read."""
        self.backend.unreadable(
            frozenset(key for key, each in self._owners.items() if each.absent or not each.synced.is_set())
        )


def access_of(options: Options) -> Access:
    """In the cluster as its service account, else as a kubeconfig says."""
    named = options.kubeconfig is not None or options.context is not None or "KUBECONFIG" in os.environ
    if not named and (SERVICE_ACCOUNT / "token").exists():
        return ServiceAccount()
    return Kubeconfig(options.kubeconfig, options.context)


def _identity() -> str:
    return os.environ.get("HOSTNAME") or socket.gethostname()


def run(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    namespace: str = "",
    scheduler: str = "weir",
    resources: tuple[str, ...] | None = None,
    opening: "Opening | None" = None,
    elects: bool = True,
    policy_file: Path | None = None,
    kinds_file: Path | None = None,
    log_level: str = "info",
    tell: Callable[[str], None] = print,
) -> int:
    """Schedule a cluster until SIGTERM or SIGINT; the exit code."""
    log.set_up(log_level)
    try:
        policy = Policy() if policy_file is None else read_policy(policy_file)
        kinds = None if kinds_file is None else kinds_file.read_text("utf-8")
        devices = Devices() if resources is None else Devices(resources)
        options = Options(kubeconfig, context, namespace, scheduler, elects, policy, kinds, devices, opening)
        asyncio.run(_serve(options, tell))
    except FileRefused as error:
        print(f"weir: {error}", file=sys.stderr)
        return WRONG_REQUEST
    except NoAccess as error:
        print(f"weir: {error}", file=sys.stderr)
        return FAILED
    except ExceptionGroup as several:
        from weir.server.door import CannotListen

        deaf = several.subgroup(CannotListen)
        if deaf is None:
            raise
        print(f"weir: {_innermost(deaf)}", file=sys.stderr)
        return FAILED
    return 0


def _innermost(error: BaseException) -> BaseException:
    """What went wrong first, of tasks within tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _serve(options: Options, tell: Callable[[str], None]) -> None:
    async with AsyncExitStack() as stack:
        access = access_of(options)
        if not access.is_verified:
            _LOG.warning("api_server_not_verified", server=access.server, why=NOT_VERIFIED)
        api = await stack.enter_async_context(Connection(access))
        instance = Instance(api, options, await server_clock(api))
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop(_signal: int, _frame: object) -> None:
            instance.deadline.begin()  # in the handler itself: the event loop may be what hangs
            loop.call_soon_threadsafe(stopped.set)

        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, stop)
        tell(f"Weir schedules the cluster {api.server}: pods with schedulerName {options.scheduler}.")
        running = asyncio.create_task(instance.run())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            stopping.cancel()
            running.result()
        await instance.close()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
