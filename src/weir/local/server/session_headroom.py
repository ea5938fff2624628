"""Headroom for sessions of a pool: learned from its history, and carried out by its policy.

It is computed from the history each time, so a restart loses nothing. Weeks are counted on the timeline of
the server, which never jumps; a wall clock that is wrong shifts nothing but changes to summer time.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from structlog import get_logger

from weir.control.session_headroom import (
    WEEK_S,
    WEEKS_MAX,
    LearnedHeadroom,
    learned_headroom,
)
from weir.local.server.pool_state import PoolState

LOOK_S = 300.0
_DAY_S = 86400.0
_LOG = get_logger(__name__)


class SessionHeadroom:
    """Keeps the headroom of a pool up to date. Belongs to the event loop."""

    def __init__(self, pool: PoolState, wake: Callable[[], None]) -> None:
        """Create it switched off; `wake` has control follow the policy."""
        self._pool = pool
        self._wake = wake
        self._policy = pool.policy  # without what is learned
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
        part = (devices + 0.5) / max(1, pool.node.gpus) if devices else 0.0  # rounded down to whole devices
        fraction = min(1.0, max(self._policy.reserve_fraction, part))
        pool.policy = self._policy.model_copy(update={"reserve_fraction": fraction})
        _LOG.info("headroom_changed", gpus=devices, why=self.learned.sentence)
        self._wake()


def summer_times_s(now_wall_s: float) -> list[float]:
    """Return for each past week how much later this hour of the day was then, counted without the clock."""
    now_s = _offset_s(now_wall_s)
    return [now_s - _offset_s(now_wall_s - week * WEEK_S) for week in range(1, WEEKS_MAX + 1)]


def _offset_s(wall_s: float) -> float:
    offset = datetime.fromtimestamp(wall_s).astimezone().utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
