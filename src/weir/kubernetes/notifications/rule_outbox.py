"""The outbox of all rules for the sender, which has a thread of its own.

Every call is carried out on the event loop, which owns the rules. A new message is written to its rule
before its first attempt, and its outcome after each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from typing import Any, TypeVar

from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.notifications.receiver_secrets import ReceiverSecrets
from weir.kubernetes.notifications.rule_state import RuleState
from weir.model.notifications import Claim, NotificationRule, OutboxMessage
from weir.notifications.receiver_address import NoAddress, ReceiverAddress

ANSWER_S = 30.0
T = TypeVar("T")
GONE = NoAddress("its rule is gone")


class RuleOutbox:
    """Outbox and addresses of the rules by their numbers.

    `save` writes the status of a rule, and `check` raises ApiError if this replica doesn't lead any more.
    """

    def __init__(
        self,
        save: Callable[[RuleState], Awaitable[None]],
        check: Callable[[], None],
        addresses: ReceiverSecrets,
    ) -> None:
        self.rules: dict[int, RuleState] = {}
        self.on_queued: Callable[[Collection[int]], None] = lambda _: None
        self._save = save
        self._check = check
        self._addresses = addresses
        self._loop = asyncio.get_running_loop()

    # Calls from any thread

    def rule(self, id_: int) -> NotificationRule | None:
        """Return a rule; None if it was deleted, or can't be read."""
        state = self.rules.get(id_)
        return None if state is None or state.unreadable else state.rule

    def waiting(self) -> Sequence[int]:
        """Return the rules with something to send."""
        return [state.id for state in list(self.rules.values()) if state.status.pending]

    def claim(self, rule: NotificationRule, now_s: float) -> Claim:
        """Return the message that is due, after it was written into its rule.

        Raises:
            OSError: it can't be written now, or this replica doesn't lead any more.
        """
        return self._result(self._claim(rule.id, now_s))

    def delivered(self, message: OutboxMessage, at_s: float) -> "Future[None]":
        """Store that a receiver has confirmed a message."""
        return self._change(message, lambda state: state.conclude(message.key, at_s, ""))

    def retry(self, message: OutboxMessage, due_s: float, error: str) -> "Future[None]":
        """Store that an attempt failed, and when the next one is due."""
        return self._change(message, lambda state: state.retry(message.key, due_s, error))

    def give_up(self, message: OutboxMessage, at_s: float, error: str) -> "Future[None]":
        """Store that a message isn't tried again."""
        return self._change(message, lambda state: state.conclude(message.key, at_s, error))

    def get(self, key: str) -> ReceiverAddress | NoAddress:
        """Return the address of the rule with this number.

        Raises:
            OSError: the API server doesn't answer now.
        """
        return self._result(self._address(int(key)))

    def _result(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work on the event loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(ANSWER_S)
        except TookTooLong:
            future.cancel()
            raise OSError("the API server doesn't answer") from None

    def _change(self, message: OutboxMessage, change: Callable[[RuleState], None]) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(self._changed(message.rule, change), self._loop)

    # Calls on the event loop

    async def _claim(self, id_: int, now_s: float) -> Claim:
        state = self.rules.get(id_)
        if state is None:
            return Claim()
        claim = state.claim(now_s)
        if claim.message is not None:
            await self._written(state)
            try:
                self._check()  # a restarted leader must not write a stored message twice
            except ApiError as error:
                raise OSError(str(error)) from None
        return claim

    async def _changed(self, id_: int, change: Callable[[RuleState], None]) -> None:
        """Change a rule. A status that can't be written now is written later: the change is in memory."""
        state = self.rules.get(id_)
        if state is not None:
            change(state)
            await self._written(state)

    async def _written(self, state: RuleState) -> None:
        try:
            await self._save(state)
        except ApiError as error:
            raise OSError(str(error)) from None

    async def _address(self, id_: int) -> ReceiverAddress | NoAddress:
        state = self.rules.get(id_)
        return GONE if state is None else await self._addresses.read(state.namespace, state.spec)
