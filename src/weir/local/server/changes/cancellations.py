"""Cancellations by people. They also work on a full disk, which the job to be stopped may be filling.

A cancellation is written, then carried out. If it can't be written, it is carried out first, from memory.
The reserve is released only once no process of the job is left that could fill it: then the job's end fits
on the disk. That also holds for a cancellation for which the disk had just enough space left.
"""

import asyncio
from collections.abc import Callable, Sequence

from structlog import get_logger

from weir.control.port import CancelRequested
from weir.local.files.disk_reserve import DiskReserve
from weir.local.server.state.pool_state import PoolState
from weir.model.workloads import Workload
from weir.store.errors import NoSuchWorkload, StoreFailed, WorkloadOver

AGAIN_S = 0.25
ANSWERED_AFTER_S = 5.0
"""Time after which a stop that can't be stored yet is answered: it is carried out, and stored later."""
_LOG = get_logger(__name__)


class Cancellations:
    """Requests to stop workloads of a pool. Only `facts` and `make_space` may run outside the event loop."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self.reserve = DiskReserve(pool.home)
        self._unwritten: dict[str, CancelRequested] = {}
        # By uid of workloads that had not ended at the last check
        self._written: dict[int, CancelRequested] = {}
        self._why = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def trouble(self) -> str | None:
        """Return a sentence about stops that aren't stored in the database yet; None if all are."""
        if not self._unwritten:
            return None
        names = ", ".join(sorted(self._unwritten)[:4])
        return f"{self._why} The stop of {names} is carried out, but not stored yet."

    def facts(self) -> Sequence[CancelRequested]:
        """Return the stops of workloads that aren't over: the store lacks some, and the users of the rest."""
        return [*self._written_stops(), *self._unwritten.copy().values()]

    def _written_stops(self) -> list[CancelRequested]:
        """Return the stored stops of workloads that aren't over; forget the others."""
        live = {line.uid for line in tuple(self._pool.view.workloads.values())}
        for uid in tuple(self._written):
            if uid not in live:
                self._written.pop(uid, None)
        return list(self._written.copy().values())

    def make_space(self) -> None:
        """Release the reserve if the disk is full and a stopped workload only lacks its stored end."""
        stops = self._written_stops()
        for fact in stops if self.reserve.trouble else ():
            if self._pool.backend.is_quiet(fact.workload) and self.reserve.release():
                _LOG.warning("reserve_released", workload=fact.workload)

    async def withdraw(self, fact: CancelRequested, confirmed: Callable[[Workload, int], None]) -> int:
        """Cancel a workload; return its number. `confirmed` is called once the cancellation is certain.

        Raises:
            StoreFailed: the cancellation can't be stored, and the workload seems to be over.
            NoSuchWorkload, WorkloadOver: the store's refusals.
        """
        name, line = fact.workload, self._pool.view.workloads.get(fact.workload)
        try:
            record = await asyncio.wrap_future(self._pool.store.workloads.cancel(name, fact.at_s))
        except StoreFailed as error:
            if line is None or self._pool.closing:
                raise
            self._why = str(error)
        else:
            self._written[record.launch.uid] = fact
            confirmed(record.workload, record.launch.uid)
            self._pool.tell(fact)
            return record.launch.uid
        _LOG.warning("stop_not_written_down", workload=name, why=self._why)
        self._unwritten[name] = fact
        confirmed(line.spec, line.uid)
        self._pool.backend.tell(fact)
        task = asyncio.create_task(self._write(fact))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait([task], timeout=ANSWERED_AFTER_S)
        return line.uid

    def close(self) -> None:
        """Write pending cancellations, as far as possible, before the store closes."""
        for fact in list(self._unwritten.values()):
            self.reserve.release()
            try:
                self._pool.store.workloads.cancel(fact.workload, fact.at_s).result()
            except (StoreFailed, NoSuchWorkload, WorkloadOver) as error:
                _LOG.warning("stop_not_written_down", workload=fact.workload, why=str(error))

    async def _write(self, fact: CancelRequested) -> None:
        """Store a stop as soon as the disk has space."""
        while not self._pool.closing:
            if self._pool.backend.is_quiet(fact.workload) and self.reserve.release():
                _LOG.warning("reserve_released", workload=fact.workload)
            try:
                record = await asyncio.wrap_future(
                    self._pool.store.workloads.cancel(fact.workload, fact.at_s)
                )
            except StoreFailed:
                await asyncio.sleep(AGAIN_S)
            except (NoSuchWorkload, WorkloadOver):
                break  # its end was stored meanwhile
            else:
                self._written[record.launch.uid] = fact
                break
        self._unwritten.pop(fact.workload, None)
