"""Headroom for sessions of a pool: learned from its history, and applied through its policy.

It is computed from the history each time, so a restart loses nothing. Weeks are counted on the timeline of
the server, which never jumps; a wall clock that is wrong shifts nothing but changes to summer time.
"""

import asyncio
from collections.abc import Callable

from structlog import get_logger

from weir.control.session_headroom import (
    WEEK_S,
    WEEKS_MAX,
    LearnedHeadroom,
    learned_headroom,
    summer_times_s,
    with_headroom,
)
from weir.local.server.state.pool_state import PoolState

LOOK_S = 300.0
_DAY_S = 86400.0
_LOG = get_logger(__name__)


class SessionHeadroom:
    """Keeps the headroom of a pool up to date. Belongs to the event loop."""

    def __init__(self, pool: PoolState, wake: Callable[[], None]) -> None:
        """Create it, inactive at first. `wake` tells control that the policy has changed."""
        self._pool = pool
        self._wake = wake
        self._policy = pool.policy  # without the learned part
        self.devices_max = 0
        self.learned: LearnedHeadroom | None = None

    async def watch(self) -> None:
        """Learn every few minutes, until cancelled; at once if it is switched off."""
        while self.devices_max:
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - the headroom stays as it was
                _LOG.warning("headroom_not_learned", kind=type(error).__name__, why=str(error))
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Learn from the history up to now, and have control keep this capacity free."""
        pool, now_s = self._pool, self._pool.clock()
        since_s = now_s - WEEKS_MAX * WEEK_S - _DAY_S
        starts, known_since_s = await asyncio.to_thread(pool.store.session_starts.since, since_s)
        before = self.learned
        self.learned = learned_headroom(
            starts,
            now_s=now_s,
            known_since_s=known_since_s,
            limit=min(self.devices_max, pool.node.gpus),
            offsets_s=summer_times_s(pool.clock.on_wall(now_s)),
        )
        devices = self.learned.devices
        if before is not None and before.devices == devices:
            return
        pool.policy = with_headroom(self._policy, devices, pool.node.gpus)
        _LOG.info("headroom_changed", gpus=devices, why=self.learned.sentence)
        self._wake()
