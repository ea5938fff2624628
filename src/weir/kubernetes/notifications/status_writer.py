"""Writes the statuses of rules, one write at a time for each rule."""

import time
from collections.abc import Iterable

import msgspec
from structlog import get_logger

from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.errors import ApiError, NotFound, is_of_one_object
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.notification_objects import PLURAL
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.notifications.rule_state import RuleState
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard, NotLeading

PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
"""Pauses after failures: the first one, and the longest, which follows a refused status."""
WRITE_EVERY_S = 10.0
"""Time between two writes of a rule that nothing waits for: each has its whole status."""
_LOG = get_logger(__name__)


class RuleStatusWriter:
    """Writes statuses while the guard's term lasts."""

    def __init__(self, guard: LeaderGuard) -> None:
        self._guard = guard
        self._pause_s, self._not_before_s = PAUSE_S, 0.0

    async def save(self, state: RuleState) -> None:
        """Write the status of a rule if it has changed.

        Raises:
            ApiError: it can't be written now; it stays changed.
        """
        async with state.writing:
            if not state.is_changed:
                return
            state.is_changed = False
            unwritten, state.unwritten = state.unwritten, set()
            body = {"metadata": {"uid": state.uid}, "status": msgspec.to_builtins(state.status)}
            path = path_of(API_VERSION, PLURAL, state.namespace, state.name, "status")
            try:
                await self._guard.patch(path, body, Patch.MERGE, ApiObject)
            except NotFound:
                pass  # the rule was deleted: the watch removes it
            except BaseException:
                state.is_changed = True
                state.unwritten |= unwritten
                raise

    async def save_changed(self, states: Iterable[RuleState], *, at_once: bool = False) -> None:
        """Write changed statuses that are due; those that can't be written now are tried again later.

        `at_once`: write those that were written a moment ago too.
        """
        now_s = time.monotonic()
        if now_s < self._not_before_s:
            return
        for state in states:
            rests = state.rests_until_s > now_s and not at_once
            if not state.is_changed or rests or state.write_after_s > now_s:
                continue
            state.rests_until_s = now_s + WRITE_EVERY_S
            try:
                await self.save(state)
            except NotLeading:
                return
            except ApiError as error:
                state.rests_until_s = 0.0
                _LOG.warning("notification_status_not_written", rule=state.key, why=str(error))
                if not is_of_one_object(error):
                    self._not_before_s = time.monotonic() + self._pause_s
                    self._pause_s = min(PAUSE_S_MAX, 2 * self._pause_s)
                    return
                state.write_after_s = time.monotonic() + PAUSE_S_MAX
        self._pause_s = PAUSE_S
