"""Changes of the pool's node and its GPUs: drained, now or at a time, and back."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from structlog import get_logger

from weir.api.maintenance import DrainAsked, GpuDrainAsked, Running
from weir.control.clock import in_utc
from weir.control.port import CancelRequested, NodeDrained
from weir.local.server.access.authorization import Person
from weir.local.server.changes.cancellations import Cancellations
from weir.local.server.changes.maintenance import Maintenance
from weir.local.server.home.gpu_drain import GpuDrains, read_gpu_drains, write_gpu_drains
from weir.local.server.home.maintenance_windows import MaintenanceWindow
from weir.local.server.home.node_drain import REASON_MAX, NodeDrain, read_drain, write_drain
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.state.pool_state import PoolState
from weir.service.control_thread import ControlThread, ControlUnavailable
from weir.state.cluster import Cluster
from weir.store.errors import NoSuchWorkload, WorkloadOver

_LOG = get_logger(__name__)
_FATES = {
    "evict": "its workloads stop and wait",
    "finish": "running workloads run on",
    "stop": "its workloads are ended",
}


class NodeChanges:
    """Changes of a pool's node, one at a time. Belongs to the event loop, but for its GPUs' faults."""

    def __init__(self, pool: PoolState, control_thread: ControlThread, cancellations: Cancellations) -> None:
        self._pool = pool
        self._control_thread = control_thread
        self._cancellations = cancellations
        self.maintenance = Maintenance(pool, self._drain_due)
        self._lock = asyncio.Lock()
        self._gpus_lock = threading.Lock()
        self._gpus = GpuDrains()

    def begin(self) -> None:
        """Pass the stored state of an earlier server to the backend."""
        drain = read_drain(self._pool.home)
        if drain is not None:
            self._tell(drain)
        self._tell_gpus(read_gpu_drains(self._pool.home, self._pool.node.gpus))
        self.maintenance.begin()

    async def drain(
        self, name: str, asked: DrainAsked | GpuDrainAsked, person: Person, gpu: int | None = None
    ) -> None:
        """Drain a node, or one GPU of it, now or from a time on.

        Raises:
            RequestRefused: the node or GPU is unknown, or a drain for later only would begin now.
        """
        self.require(name, gpu)
        evicts = isinstance(asked, DrainAsked) and not asked.keep_running
        running: Running = asked.running or ("evict" if evicts else "finish")
        at_s = self._time_of(asked)
        if at_s is None:
            if asked.later_only:
                now_s = self._pool.clock.on_wall(self._pool.clock())
                raise RequestRefused(409, f"The drain would begin now: it is {in_utc(now_s)}.")
            await self._drain(gpu, running, asked.reason, person.user)
        else:
            await self.maintenance.drain_at(at_s, gpu, asked.reason, running, person)

    async def undrain(self, name: str, person: Person, gpu: int | None = None) -> None:
        """Let workloads start on a node or a GPU again; an announced drain of it is withdrawn."""
        self.require(name, gpu)
        await self.maintenance.cancel_drain(gpu)
        await self._set(gpu, None)
        self._add_event(f"{person.user} lets workloads start on {self._named(gpu)} again.", person.user, gpu)

    def drain_faulty_gpu(self, index: int, fault: str) -> None:
        """Drain a faulty GPU; its workloads continue. Any thread may call it.

        Raises:
            OSError: the state can't be stored; even then nothing is started on the GPU.
        """
        _LOG.warning("gpu_faulty", gpu=index, fault=fault)
        reason = f"{fault}, as its driver reports"[:REASON_MAX]
        sentence = f"Weir drains {self._named(index)}: {reason}. Its workloads go on."
        self._pool.add_pool_event("node", sentence, node=self._pool.node.name, gpu=index)
        self._set_gpu(
            index, NodeDrain(user="weir", at_s=self._pool.clock(), reason=reason, keeps_running=True)
        )

    async def workloads_on(self, gpu: int | None) -> list[str]:
        """Return the workloads that hold resources on the node, or on one GPU of it.

        Raises:
            RequestRefused: the control loop can't answer now.
        """
        try:
            return await asyncio.wrap_future(
                self._control_thread.query(lambda cluster: _workloads_on(cluster, gpu))
            )
        except ControlUnavailable as error:
            raise RequestRefused(503, f"The pool makes no decisions now: {error}") from None

    def require(self, name: str, gpu: int | None = None) -> None:
        """Check that a node exists, and a GPU with this index on it.

        Raises:
            RequestRefused: there is no such node or GPU.
        """
        gpus = self._pool.node.gpus
        if name != self._pool.node.name:
            raise RequestRefused(404, f"There is no node {name[:80]}; `weir nodes` shows which there are.")
        if gpu is not None and not 0 <= gpu < gpus:
            raise RequestRefused(404, f"{name} has no GPU {gpu}; its GPUs are 0 to {gpus - 1}.")

    async def _drain_due(self, window: MaintenanceWindow) -> None:
        """Carry out an announced drain whose time has come."""
        for gpu in (None,) if window.gpus is None else window.gpus:
            if gpu is None or gpu < self._pool.node.gpus:  # it may have been removed after the announcement
                await self._drain(gpu, window.running, window.reason, window.user)

    async def _drain(self, gpu: int | None, running: Running, reason: str, user: str) -> None:
        drain = NodeDrain(user=user, at_s=self._pool.clock(), reason=reason, keeps_running=running != "evict")
        await self._set(gpu, drain)
        because = f" ({reason})" if reason else ""
        self._add_event(f"{user} drains {self._named(gpu)}{because}: {_FATES[running]}.", user, gpu)
        if running == "stop":
            await self._end_workloads(gpu, user)

    async def _end_workloads(self, gpu: int | None, user: str) -> None:
        """End the workloads on the node, or on one GPU of it, for good."""
        for name in await self.workloads_on(gpu):
            fact = CancelRequested(name, self._pool.clock(), user)
            try:
                await self._cancellations.withdraw(fact, lambda _workload, _uid: None)
            except (NoSuchWorkload, WorkloadOver):
                continue  # it has ended by itself

    def _time_of(self, asked: DrainAsked | GpuDrainAsked) -> float | None:
        """Return the time of an announced drain on the wall clock; None for a drain now."""
        now_s = self._pool.clock.on_wall(self._pool.clock())
        at_s = now_s + asked.after if asked.after is not None else asked.at_s
        return None if at_s is None or at_s <= now_s else at_s

    async def _set(self, gpu: int | None, drain: NodeDrain | None) -> None:
        """Store and pass on that the node or a GPU is drained; None: the drain ends."""
        if gpu is not None:
            await _written(lambda: self._set_gpu(gpu, drain))
            return
        async with self._lock:
            await _written(lambda: write_drain(self._pool.home, drain))
            self._tell(drain)

    def _set_gpu(self, index: int, drain: NodeDrain | None) -> None:
        with self._gpus_lock:
            drains = self._gpus.changed(index, drain)
            if drain is not None:
                self._tell_gpus(drains)  # effective even if the disk is full
            write_gpu_drains(self._pool.home, drains)
            self._tell_gpus(drains)

    def _tell(self, drain: NodeDrain | None) -> None:
        pool = self._pool
        if drain is None:
            pool.backend.drain(None)
        else:
            pool.backend.drain(NodeDrained(pool.node.name, drain.at_s, drain.sentence, drain.keeps_running))

    def _tell_gpus(self, drains: GpuDrains) -> None:
        self._gpus = drains
        self._pool.drained_gpus = drains.sentences()
        self._pool.backend.close_devices(tuple(sorted(drains.gpus)), drained=True)
        name = self._pool.node.name
        evicting = [
            NodeDrained(name, drain.at_s, drain.sentence, devices=(index,))
            for index, drain in sorted(drains.gpus.items())
            if not drain.keeps_running
        ]
        self._pool.backend.evict_from_gpus(tuple(evicting))

    def _named(self, gpu: int | None) -> str:
        return self._pool.node.name if gpu is None else f"GPU {gpu} of {self._pool.node.name}"

    def _add_event(self, sentence: str, user: str, gpu: int | None) -> None:
        of_gpu: dict[str, Any] = {} if gpu is None else {"gpu": gpu}
        self._pool.add_pool_event("node", sentence, user=user, node=self._pool.node.name, **of_gpu)


def _workloads_on(cluster: Cluster, gpu: int | None) -> list[str]:
    pods = [pod for on in cluster.pods_on for pod in on if gpu is None or gpu in pod.devices]
    return list(dict.fromkeys([pod.job.name for pod in pods]))


async def _written(write: Callable[[], None]) -> None:
    """Store a state in a thread.

    Raises:
        RequestRefused: the state can't be stored.
    """
    try:
        await asyncio.to_thread(write)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise RequestRefused(503, f"The state of the node can't be written: {why}.") from None
