"""Scheduler of one cluster: the control loop, for as long as this process leads.

It has two threads: one talks to the API server, the other is control. Reflectors run on every replica, so
that any can take over at once; control begins with the whole state after each election.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from structlog import get_logger

from weir.control.clock import Clock
from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.api.changes import Change, Deliver, only_in, to_both
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.leader_election import AlwaysLeader, LeaderElection, pod_identity
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import OwnerObject, QuotaObject
from weir.kubernetes.notifications.notification_service import ClusterNotifications
from weir.kubernetes.process.config_watcher import PATH as SETTINGS_PATH
from weir.kubernetes.process.config_watcher import ConfigWatcher
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.process.control.standby_view import StandbyView
from weir.kubernetes.process.process_options import ProcessOptions
from weir.kubernetes.process.server.api_calls import calls_of
from weir.kubernetes.process.usage.cluster_headroom import ClusterHeadroom, count_gpus
from weir.kubernetes.process.usage.share_memory_watch import RESOURCE, ShareMemoryWatch
from weir.kubernetes.process.usage.usage_service import UsageService
from weir.kubernetes.process.watches.group_watch import GroupWatch
from weir.kubernetes.process.watches.owner_watches import OwnerWatches
from weir.kubernetes.process.watches.watched_resources import WATCHED, taint_watch
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.sweeps import trial_costs
from weir.kubernetes.sweeps.sweep_controller import ClusterSweepController
from weir.kubernetes.sweeps.trial_costs import TrialCosts
from weir.kubernetes.translate.kinds import WorkloadKinds, load_kinds
from weir.kubernetes.writes.delivery.api_writer import ApiWriter
from weir.kubernetes.writes.operations import EmitEvent, Write
from weir.kubernetes.writes.pods.namespace_end import NamespaceEnds
from weir.model.resources import span
from weir.service.control_thread import ControlThread
from weir.service.shutdown_deadline import ShutdownDeadline

if TYPE_CHECKING:  # without a port, nothing of it is imported
    from weir.kubernetes.history.service import HistoryService
    from weir.kubernetes.process.server.query_service import QueryService
    from weir.kubernetes.process.server.webhook_server import ServingOptions, WebhookServer

BETWEEN_S = 0.1
"""Mean time between plans, at least: after a pause, two may follow each other at once."""
UNHEARD_S_MAX = 300.0
"""Without changes, the API server is queried within this time."""
OWNERS_WAIT_S = 5.0
"""Time that kinds of owners may take to be listed; afterwards the others are used without them."""
_LOG = get_logger(__name__)


class SchedulerProcess:
    """Scheduler of one cluster; everything but control is on the event loop that runs it."""

    def __init__(
        self,
        api: ApiClient,
        options: ProcessOptions,
        clock: Clock | None = None,
        settings: ConfigWatcher | None = None,
    ) -> None:
        self._clock = clock = clock or Clock()
        self.settings = settings or ConfigWatcher(options.scheduler, options.settings, clock=clock)
        self.settings.tell, self.settings.changed = self._tell, self._apply_settings
        self.outdated = asyncio.Event()
        """Set if the settings need a restart: objects must be read again."""
        self._api = api
        self.calls = calls_of(api)
        self._options = options
        chosen = self._chosen = self.settings.settings
        self._loop = asyncio.get_running_loop()
        self.kinds: WorkloadKinds = load_kinds(chosen.kinds)
        self.cluster_state = ClusterState(
            self.kinds, chosen.devices, options.scheduler, chosen.without_project, options.managed
        )
        namespace = options.namespace or api.namespace
        self.backend = self._make_backend(clock, namespace)
        self.election: LeaderElection | AlwaysLeader = (
            LeaderElection(api, namespace=namespace, identity=pod_identity(), shown=clock)
            if options.elects
            else AlwaysLeader()
        )
        self.writer = self._make_writer(api)
        self.hooks = ClusterControlHooks(
            self.backend, chosen.policy, clock, overcommit_grace_s=chosen.overcommit_grace_s
        )
        self.hooks.set_share_memory(chosen.share_memory)
        self.hooks.submit, self.hooks.wake = self._submit, self._wake
        self.namespace_ends = NamespaceEnds(self._tell, self.election.may_write, clock)
        self.control_thread: ControlThread | None = None
        self.standby = StandbyView(self.backend, lambda: self.hooks.policy, clock, between_s=BETWEEN_S)
        self.usage = self._make_usage_service(clock)
        self.share_memory = ShareMemoryWatch(self.backend.deliver(RESOURCE), self.usage.node_reports.memories)
        self.query: QueryService | None = None
        self.headroom = self._make_headroom()
        self.leaderships = 0
        self.deadline = ShutdownDeadline()
        self.reflectors: dict[str, Reflector[Any]] = {}
        self.group_watch = GroupWatch(api, self.backend)
        self.taint_watch = taint_watch(api, self.backend.deliver("devicetaintrules"))
        self.sweeps = self._make_sweeps(f"{namespace}:{NAME}")
        self._see_owners: Callable[[Sequence[Change[OwnerObject]]], None] = lambda _: None
        self.webhook_server = None if options.opening is None else self._make_webhook_server(options.opening)
        self.notifications = self._make_notifications(f"{namespace}:{NAME}")

    def _make_writer(self, api: ApiClient) -> ApiWriter:
        backend = self.backend
        return ApiWriter(api, self.election, backend.take_outcome, check=backend.check, clock=self._clock)

    def _make_backend(self, clock: Clock, namespace: str) -> KubernetesBackend:
        chosen = self._chosen
        backend = KubernetesBackend(
            self.cluster_state,
            self._submit,
            self._wake,
            clock,
            shared_nodes=chosen.shared_nodes,
            namespace=namespace,
        )
        backend.set_budget_rules(chosen.policy.budgets)
        backend.set_scale_up_over_quota(chosen.scale_up_over_quota)
        return backend

    def _make_sweeps(self, account: str) -> ClusterSweepController:
        deliver = self.backend.deliver(trial_costs.RESOURCE)
        costs = TrialCosts(deliver, lambda: self.hooks.policy.price.restart)
        managed = self._options.managed
        return ClusterSweepController(self._api, self.election, account, costs, managed, clock=self._clock)

    def _make_notifications(self, account: str) -> ClusterNotifications:
        index = None if self.query is None else self.query.workloads
        settings, managed = self._options.notifications, self._options.managed
        return ClusterNotifications(self._api, self.election, settings, index, self._clock, account, managed)

    def _make_headroom(self) -> ClusterHeadroom:
        return ClusterHeadroom(
            lambda: self.settings.settings.session_headroom,
            lambda: count_gpus(self._thread()),
            lambda: self._loop.call_soon_threadsafe(self._apply_settings),
            self._clock,
        )

    def _make_usage_service(self, clock: Clock) -> UsageService:
        return UsageService(
            self.backend,
            self.settings,
            lambda: self.hooks.policy.life,
            clock,
            lambda: self.control_thread is not None,
        )

    def _make_webhook_server(self, opening: "ServingOptions") -> "WebhookServer":
        from weir.kubernetes.admission.owner_index import OwnerIndex
        from weir.kubernetes.process.server.metrics import ClusterMetrics
        from weir.kubernetes.process.server.query_service import QueryService
        from weir.kubernetes.process.server.served_pods import reporting_pod, shares_of
        from weir.kubernetes.process.server.webhook_server import WebhookServer
        from weir.kubernetes.query.cluster.answers import SchedulerAnswers

        opening = replace(opening, namespace=opening.namespace or self._api.namespace)
        scheduler, chosen, metrics = self._options.scheduler, self._chosen, ClusterMetrics(self)
        webhook_server = WebhookServer(
            self._api, opening, scheduler, chosen.devices, self._is_well, self.trouble, metrics.text
        )
        webhook_server.owners = OwnerIndex(
            self.kinds, webhook_server.classes.is_device, self._api, self._look_again
        )
        self._see_owners = webhook_server.owners.deliver
        webhook_server.without_project = chosen.without_project
        webhook_server.clock = self._clock
        answers = SchedulerAnswers(
            self.backend,
            self._thread,
            self._numbers,
            lambda: self.hooks.policy,
            chosen.devices.resources,
            lambda: self.usage.use,
            self._clock,
        )
        self.query = webhook_server.query = QueryService(
            self._api, answers, opening.namespace, self._options.history, self._clock
        )
        self.usage.published, self.usage.measured = self.query.usage.used, self.query.measure
        self.query.find_pod = partial(reporting_pod, self.backend)
        self.query.busy_s_max = lambda: self.hooks.policy.life.max_idle_extend
        if self.query.history is not None:
            self.query.history.sessions_seen = self.headroom.seen
        webhook_server.node_agents = self.usage.node_reports, partial(shares_of, self.backend)
        return webhook_server

    def _thread(self) -> ControlThread | None:
        """Return the control thread, leading or standby; None before its start."""
        return self.control_thread or self.standby.thread

    def _numbers(self) -> ClusterSummary:
        """Return the newest amounts of queues."""
        return self.hooks.numbers if self.control_thread is not None else self.standby.numbers

    def _is_well(self) -> bool:
        return self.control_thread is None or self.control_thread.trouble is None

    def trouble(self) -> str:
        """Return the parts that make no progress, as a sentence; empty if none."""
        control_thread, now_s = self.control_thread, time.monotonic()
        if control_thread is not None and control_thread.trouble is not None:
            return control_thread.trouble
        for resource, reflector in self.reflectors.items():
            if reflector.synced.is_set() and now_s - reflector.heard_s > UNHEARD_S_MAX:
                return f"The API server hasn't sent {resource} for {span(now_s - reflector.heard_s)}."
        return ""

    # Calls from any thread

    def _submit(self, writes: Sequence[Write | EmitEvent]) -> None:
        self._loop.call_soon_threadsafe(self.writer.submit, list(writes))

    def _wake(self) -> None:
        thread = self._thread()
        if thread is not None:
            thread.wake()

    # Calls on the event loop

    def _tell(self, writes: Sequence[Write | EmitEvent]) -> None:
        if self.election.may_write():
            self.writer.submit(list(writes))

    def _apply_settings(self) -> None:
        settings = self.settings.settings
        if settings.needs_new_instance(self._chosen):
            self.outdated.set()
            return
        self.hooks.policy = self.headroom.applied(settings.policy)
        self.usage.wake()
        self.hooks.set_overcommit_grace(settings.overcommit_grace_s)
        self.hooks.set_share_memory(settings.share_memory)
        self.backend.set_shared_nodes(settings.shared_nodes)
        self.backend.set_scale_up_over_quota(settings.scale_up_over_quota)
        self.backend.set_budget_rules(settings.policy.budgets)
        self._wake()

    async def run(self) -> None:
        """Serve until cancelled."""
        self._reflect()
        self.usage.start()
        self.share_memory.start()
        async with asyncio.TaskGroup() as tasks:
            for reflector in (*self.reflectors.values(), *self.sweeps.reflectors):
                tasks.create_task(reflector.run())
            for watch in self.owners.watches:
                tasks.create_task(watch.run())
            tasks.create_task(self.writer.run())
            if self.webhook_server is not None:
                tasks.create_task(self.webhook_server.run())
            if isinstance(self.election, LeaderElection):
                tasks.create_task(self.election.run())
            tasks.create_task(self._watch_owners())
            tasks.create_task(self.group_watch.run())
            tasks.create_task(self.taint_watch.run())
            tasks.create_task(self.sweeps.run())
            tasks.create_task(self.notifications.reflector.run())
            tasks.create_task(self.namespace_ends.repeat())
            tasks.create_task(Reflector(self._api, SETTINGS_PATH, QuotaObject, self.settings.deliver).run())
            await self._sync()
            try:
                await self._lead()
            finally:
                await self._stop()

    async def _lead(self) -> None:
        while True:
            if isinstance(self.election, LeaderElection):
                await self.standby.until(self.election.won())
                _LOG.info("leading", identity=self.election.identity)
            self.leaderships += 1
            self.settings.tell_all()
            self.namespace_ends.tell_all()
            self.control_thread = ControlThread(self.hooks, self._clock, between_s=BETWEEN_S)
            self.control_thread.start()
            if self._history is not None:
                self._history.lead()
            self.notifications.lead()
            if isinstance(self.election, AlwaysLeader):
                await asyncio.Event().wait()
            else:
                await self.election.lost()
                _LOG.warning("not_leading_any_more")
            await self._stop()

    @property
    def _history(self) -> "HistoryService | None":
        return None if self.query is None else self.query.history

    async def _stop(self) -> None:
        await self.standby.close()
        await self.notifications.stop()
        control_thread, self.control_thread = self.control_thread, None
        if control_thread is not None:
            self.deadline.waits_for = "weir-control"
            await asyncio.to_thread(control_thread.close)
            self.deadline.waits_for = "the API server"
            self.backend.leave()
        if self._history is not None:
            await self._history.stop()

    async def close(self) -> None:
        """Stop cleanly: complete submitted writes, then let another process lead at once."""
        if isinstance(self.election, LeaderElection):
            self.election.resign()
        self.usage.close()
        self.share_memory.close()
        await self.sweeps.close()
        await self._stop()
        if self.query is not None:
            self.query.close()
        await self.writer.drain(2.0)
        if isinstance(self.election, LeaderElection):
            await self.election.release()

    def _reflect(self) -> None:
        ends, managed = self.namespace_ends, self._options.managed
        sees: dict[str, Deliver] = {"pods": only_in(managed, ends.see_pods)}
        sees["workloads"] = self.notifications.see_workloads
        self.backend.statuses.past.has_rules = self.notifications.has_rules
        shown = None if self.query is None else self.query.see_namespaces
        sees["namespaces"] = to_both(shown, ends.see_namespaces)
        for api_version, resource, object_type in WATCHED:
            deliver = to_both(sees.get(resource), self.backend.deliver(resource))
            deliver = only_in(managed, deliver) if resource == "workloads" else deliver
            self.reflectors[resource] = Reflector(
                self._api, path_of(api_version, resource), object_type, deliver
            )
        take = self.backend.deliver_owners()
        self.owners = OwnerWatches(self._api, self.kinds, self._see_owners, take)

    async def _sync(self) -> None:
        """Wait until all kinds are listed, except owners that can't be read."""
        began_s = time.monotonic()
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.reflectors.values()))
        left_s = max(0.0, began_s + OWNERS_WAIT_S - time.monotonic())
        waits = asyncio.gather(
            self.owners.wait_until_known(), self.group_watch.ready(), self.taint_watch.settled.wait()
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(waits, left_s)
        self._note_unreadable()
        _LOG.info("synced", pods=len(self.reflectors["pods"]), nodes=len(self.reflectors["nodes"]))

    def _look_again(self, api_version: str, kind: str) -> None:
        """Look at once for a kind that the API server didn't have."""
        self.owners.look_again(api_version, kind)

    async def _watch_owners(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._note_unreadable()

    def _note_unreadable(self) -> None:
        """Tell the backend which kinds can't be read, and retry those that pods name."""
        unreadable = self.owners.unreadable()
        self.backend.unreadable(unreadable, self.owners.absent())
        for key in self.backend.awaited_kinds() if unreadable else ():
            self.owners.look_again(*key)
