"""Changes of the pool's node and its GPUs: drained for maintenance, and back."""

import asyncio
import threading
from collections.abc import Callable

from structlog import get_logger

from weir.control.port import NodeDrained
from weir.local.server.authorization import Person
from weir.local.server.gpu_drain import GpuDrains, read_gpu_drains, write_gpu_drains
from weir.local.server.node_drain import REASON_MAX, NodeDrain, read_drain, write_drain
from weir.local.server.pool_state import PoolState
from weir.local.server.problem_details import RequestRefused
from weir.service.control_thread import ControlThread
from weir.store import HistoryEvent

_LOG = get_logger(__name__)


class NodeChanges:
    """Changes of a pool's node, one at a time. Belongs to the event loop, but for its GPUs' faults."""

    def __init__(self, pool: PoolState, control_thread: ControlThread) -> None:
        self._pool = pool
        self._control_thread = control_thread
        self._lock = asyncio.Lock()
        self._gpus_lock = threading.Lock()
        self._gpus = GpuDrains()

    def begin(self) -> None:
        """Tell the backend the state that an earlier server kept."""
        drain = read_drain(self._pool.home)
        if drain is not None:
            self._tell(drain)
        self._tell_gpus(read_gpu_drains(self._pool.home, self._pool.node.gpus))

    async def drain(self, name: str, reason: str, keeps_running: bool, person: Person) -> None:
        """Start nothing on a node, and stop its workloads unless they may run on."""
        drain = NodeDrain(
            user=person.user, at_s=self._pool.clock(), reason=reason, keeps_running=keeps_running
        )
        await self._change(name, drain)
        others = "running workloads run on" if keeps_running else "its workloads stop and wait"
        because = f" ({reason})" if reason else ""
        self._add_event(f"{person.user} drains {name}{because}: {others}.", person, name)

    async def undrain(self, name: str, person: Person) -> None:
        """Let workloads start on a node again."""
        await self._change(name, None)
        self._add_event(f"{person.user} lets workloads start on {name} again.", person, name)

    async def drain_gpu(self, name: str, index: int, reason: str, person: Person) -> None:
        """Start nothing on a GPU; the work that it runs goes on."""
        await self._change_gpu(
            name,
            index,
            NodeDrain(user=person.user, at_s=self._pool.clock(), reason=reason, keeps_running=True),
        )
        because = f" ({reason})" if reason else ""
        self._add_event(f"{person.user} drains GPU {index} of {name}{because}.", person, name, gpu=index)

    def drain_faulty_gpu(self, index: int, fault: str) -> None:
        """Start nothing on a GPU that can't be trusted; the work that it runs goes on. From any thread.

        Raises:
            OSError: the state of the node can't be written; nothing is started on the GPU all the same.
        """
        name = self._pool.node.name
        _LOG.warning("gpu_faulty", gpu=index, fault=fault)
        reason = f"{fault}, as its driver reports"[:REASON_MAX]
        sentence = f"Weir drains GPU {index} of {name}: {reason}. What it runs goes on."
        numbers = {"node": name, "gpu": index}
        self._pool.user_events.append(HistoryEvent(self._pool.clock(), "node", sentence, numbers=numbers))
        self._set_gpu(
            index, NodeDrain(user="weir", at_s=self._pool.clock(), reason=reason, keeps_running=True)
        )

    async def undrain_gpu(self, name: str, index: int, person: Person) -> None:
        """Let workloads start on a GPU again."""
        await self._change_gpu(name, index, None)
        sentence = f"{person.user} lets workloads start on GPU {index} of {name} again."
        self._add_event(sentence, person, name, gpu=index)

    async def _change(self, name: str, drain: NodeDrain | None) -> None:
        self.require(name)
        async with self._lock:
            await _written(lambda: write_drain(self._pool.home, drain))
            self._tell(drain)

    async def _change_gpu(self, name: str, index: int, drain: NodeDrain | None) -> None:
        self.require(name)
        gpus = self._pool.node.gpus
        if not 0 <= index < gpus:
            raise RequestRefused(404, f"{name} has no GPU {index}; its GPUs are 0 to {gpus - 1}.")
        await _written(lambda: self._set_gpu(index, drain))

    def _set_gpu(self, index: int, drain: NodeDrain | None) -> None:
        with self._gpus_lock:
            drains = self._gpus.changed(index, drain)
            if drain is not None:
                self._tell_gpus(drains)  # nothing starts, even if the disk is full
            write_gpu_drains(self._pool.home, drains)
            self._tell_gpus(drains)

    def require(self, name: str) -> None:
        """Refuse the name of an unknown node.

        Raises:
            RequestRefused: there is no such node.
        """
        if name != self._pool.node.name:
            raise RequestRefused(404, f"There is no node {name[:80]}; `weir nodes` shows which there are.")

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

    def _add_event(self, sentence: str, person: Person, name: str, **more: int) -> None:
        numbers = {"user": person.user, "node": name, **more}
        self._pool.user_events.append(HistoryEvent(self._pool.clock(), "node", sentence, numbers=numbers))
        self._control_thread.wake()


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
