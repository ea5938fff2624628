"""Writes the statuses of rules, one write at a time for each rule."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable

import msgspec
from structlog import get_logger

from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.errors import ApiError, Conflict, NotFound
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.notification_objects import PLURAL
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.notifications.rule_state import RuleState
from weir.kubernetes.writes.leader_guard import LeaderGuard, NotLeading

PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
"""Time after a failure: the first one, and at most."""
_LOG = get_logger(__name__)


class RuleStatusWriter:
    """Writes statuses while the guard's term lasts."""

    def __init__(self, guard: LeaderGuard) -> None:
        self._guard = guard
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pause_s, self._not_before_s = PAUSE_S, 0.0

    async def save(self, state: RuleState) -> None:
        """Write the status of a rule if it has changed.

        Raises:
            ApiError: it can't be written now; it stays changed.
        """
        async with self._locks[state.uid]:
            if not state.is_changed:
                return
            state.is_changed = False
            body = {"metadata": {"uid": state.uid}, "status": msgspec.to_builtins(state.status)}
            path = path_of(API_VERSION, PLURAL, state.namespace, state.name, "status")
            try:
                await self._guard.patch(path, body, Patch.MERGE, ApiObject)
            except (NotFound, Conflict):
                pass  # it is gone, or another one has its name: the watch drops it
            except BaseException:
                state.is_changed = True
                raise

    async def save_changed(self, states: Iterable[RuleState]) -> None:
        """Write all changed statuses; those that can't be written now are tried again later."""
        if time.monotonic() < self._not_before_s:
            return
        try:
            for state in states:
                await self.save(state)
        except NotLeading:
            return
        except ApiError as error:
            _LOG.warning("notification_status_not_written", why=str(error))
            self._not_before_s = time.monotonic() + self._pause_s
            self._pause_s = min(PAUSE_S_MAX, 2 * self._pause_s)
            return
        self._pause_s = PAUSE_S
