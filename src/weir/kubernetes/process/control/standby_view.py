"""View of a standby replica: control follows the facts, decides nothing, and writes nothing.

So every replica answers questions about the cluster, whichever the API server reaches.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from weir.control.loop import Control
from weir.control.port import Effect, Fact
from weir.engine.cache import EngineCache
from weir.engine.plan import Plan
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.process.control.renewal import LOOK_EVERY_S, is_outgrown
from weir.kubernetes.query.cluster.summary import ClusterSummary, SchedulableDemand, cluster_summary
from weir.model.policy import Policy
from weir.service.control_thread import BeginAgain, ControlThread
from weir.state.cluster import Cluster

NUMBERS_EVERY_S = 3.0
WAITS_S = 5.0
"""Time without the lease after which a replica follows the facts. Before, it may be about to lead."""


class FactsOnly:
    """Passes the facts of a backend on, and carries no effect out: the port of a standby."""

    def __init__(self, backend: KubernetesBackend) -> None:
        self._backend = backend

    def events(self) -> Iterable[Fact]:
        """Yield the facts since the last call without queueing any writes."""
        return self._backend.facts_only()

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry out nothing: the leader does."""


class StandbyView:
    """The view of a replica while it waits for the lease. All calls are on the event loop."""

    def __init__(
        self,
        backend: KubernetesBackend,
        policy: Callable[[], Policy],
        clock: Callable[[], float],
        *,
        between_s: float,
    ) -> None:
        self._backend = backend
        self._policy = policy
        self._clock = clock
        self._between_s = between_s
        self.thread: ControlThread | None = None
        self.numbers = ClusterSummary()

    async def until(self, leads: Coroutine[Any, Any, None]) -> None:
        """Follow the facts until this replica leads."""
        task = asyncio.create_task(leads)
        try:
            await asyncio.wait([task], timeout=WAITS_S)
            if not task.done():
                hooks = StandbyHooks(self._backend, self._policy, self._clock, self._keep)
                self.thread = ControlThread(hooks, self._clock, between_s=self._between_s)
                self.thread.start()
            await task
        finally:
            task.cancel()
            await self.close()

    async def close(self) -> None:
        """Stop following."""
        thread, self.thread = self.thread, None
        if thread is not None:
            await asyncio.to_thread(thread.close)
            self._backend.leave()

    def _keep(self, numbers: ClusterSummary) -> None:
        self.numbers = numbers


class StandbyHooks:
    """Hooks around the steps of a standby's control."""

    def __init__(
        self,
        backend: KubernetesBackend,
        policy: Callable[[], Policy],
        clock: Callable[[], float],
        keep: Callable[[ClusterSummary], None],
    ) -> None:
        self._backend = backend
        self._policy = policy
        self._clock = clock
        self._keep = keep
        self._control: Control | None = None
        self._changes = -1
        self._numbers_next_s = self._size_looked_s = 0.0

    def connect(self) -> Control:
        """Return a control that decides nothing, whose next facts are the whole state."""
        self._backend.connect()
        self._changes = -1
        port = FactsOnly(self._backend)
        self._control = Control(port, self._policy(), self._clock, decide=_nothing)
        return self._control

    def before_step(self, now_s: float) -> None:
        """Apply a changed policy; begin again if most rows of the state are unused."""
        control = self._control
        if control is None:
            return
        if control.policy is not self._policy():
            control.policy = self._policy()
        if now_s >= self._size_looked_s + LOOK_EVERY_S:
            self._size_looked_s = now_s
            if is_outgrown(control.cluster, len(self._backend.cluster_state.resolver.marks)):
                raise BeginAgain

    def after_step(self, control: Control, now_s: float) -> None:
        """Do nothing."""

    def on_idle(self, control: Control, now_s: float) -> float | None:
        """Count, if anything has changed since the last count."""
        cluster = control.cluster
        changes = self._changed(cluster)
        if changes != self._changes and now_s >= self._numbers_next_s:
            self._changes = changes
            view = self._backend.queue_view()
            runnable = SchedulableDemand.of(cluster, view, {})
            self._keep(cluster_summary(cluster, self._policy(), now_s, view, runnable, {}))
            self._numbers_next_s = self._clock() + NUMBERS_EVERY_S
        times = [self._backend.due_s]
        if self._changed(cluster) != self._changes:
            times.append(self._numbers_next_s)
        due_s = min((time_s for time_s in times if time_s is not None), default=None)
        if self._backend.due_s is not None and self._backend.due_s <= now_s:
            self._backend.wake()
        return due_s

    def _changed(self, cluster: Cluster) -> int:
        return cluster.changes + self._backend.cluster_state.quota_objects.changes


def _nothing(_cluster: Cluster, _policy: Policy, _now_s: float, _cache: EngineCache) -> Plan:
    return Plan()
