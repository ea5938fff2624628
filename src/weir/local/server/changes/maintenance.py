"""Maintenance windows of the pool's node, and drains at a time: announced, begun and over.

The engine and control heed announced times by themselves. This module acts every few seconds on changes of
time alone: a drain that is due, a window that is over, and a wall clock that was set.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from structlog import get_logger

from weir.api.maintenance import MaintenanceAsked, MaintenanceRow
from weir.control.clock import in_utc
from weir.local.server.access.authorization import Person
from weir.local.server.home.maintenance_windows import (
    FILE,
    WINDOWS_MAX,
    MaintenanceWindow,
    MaintenanceWindows,
    read_windows,
    write_windows,
)
from weir.local.server.http.problem_details import FieldErrors, RequestRefused
from weir.local.server.state.pool_inventory import check_name
from weir.local.server.state.pool_state import PoolState
from weir.model.nodes import Outage

AHEAD_S_MAX = 10 * 366 * 86400.0
LOOKS_EVERY_S = 5.0
FORGET_S = 3600.0
"""Time after which a window that is over is forgotten: a wall clock that is wrong for a while ends none."""
_MOVED_S = 1.0
"""Least difference of times that is passed on after the wall clock was set."""
_DRAIN = "drain"
_LOG = get_logger(__name__)
Due = Callable[[MaintenanceWindow], Awaitable[None]]


class Maintenance:
    """Windows and drains at a time of a pool. Belongs to the event loop."""

    def __init__(self, pool: PoolState, drain_now: Due) -> None:
        """Create the windows, none at first. `drain_now` carries out a due drain."""
        self._pool = pool
        self._drain_now = drain_now
        self._lock = asyncio.Lock()
        self._windows = MaintenanceWindows()
        self._told: tuple[Outage, ...] = ()
        self._over_s: dict[str, float] = {}  # ended windows, with the time of the end on the timeline
        self.trouble: str | None = None

    def begin(self) -> None:
        """Pass the stored windows of an earlier server to the backend."""
        windows = read_windows(self._pool.home)
        if windows is None:
            self.trouble = f"The maintenance windows in {FILE} can't be read: announce them again."
        self._windows = windows or MaintenanceWindows()
        self._tell()

    async def watch(self) -> None:
        """Look every few seconds, for ever."""
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            try:
                await self.look()
            except (OSError, RuntimeError, RequestRefused) as error:
                _LOG.warning("maintenance_look_failed", kind=type(error).__name__, why=str(error))

    async def look(self) -> None:
        """Begin the drains that are due, and remove windows that are over."""
        async with self._lock:
            now_s = self._wall_s()
            for window in self._windows.windows:
                if window.is_drain and window.from_s <= now_s:
                    await self._drain_now(window)
                    await self._keep(self._windows.without(window.name))
                elif self._is_over(window):
                    await self._end(window)
                else:
                    self._over_s.pop(window.name, None)
            if self._have_moved():
                self._tell()

    def _is_over(self, window: MaintenanceWindow) -> bool:
        return window.until_s is not None and window.until_s <= self._wall_s()

    async def _end(self, window: MaintenanceWindow) -> None:
        """Report that a window is over; forget it some time later."""
        at_s = self._pool.clock()
        since_s = self._over_s.setdefault(window.name, at_s)
        if since_s == at_s:
            self._add_event(f"Maintenance window {window.name} is over: {window.sentence}.", None)
        elif at_s - since_s >= FORGET_S:
            await self._keep(self._windows.without(window.name))
            del self._over_s[window.name]

    async def add(self, asked: MaintenanceAsked, person: Person) -> MaintenanceRow:
        """Announce a window.

        Raises:
            RequestRefused: a time, a GPU or the name can't be, or the window has to be later and isn't.
        """
        async with self._lock:
            window = MaintenanceWindow(
                name=asked.name or self._new_name(),
                from_s=asked.from_s,
                until_s=asked.until_s,
                gpus=None if asked.gpus is None else tuple(sorted(set(asked.gpus))),
                reason=asked.reason,
                user=person.user,
                running="finish" if asked.running == "finish" else "evict",
            )
            self._check(window)
            if asked.later_only and window.from_s <= self._wall_s():
                raise RequestRefused(409, f"The window would begin now: it is {in_utc(self._wall_s())}.")
            await self._keep(self._present().with_(window))
        self._add_event(f"{person.user} announces {window.sentence}.", person)
        return self.row(window)

    async def remove(self, name: str, person: Person) -> None:
        """Withdraw a window, or end it if it has begun.

        Raises:
            RequestRefused: no window has this name.
        """
        async with self._lock:
            window = self._windows.get(name)
            if window is None:
                raise RequestRefused(
                    404,
                    f"There is no maintenance window {name[:80]}; `weir maintenance` shows which there are.",
                )
            await self._keep(self._windows.without(name))
        self._add_event(f"{person.user} withdraws {window.sentence}.", person)

    async def drain_at(
        self, at_s: float, gpu: int | None, reason: str, running: str, person: Person
    ) -> MaintenanceWindow:
        """Announce a drain of the node, or of one GPU; it replaces an earlier one.

        Raises:
            RequestRefused: the time is too far ahead, or there are too many windows.
        """
        if at_s > self._wall_s() + AHEAD_S_MAX:
            raise RequestRefused(422, "at_s: is more than ten years ahead; write an earlier time")
        window = MaintenanceWindow.model_validate(
            {
                "name": drain_name(gpu),
                "from_s": at_s,
                "gpus": None if gpu is None else (gpu,),
                "reason": reason,
                "user": person.user,
                "running": running,
            }
        )
        async with self._lock:
            if len(self._present().without(window.name).windows) >= WINDOWS_MAX:
                raise RequestRefused(
                    422, f"at_s: there are {WINDOWS_MAX} windows, and no more are kept; remove one"
                )
            await self._keep(self._present().with_(window))
        self._add_event(f"{person.user} announces {window.sentence}.", person)
        return window

    async def cancel_drain(self, gpu: int | None) -> None:
        """Withdraw the announced drain of the node or of one GPU, if there is one."""
        async with self._lock:
            if self._windows.get(drain_name(gpu)) is not None:
                await self._keep(self._windows.without(drain_name(gpu)))

    def rows(self) -> list[MaintenanceRow]:
        """Return the windows and drains at a time, soonest first."""
        return [self.row(window) for window in self._windows.windows if not self._is_over(window)]

    def row(self, window: MaintenanceWindow) -> MaintenanceRow:
        """Return a window as people see it."""
        return MaintenanceRow(
            name=window.name,
            node=self._pool.node.name,
            gpus=None if window.gpus is None else list(window.gpus),
            from_s=window.from_s,
            until_s=window.until_s,
            reason=window.reason,
            user=window.user,
            running=window.running,
            begun=window.from_s <= self._wall_s(),
        )

    def _check(self, window: MaintenanceWindow) -> None:
        fields, now_s, gpus = FieldErrors("The maintenance window"), self._wall_s(), self._pool.node.gpus
        check_name(window.name, fields)
        if window.name == _DRAIN or window.name.startswith(f"{_DRAIN}-gpu-"):
            fields.add(("name",), "name: this name is for drains at a time; write another")
        elif self._present().get(window.name) is not None:
            fields.add(("name",), f"name: there is a window {window.name}; write another, or delete that one")
        if window.until_s is not None and window.until_s <= max(window.from_s, now_s):
            wrong = "is over" if window.until_s <= now_s else "ends before it begins"
            text = f"until_s: the window {wrong}; it is {in_utc(now_s)} now"
            fields.add(("until_s",), text)
        if max(window.from_s, window.until_s or 0.0) > now_s + AHEAD_S_MAX:
            fields.add(("from_s",), "from_s: is more than ten years ahead; write an earlier time")
        for gpu in window.gpus or ():
            if gpu >= gpus:
                fields.add(("gpus",), f"gpus: {self._pool.node.name} has no GPU {gpu}; it has {gpus}")
        if len(self._present().windows) >= WINDOWS_MAX:
            fields.add(("name",), f"name: there are {WINDOWS_MAX} windows, and no more are kept; remove one")
        fields.refuse_if_any()

    def _present(self) -> MaintenanceWindows:
        """Return the windows; if their number is at its limit, without those that are over."""
        if len(self._windows.windows) < WINDOWS_MAX:
            return self._windows
        return self._windows.without(
            *[window.name for window in self._windows.windows if self._is_over(window)]
        )

    def _new_name(self) -> str:
        number = 1
        while self._windows.get(f"maintenance-{number}") is not None:
            number += 1
        return f"maintenance-{number}"

    async def _keep(self, windows: MaintenanceWindows) -> None:
        """Store the windows, and pass them to the backend.

        Raises:
            RequestRefused: the windows can't be stored.
        """
        try:
            await asyncio.to_thread(write_windows, self._pool.home, windows)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise RequestRefused(503, f"The maintenance windows can't be written: {why}.") from None
        self._windows, self.trouble = windows, None
        self._tell()

    def _outages(self) -> tuple[Outage, ...]:
        """Return the outages of existing GPUs; one may have been removed since the announcement."""
        gpus, outages = self._pool.node.gpus, []
        for window in self._windows.windows:
            outage = window.outage(self._pool.clock)
            if outage.devices is not None:
                outage = replace(outage, devices=tuple([gpu for gpu in outage.devices if gpu < gpus]))
            if outage.devices != ():
                outages.append(outage)
        return tuple(outages)

    def _have_moved(self) -> bool:
        """Return True if the wall clock was set since the backend received the times of windows."""
        now = self._outages()
        return len(now) != len(self._told) or any(
            abs(one.from_s - other.from_s) > _MOVED_S for one, other in zip(now, self._told, strict=True)
        )

    def _tell(self) -> None:
        self._told = self._outages()
        self._pool.backend.set_outages(self._told)

    def _wall_s(self) -> float:
        return self._pool.clock.on_wall(self._pool.clock())

    def _add_event(self, sentence: str, person: Person | None) -> None:
        by = {} if person is None else {"user": person.user}
        self._pool.add_pool_event("node", sentence, node=self._pool.node.name, **by)


def drain_name(gpu: int | None) -> str:
    """Return the name of an announced drain of the node, or of one GPU."""
    return _DRAIN if gpu is None else f"{_DRAIN}-gpu-{gpu}"
