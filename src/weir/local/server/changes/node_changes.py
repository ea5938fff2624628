"""Changes of the pool's node and its GPUs: drained, now or at a time, and back."""

import asyncio
import threading
from collections.abc import Callable

from structlog import get_logger

from weir.api.maintenance import DrainAsked, GpuDrainAsked, Running
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
from weir.store.records import HistoryEvent

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
        """Tell the backend the state that an earlier server kept."""
        drain = read_drain(self._pool.home)
        if drain is not None:
            self._tell(drain)
        self._tell_gpus(read_gpu_drains(self._pool.home, self._pool.node.gpus))
        self.maintenance.begin()

    async def drain(self, name: str, asked: DrainAsked, person: Person) -> None:
        """Drain a node, now or from a time on."""
        self.require(name)
        running: Running = asked.running or ("finish" if asked.keep_running else "evict")
        at_s = self._time_of(asked)
        if at_s is not None:
            await self.maintenance.drain_at(at_s, None, asked.reason, running, person)
            return
        await self._drain(running, asked.reason, person.user)
        self._control_thread.wake()

    async def undrain(self, name: str, person: Person) -> None:
        """Let workloads start on a node again; an announced drain of it is withdrawn."""
        self.require(name)
        await self.maintenance.cancel_drain(None)
        await self._change(None)
        self._add_event(f"{person.user} lets workloads start on {name} again.", person.user)

    async def drain_gpu(self, name: str, index: int, asked: GpuDrainAsked, person: Person) -> None:
        """Drain a GPU, now or from a time on."""
        self.require(name, index)
        running: Running = asked.running or "finish"
        at_s = self._time_of(asked)
        if at_s is not None:
            await self.maintenance.drain_at(at_s, index, asked.reason, running, person)
            return
        await self._drain_gpu(index, running, asked.reason, person.user)

    def drain_faulty_gpu(self, index: int, fault: str) -> None:
        """Drain a faulty GPU; its workloads continue. Any thread may call it.

        Raises:
            OSError: the state of the node can't be written; nothing is started on the GPU all the same.
        """
        name = self._pool.node.name
        _LOG.warning("gpu_faulty", gpu=index, fault=fault)
        reason = f"{fault}, as its driver reports"[:REASON_MAX]
        sentence = f"Weir drains GPU {index} of {name}: {reason}. Its workloads go on."
        numbers = {"node": name, "gpu": index}
        self._pool.user_events.append(HistoryEvent(self._pool.clock(), "node", sentence, numbers=numbers))
        self._set_gpu(
            index, NodeDrain(user="weir", at_s=self._pool.clock(), reason=reason, keeps_running=True)
        )

    async def undrain_gpu(self, name: str, index: int, person: Person) -> None:
        """Let workloads start on a GPU again; an announced drain of it is withdrawn."""
        self.require(name, index)
        await self.maintenance.cancel_drain(index)
        await _written(lambda: self._set_gpu(index, None))
        sentence = f"{person.user} lets workloads start on GPU {index} of {name} again."
        self._add_event(sentence, person.user, gpu=index)

    async def workloads_on(self, gpu: int | None) -> list[str]:
        """Return the workloads that hold something on the node, or on one GPU of it.

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
        """Refuse the name of an unknown node, or the index of an unknown GPU of it.

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
        if window.gpus is None:
            await self._drain(window.running, window.reason, window.user)
        for gpu in window.gpus or ():
            if gpu >= self._pool.node.gpus:
                continue  # the GPU was removed after the announcement
            await self._drain_gpu(gpu, window.running, window.reason, window.user)

    async def _drain(self, running: Running, reason: str, user: str) -> None:
        drain = NodeDrain(user=user, at_s=self._pool.clock(), reason=reason, keeps_running=running != "evict")
        await self._change(drain)
        because = f" ({reason})" if reason else ""
        name = self._pool.node.name
        self._add_event(f"{user} drains {name}{because}: {_FATES[running]}.", user)
        if running == "stop":
            await self._end_workloads(None, user)

    async def _drain_gpu(self, index: int, running: Running, reason: str, user: str) -> None:
        drain = NodeDrain(user=user, at_s=self._pool.clock(), reason=reason, keeps_running=running != "evict")
        await _written(lambda: self._set_gpu(index, drain))
        because = f" ({reason})" if reason else ""
        sentence = f"{user} drains GPU {index} of {self._pool.node.name}{because}: {_FATES[running]}."
        self._add_event(sentence, user, gpu=index)
        if running == "stop":
            await self._end_workloads(index, user)

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

    async def _change(self, drain: NodeDrain | None) -> None:
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

    def _add_event(self, sentence: str, user: str, **more: int) -> None:
        numbers = {"user": user, "node": self._pool.node.name, **more}
        self._pool.user_events.append(HistoryEvent(self._pool.clock(), "node", sentence, numbers=numbers))
        self._control_thread.wake()


def _workloads_on(cluster: Cluster, gpu: int | None) -> list[str]:
    pods = [pod for on in cluster.pods_on for pod in on if gpu is None or gpu in pod.devices]
    return list(dict.fromkeys([pod.job.name for pod in pods]))


async def _written(write: Callable[[], None]) -> None:
    """Write a state in a thread.

    Raises:
        RequestRefused: it can't be written.
    """
    try:
        await asyncio.to_thread(write)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise RequestRefused(503, f"The state of the node can't be written: {why}.") from None
