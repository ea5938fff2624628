"""Notifications while one replica leads: it reads the rules afresh, takes in events of workloads, and sends.

The status of each rule is its outbox. So a leader that ends loses nothing: the next one goes on with it.
Messages leave in a thread of their own, and no decision waits for one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from structlog import get_logger

from weir.control.clock import Clock
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.leader_election import Leadership
from weir.kubernetes.api.managed_namespaces import ManagedNamespaces
from weir.kubernetes.api.object_numbers import number_of
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.notification_objects import (
    PLURAL,
    READY,
    SENTENCE_MAX,
    TEST_ANNOTATION,
    NotificationRuleObject,
    RuleTest,
)
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.notifications.namespace_rules import NamespaceRules
from weir.kubernetes.notifications.receiver_check import receiver_of
from weir.kubernetes.notifications.receiver_secrets import ReceiverSecrets
from weir.kubernetes.notifications.rule_outbox import RuleOutbox
from weir.kubernetes.notifications.rule_state import RuleState
from weir.kubernetes.notifications.status_writer import RuleStatusWriter
from weir.kubernetes.notifications.workload_events import deletion_of, events_of
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard
from weir.kubernetes.writes.statuses.stated_events import ENDS
from weir.model.plain_text import printable
from weir.notifications.message_texts import message_of_test

if TYPE_CHECKING:
    from weir.notifications.notification_settings import NotificationSettings
    from weir.notifications.sender import NotificationSender

LOOK_S = 1.0
"""Interval of checks for statuses to write."""
CHECK_EVERY_S = 15.0
"""Time between two checks of rules that aren't ready."""
CHECKED_TOGETHER_MAX = 8
RETRY_S, RETRY_S_MAX = 5.0, 60.0
"""Pauses after failed steps: the first one, and the longest."""
CLOSE_S = 2.0
TEST_S = 25.0
TEST_ID_MAX = 64
T = TypeVar("T")
_LOG = get_logger(__name__)


class NotificationTerm:
    """Rules, events and messages of one term.

    `removed` returns the workloads deleted lately before their end, each with the time.
    """

    def __init__(
        self,
        api: ApiClient,
        leadership: Leadership,
        settings: "NotificationSettings | None",
        workloads: WorkloadIndex,
        removed: Callable[[], Iterable[tuple[float, WorkloadIndexEntry]]],
        clock: Clock,
        account: str,
        managed: ManagedNamespaces,
    ) -> None:
        self._api = api
        self._settings = settings
        self._workloads = workloads
        self._removed = removed
        self._clock = clock
        self._managed = managed
        self._addresses = ReceiverSecrets(api, account)
        guard = LeaderGuard(api, leadership, leadership.term)
        self._writer = RuleStatusWriter(guard)
        self._outbox = RuleOutbox(self._writer.save, guard.check, self._addresses)
        self._sender: NotificationSender | None = None
        self._rules = NamespaceRules()
        self._live: dict[str, tuple[str, WorkloadObject]] = {}  # workloads that haven't ended, by name
        self._has_begun = False
        self._failure = ""  # failure to read rules, or to write their statuses
        # Changes before all rules were read, by uid
        self._early: dict[str, Change[NotificationRuleObject]] = {}
        self._testing: set[str] = set()  # uids of rules with a test in progress
        self._checking = asyncio.Semaphore(CHECKED_TOGETHER_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def trouble(self) -> str:
        """Return why nothing is sent; empty if all is well."""
        return self._failure or ("" if self._sender is None else self._sender.trouble or "")

    def start(self) -> None:
        """Begin."""
        self._spawn(self._run())
        self._spawn(self._check_often())

    async def close(self) -> None:
        """Stop sending, and write the outcomes of deliveries if the API server answers at once."""
        if self._sender is not None:
            await asyncio.to_thread(self._sender.close)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._writer.save_changed(self._outbox.rules.values(), at_once=True)
        except TimeoutError:
            pass
        except Exception:  # noqa: BLE001 - the scheduler goes on without notifications
            _LOG.exception("notifications_failed")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("notification_task_failed", exc_info=error)

    async def _run(self) -> None:
        rules = await self._until_done(self._read_rules, "Rules of notifications can't be read")
        await self._until_done(partial(self._begin, rules), "Notifications can't begin")
        while True:
            await asyncio.sleep(LOOK_S)
            await self._until_done(self._write, "Statuses of notification rules can't be written")

    async def _until_done(self, step: Callable[[], Awaitable[T]], failing: str) -> T:
        """Return the result of a step. One that fails is logged once, and carried out again after pauses."""
        pause_s = RETRY_S
        while True:
            try:
                result = await step()
            except Exception as error:  # noqa: BLE001 - nothing else would tell people
                if not self._failure:
                    trace = None if isinstance(error, ApiError) else error
                    _LOG.error("notifications_failed", why=str(error), exc_info=trace)
                self._failure = f"{failing}: {type(error).__name__}. The log has the error."
                await asyncio.sleep(pause_s)
                pause_s = min(RETRY_S_MAX, 2 * pause_s)
            else:
                self._failure = ""
                return result

    async def _write(self) -> None:
        await self._writer.save_changed(list(self._outbox.rules.values()))

    async def _check_often(self) -> None:
        """Check rules that aren't ready, beside the writes of statuses."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            rules = [state for state in self._outbox.rules.values() if state.status.phase != READY]
            if rules:
                await asyncio.wait([self._spawn(self._check(state)) for state in rules])

    async def _read_rules(self) -> list[NotificationRuleObject]:
        rules = await self._api.list_all(path_of(API_VERSION, PLURAL), NotificationRuleObject)
        return [rule for rule in rules if rule.metadata.namespace in self._managed]

    async def _begin(self, rules: list[NotificationRuleObject]) -> None:
        """Continue with the rules in the last leader's state, and start sending."""
        self._has_begun = True
        rules.sort(key=lambda rule: (rule.metadata.creation_timestamp or "", rule.metadata.key))
        states = [state for rule in rules if (state := self._set(rule)) is not None]
        self._tell_removed()
        self._catch_up(states)
        self.see_rules(list(self._early.values()))
        self._early.clear()
        if self._settings is not None:
            from weir.notifications.notification_settings import read_mounted_password
            from weir.notifications.sender import NotificationSender

            sender = NotificationSender(
                self._outbox, self._settings, self._outbox, self._clock, read_mounted_password
            )
            sender.start()
            self._sender = sender

    # Rules

    def see_rules(self, changes: Sequence[Change[NotificationRuleObject]]) -> None:
        """Process new, changed and deleted rules."""
        changed = []
        for change in changes:
            uid = change.object.metadata.uid if isinstance(change, ObjectSet) else change.uid
            if not self._has_begun:
                self._early.pop(uid, None)
                self._early[uid] = change
            elif isinstance(change, ObjectSet):
                changed.append(self._set(change.object))
            elif isinstance(change, ObjectRemoved):
                self._drop(uid)
        if any(changed):
            self._catch_up([state for state in changed if state is not None])

    def _set(self, rule: NotificationRuleObject) -> RuleState | None:
        """Process a rule; return it if events of its workloads have to be collected."""
        try:
            return self._take_rule(rule)
        except Exception:  # noqa: BLE001 - one rule that fails keeps no other from being sent
            _LOG.exception("notification_rule_failed", rule=rule.metadata.key)
            return None

    def _take_rule(self, rule: NotificationRuleObject) -> RuleState | None:
        metadata = rule.metadata
        state = self._outbox.rules.get(number_of(metadata.uid))
        is_new = state is None
        if state is None:
            state = RuleState(rule, self._clock())
            self._rules.add(state)
            self._outbox.rules[state.id] = state
        is_changed = is_new or state.respecify(rule, self._clock())
        if is_changed:
            self._spawn(self._check(state))
        test = printable(metadata.annotations.get(TEST_ANNOTATION, ""), TEST_ID_MAX)
        tested = state.status.test
        if test and (tested is None or tested.id != test) and state.uid not in self._testing:
            self._testing.add(state.uid)
            self._spawn(self._test(state, test))
        return state if is_changed and not state.surplus else None

    def _drop(self, uid: str) -> None:
        state = self._outbox.rules.pop(number_of(uid), None)
        successor = None if state is None else self._rules.remove(state)
        if successor is not None:
            successor.admit(self._clock())
            self._spawn(self._check(successor))

    def _catch_up(self, rules: Sequence[RuleState]) -> None:
        """Process the events that the workloads of the rules' namespaces state."""
        by_namespace: dict[str, list[RuleState]] = defaultdict(list)
        for state in rules:
            by_namespace[state.namespace].append(state)
        now_s = self._clock()
        for workload in self._workloads.all():
            states = by_namespace.get(workload.namespace)
            if states:
                self._take_in(workload.key, workload.uid, workload.object, states, now_s)
        self._outbox.on_queued([state.id for state in rules if state.status.pending])

    async def _check(self, state: RuleState) -> None:
        """Record the receiver of a rule, or why nothing can be sent to it."""
        with suppress(OSError, ApiError):  # retried at the next check
            async with self._checking:
                receiver, refusal = await receiver_of(state, self._settings, self._addresses)
                state.check(receiver, refusal)
                await self._writer.save(state)

    async def _test(self, state: RuleState, test: str) -> None:
        """Send the test message that a person has requested, and record the outcome."""
        try:
            delivered, sentence = await self._tested(state)
        finally:
            self._testing.discard(state.uid)
        state.status.test = RuleTest(id=test, delivered=delivered, sentence=printable(sentence, SENTENCE_MAX))
        state.is_changed = True
        with suppress(ApiError):
            await self._writer.save(state)

    async def _tested(self, state: RuleState) -> tuple[bool, str]:
        """Send a test message; return the outcome, and its course in a sentence."""
        sentence, delivered, now_s = "nothing is sent now: the leader has just begun", False, self._clock()
        refusal = state.unreadable
        with suppress(OSError, ApiError):
            refusal = refusal or (await receiver_of(state, self._settings, self._addresses))[1]
        if refusal:
            sentence = refusal
        elif self._sender is not None:
            message = message_of_test(state.id, f"This is a test of notification {state.key}.", now_s)
            try:
                async with asyncio.timeout(TEST_S):
                    attempt = await self._sender.test(state.rule, message)
                sentence, delivered = attempt.sentence, attempt.problem is None
            except (TimeoutError, OSError):
                sentence = "the receiver doesn't answer in time"
        return delivered, sentence

    # Workloads

    def see_workloads(self, changes: Sequence[Change[WorkloadObject]]) -> None:
        """Process events of new, changed and deleted workloads."""
        queued: set[int] = set()
        now_s = self._clock()
        for change in changes if self._has_begun else ():
            rules = self._rules.rules_of(change.key.partition("/")[0])
            if isinstance(change, ObjectSet) and rules:
                workload_object = change.object
                queued.update(
                    self._take_in(change.key, workload_object.metadata.uid, workload_object, rules, now_s)
                )
            elif isinstance(change, ObjectRemoved):
                queued.update(self._take_removal(change.key, change.uid, rules, now_s))
        if queued:
            self._outbox.on_queued(queued)

    def _tell_removed(self) -> None:
        """Process workloads that were deleted while no replica had read the rules."""
        queued: set[int] = set()
        for at_s, gone in self._removed():
            rules = self._rules.rules_of(gone.namespace)
            if rules:
                queued.update(self._take_in(gone.key, gone.uid, gone.object, rules, at_s))
                queued.update(self._take_removal(gone.key, gone.uid, rules, at_s))
        self._outbox.on_queued(queued)

    def _take_removal(self, name: str, uid: str, rules: Sequence[RuleState], now_s: float) -> list[int]:
        """Process the deletion of a workload's object; return the rules with new notifications."""
        queued, live = [], self._live.pop(name, None)
        if live is not None:
            event = deletion_of(live[0], name, live[1], now_s)
            queued = [state.id for state in rules if state.take([event], live[1].spec, live[0], name)]
        for state in rules:
            state.forget(uid)
        return queued

    def _take_in(
        self, name: str, uid: str, workload_object: WorkloadObject, rules: Sequence[RuleState], now_s: float
    ) -> list[int]:
        """Process the events of one workload; return the rules with new notifications."""
        queued: list[int] = []
        live = self._live.get(name)
        if live is not None and live[1].spec.owner.uid != workload_object.spec.owner.uid:
            # The object of this name is of a new workload
            queued = self._take_removal(name, live[0], rules, now_s)
        if workload_object.status.phase in ENDS:
            self._live.pop(name, None)
        else:
            self._live[name] = uid, workload_object
        try:
            events = list(events_of(uid, name, workload_object, now_s))
            queued += [state.id for state in rules if state.take(events, workload_object.spec, uid, name)]
        except Exception:  # noqa: BLE001 - one workload that fails keeps no other from being told of
            _LOG.exception("notification_event_failed", workload=name)
        return queued
