"""Changes of the pool's node: drained for maintenance, and back."""

import asyncio

from weir.control.port import NodeDrained
from weir.local.server.auth import Person
from weir.local.server.node_drain import NodeDrain, read_drain, write_drain
from weir.local.server.pool_state import PoolState
from weir.local.server.problem_details import RequestRefused
from weir.service.control_thread import ControlThread
from weir.store import HistoryEvent


class NodeChanges:
    """Changes of a pool's node, one at a time. Belongs to the event loop."""

    def __init__(self, pool: PoolState, control_thread: ControlThread) -> None:
        self._pool = pool
        self._control_thread = control_thread
        self._lock = asyncio.Lock()

    def begin(self) -> None:
        """Tell the backend the state that an earlier server kept."""
        drain = read_drain(self._pool.home)
        if drain is not None:
            self._tell(drain)

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

    async def _change(self, name: str, drain: NodeDrain | None) -> None:
        self.require(name)
        async with self._lock:
            try:
                await asyncio.to_thread(write_drain, self._pool.home, drain)
            except OSError as error:
                why = error.strerror or type(error).__name__
                raise RequestRefused(503, f"The state of the node can't be written: {why}.") from None
            self._tell(drain)

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

    def _add_event(self, sentence: str, person: Person, name: str) -> None:
        numbers = {"user": person.user, "node": name}
        self._pool.user_events.append(HistoryEvent(self._pool.clock(), "node", sentence, numbers=numbers))
        self._control_thread.wake()
