"""Sender of notifications: its own thread and event loop, away from control and from requests.

Each rule has at most one message on its way. A receiver that fails gets pauses that double, with jitter; its
messages stay in the outbox. Receivers that failed last share a small number of places, so that the others
never wait for them.

A sender that fails itself begins again with the outbox, after a pause.
"""

import asyncio
import math
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from structlog import get_logger

from weir.control.clock import Clock
from weir.control.token_bucket import TokenBucket, TokenBuckets, TokenRate
from weir.model.notifications import Claim, NotificationRule, OutboxMessage
from weir.model.resources import span
from weir.notifications.channels import Attempt, Channels, DeliveryProblem, unusable_authorities
from weir.notifications.notification_settings import NotificationSettings, read_password
from weir.notifications.quiet_hours import quiet_for_s
from weir.notifications.receiver_address import AddressBook, NoAddress, ReceiverAddress

SENT_TOGETHER_MAX = 64
"""Messages that are being sent at once to receivers whose last delivery succeeded."""
FAILING_TOGETHER_MAX = 16
"""Messages that are being sent at once to receivers whose last delivery failed."""
LOOK_S = 60.0
"""Maximum pause before all times are computed again: the wall clock may have been set."""
STORE_RETRY_S = 5.0
BUCKETS_MAX = 10_000
CLOSE_S = 2.0
RESTART_S, RESTART_S_MAX = 1.0, 300.0
"""Pause before a sender that has failed begins again: the first one, and at most. It doubles."""
STEADY_S = 60.0
"""Time without a failure after which the next pause of a sender is short again."""
FAILED = "Sending notifications has failed. It begins again after a pause; the log has the error."
MINUTE_S, HOUR_S = 60.0, 3600.0
_LOG = get_logger(__name__)


@dataclass(slots=True)
class _RuleSchedule:
    """State of a rule: the time of the next check for messages, and the receiver's failures in a row.

    New notifications bring the next look forward, but not before `blocked_s`.
    """

    due_s: float | None = None
    blocked_s: float = 0.0
    failures: int = 0
    is_busy: bool = False
    is_woken: bool = False


class MessageOutbox(Protocol):
    """Rules, and the messages that they have to send. Every method may be called from any thread.

    Each method that reads or writes storage raises OSError if the storage can't be used now.
    """

    on_queued: Callable[[Collection[int]], None]
    """Called with the rules that have new notifications; the sender sets it."""

    def rule(self, id_: int) -> NotificationRule | None:
        """Return a rule; None if it was deleted."""
        ...

    def waiting(self) -> Sequence[int]:
        """Return the rules with something to send."""
        ...

    def claim(self, rule: NotificationRule, now_s: float) -> Claim:
        """Return the message of a rule that is due, a new one if there is none and a digest is due."""
        ...

    def delivered(self, message: OutboxMessage, at_s: float) -> Future[None]:
        """Store that a receiver has confirmed a message."""
        ...

    def retry(self, message: OutboxMessage, due_s: float, error: str) -> Future[None]:
        """Store that an attempt failed, and when the next one is due."""
        ...

    def give_up(self, message: OutboxMessage, at_s: float, error: str) -> Future[None]:
        """Store that a message isn't tried again."""
        ...


class NotificationSender:
    """Sends the messages of an outbox."""

    def __init__(
        self,
        outbox: MessageOutbox,
        settings: NotificationSettings,
        addresses: AddressBook,
        clock: Clock,
        password: Callable[[Path], str] = read_password,
    ) -> None:
        """Create the sender. `password` reads the file with the password of the mail server."""
        self._outbox = outbox
        self._password = password
        self._settings = settings
        self._addresses = addresses
        self._clock = clock
        self._random = random.Random()  # noqa: S311 - spreads attempts
        self._schedules: dict[int, _RuleSchedule] = defaultdict(_RuleSchedule)
        limits = settings.limits
        self._mails = TokenBuckets(TokenRate(limits.mails_burst, limits.mails_per_hour / HOUR_S), BUCKETS_MAX)
        per_s = limits.messages_per_minute / MINUTE_S
        self._messages = TokenBuckets(TokenRate(limits.messages_burst, per_s), BUCKETS_MAX)
        per_s = limits.messages_per_second
        self._all = TokenBucket(TokenRate(max(1.0, per_s), per_s), monotonic())
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = threading.Event()
        self._has_failed, self._began_s = False, monotonic()
        self._main_task: asyncio.Task[None] | None = None
        self._begin_loop()
        self._thread = threading.Thread(target=self._run, name="weir-notify", daemon=True)

    # Calls from any thread

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()
        self._outbox.on_queued = self.wake

    def wake(self, rules: Collection[int]) -> None:
        """Look for messages of these rules soon."""
        self._call(self._woken, tuple(rules))

    def close(self) -> None:
        """Stop sending. The next server sends unfinished messages again, with the same keys."""
        self._outbox.on_queued = lambda _: None
        self._closed.set()
        if self._thread.is_alive():
            self._call(self._stop)
            self._thread.join(CLOSE_S)

    @property
    def trouble(self) -> str | None:
        """Return why nothing can be sent; None if messages are sent."""
        if not self._thread.is_alive():
            return "The thread that sends notifications has ended."
        return FAILED if self._has_failed and monotonic() - self._began_s < STEADY_S else None

    async def test(self, rule: NotificationRule, message: OutboxMessage) -> Attempt:
        """Deliver a message that isn't in the outbox, once, and return the outcome.

        It is called from another event loop.
        """
        work = self._test(rule, message)
        try:
            tested = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            return Attempt(FAILED, DeliveryProblem.RECEIVER)
        return await asyncio.wrap_future(tested)

    def _call(self, work: Callable[..., None], *args: object) -> None:
        """Schedule work on the loop. If the loop has ended, nothing is needed: a new one reads the outbox."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work, *args)

    # The sender's thread

    def _run(self) -> None:
        """Send until the sender is closed. A failure is logged, and the next loop begins after a pause."""
        pause_s = RESTART_S
        while True:
            try:
                if self._loop.is_closed():
                    self._begin_loop()
                self._loop.run_until_complete(self._main())
            except asyncio.CancelledError:
                pass
            except Exception:  # noqa: BLE001 - nothing else would send
                _LOG.exception("notification_sender_failed", again_in_s=pause_s)
            finally:
                self._loop.close()
            if monotonic() - self._began_s >= STEADY_S:
                pause_s = RESTART_S
            self._has_failed, self._began_s = True, math.inf
            if self._closed.wait(pause_s):
                return
            pause_s = min(RESTART_S_MAX, 2 * pause_s)

    def _begin_loop(self) -> None:
        self._schedules.clear()
        self._tasks.clear()
        self._main_task, self._news = None, asyncio.Event()
        self._loop, self._began_s = asyncio.new_event_loop(), monotonic()

    def _stop(self) -> None:
        if self._main_task is not None:
            self._main_task.cancel()

    def _woken(self, rules: Collection[int]) -> None:
        for rule in rules:
            schedule = self._schedules[rule]
            schedule.is_woken = True
            schedule.due_s = (
                schedule.blocked_s if schedule.due_s is None else min(schedule.due_s, schedule.blocked_s)
            )
        self._news.set()

    async def _main(self) -> None:
        if self._closed.is_set():
            return
        self._main_task = asyncio.current_task()
        self._healthy = asyncio.Semaphore(SENT_TOGETHER_MAX)
        self._failing = asyncio.Semaphore(FAILING_TOGETHER_MAX)
        self._channels = Channels(self._settings, self._clock, self._password)
        for why in unusable_authorities(self._settings):
            _LOG.warning("notification_settings_unusable", why=why)
        try:
            self._woken(await asyncio.to_thread(self._outbox.waiting))
            while True:
                await self._turn()
        except GeneratorExit:  # the loop is broken, so nothing can be awaited
            raise
        except BaseException:
            await self._end()
            raise

    async def _end(self) -> None:
        """Cancel the running attempts. After a failure they may finish first, so no message is sent twice."""
        try:
            if self._tasks and not self._closed.is_set():
                await asyncio.wait(self._tasks, timeout=3 * self._settings.limits.timeout)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._channels.close()

    async def _turn(self) -> None:
        """Start all due messages, then wait for the next time or a wake-up."""
        self._news.clear()
        now_s = self._clock()
        times = [now_s + LOOK_S]
        for rule, schedule in list(self._schedules.items()):
            if schedule.is_busy or schedule.due_s is None:
                continue
            if schedule.due_s <= now_s:
                self._begin(rule, schedule)
            else:
                times.append(schedule.due_s)
        try:
            async with asyncio.timeout(max(0.0, min(times) - now_s)):
                await self._news.wait()
        except TimeoutError:
            pass

    def _begin(self, rule: int, schedule: _RuleSchedule) -> None:
        schedule.is_busy, schedule.is_woken = True, False
        task = self._loop.create_task(self._look(rule, schedule))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, id_: int, schedule: _RuleSchedule) -> None:
        """Send one message of a rule if one is due, and set the time of the next check."""
        rule = None
        try:
            rule = self._outbox.rule(id_)
            schedule.due_s = None if rule is None else await self._send_one(rule, schedule)
        except OSError as error:
            _LOG.warning("notifications_wait", rule=id_, why=str(error))
            schedule.due_s = self._clock() + STORE_RETRY_S
        except Exception:  # noqa: BLE001 - one rule that fails keeps no other from being sent
            _LOG.exception("notification_failed", rule=id_)
            schedule.due_s = self._clock() + LOOK_S
        schedule.is_busy = False
        if schedule.is_woken and rule is not None:
            self._woken([id_])
        elif schedule.due_s is None:
            del self._schedules[id_]
        self._news.set()

    async def _send_one(self, rule: NotificationRule, schedule: _RuleSchedule) -> float | None:
        """Return the time of the next check; None if nothing is pending."""
        now_s = self._clock()
        quiet_s = quiet_for_s(rule.quiet, self._clock.on_wall(now_s))
        if quiet_s:
            schedule.blocked_s = now_s + min(quiet_s, LOOK_S)
            return schedule.blocked_s
        if rule.channel == "desktop":
            return None  # a desktop notification is fetched by its person's session
        async with self._failing if schedule.failures else self._healthy:
            address = await asyncio.to_thread(self._address, rule)
            wait_s = self._take(rule, address)
            if wait_s:
                schedule.blocked_s = self._clock() + wait_s
                return schedule.blocked_s
            claim = await asyncio.to_thread(self._outbox.claim, rule, self._clock())
            if claim.message is None:
                self._take(rule, address, -1.0)
                if claim.next_s is not None and rule.digest_s:
                    schedule.blocked_s = min(claim.next_s, self._clock() + rule.digest_s)
                return claim.next_s
            await self._pace()
            attempt = await self._channels.deliver(rule, address, claim.message)
        return await self._conclude(rule, claim.message, attempt, schedule)

    async def _conclude(
        self, rule: NotificationRule, message: OutboxMessage, attempt: Attempt, schedule: _RuleSchedule
    ) -> float:
        """Store the outcome of an attempt; return the time of the next check."""
        now_s, outbox = self._clock(), self._outbox
        if attempt.problem is None:
            schedule.failures = 0
            await asyncio.wrap_future(outbox.delivered(message, now_s))
            return now_s
        due_s = message.notifications[0].at_s + rule.digest_s if message.notifications else 0.0
        is_receivers = attempt.problem is DeliveryProblem.RECEIVER
        schedule.failures = schedule.failures + 1 if is_receivers else 0
        pause_s = self._pause_s(schedule.failures if is_receivers else message.attempts + 1)
        pause_s = max(pause_s, attempt.retry_after_s)
        if attempt.problem is DeliveryProblem.GONE or now_s - due_s >= self._settings.limits.give_up_after:
            await asyncio.wrap_future(outbox.give_up(message, now_s, attempt.sentence))
        else:
            await asyncio.wrap_future(outbox.retry(message, now_s + pause_s, attempt.sentence))
        _LOG.info("notification_not_delivered", rule=message.rule, message=message.key, why=attempt.sentence)
        if not is_receivers:
            return now_s
        schedule.blocked_s = now_s + pause_s
        return schedule.blocked_s

    async def _pace(self) -> None:
        """Wait before a message, so that many messages at once don't take the processor from control."""
        while (wait_s := self._all.take(monotonic())) > 0:  # noqa: ASYNC110
            await asyncio.sleep(wait_s)

    async def _test(self, rule: NotificationRule, message: OutboxMessage) -> Attempt:
        address = await asyncio.to_thread(self._address, rule)
        wait_s = self._take(rule, address)
        if wait_s:
            sentence = f"this receiver has got enough messages for now; try again in {span(wait_s)}"
            return Attempt(sentence, DeliveryProblem.RECEIVER)
        return await self._channels.deliver(rule, address, message)

    def _pause_s(self, failures: int) -> float:
        """Return a pause that doubles with each failure, with jitter."""
        limits = self._settings.limits
        longest_s = min(limits.retry_max, limits.retry_first * 2.0 ** min(failures - 1, 40))
        return longest_s * self._random.uniform(0.5, 1.0)

    def _address(self, rule: NotificationRule) -> ReceiverAddress | NoAddress | None:
        return self._addresses.get(rule.address_key) if rule.address_key else None

    def _take(
        self, rule: NotificationRule, address: ReceiverAddress | NoAddress | None, units: float = 1.0
    ) -> float:
        """Charge a message to the rate of a receiver, for all rules that name it; return the time to wait."""
        if rule.channel == "mail":
            return self._mails.take(rule.target.lower(), monotonic(), units)
        receiver = address.url if isinstance(address, ReceiverAddress) else rule.address_key
        return self._messages.take(receiver, monotonic(), units)
