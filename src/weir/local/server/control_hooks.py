"""What is done around the steps of control, all of it on the control thread.

A new control is made with the view beginning anew; after a step what happened is written down and sent to
those who watch; between steps reasons are found out, and once a minute what was held and used is summed up.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from weir.api.answers import Answer, QueueRow
from weir.control.loop import Control
from weir.control.port import Effect, EndWorkload, Fact
from weir.local import persistent_clock
from weir.local.server import submissions
from weir.local.server.job_warnings import write_warnings
from weir.local.server.pool_view import ENDED_MOST
from weir.service.pending_reasons import PendingReasons
from weir.service.queue_rows import node_rows, queue_rows
from weir.state.cluster import Cluster
from weir.store import StoreFailed

if TYPE_CHECKING:
    from weir.local.server.pool import PoolService

MINUTE_S = 60.0
STARTED_AFTER_S = 0.1
"""When to look whether pods that were started run: nothing hangs on it but what people see."""
REASONS_SENT_MOST = 64
"""Rows sent live because nothing but their reason changed, in one turn."""


class _ObservedBackend:
    """Shows the view and the story what passes between control and the backend."""

    def __init__(self, pool: "PoolService") -> None:
        self._pool = pool
        self.connects = True

    def events(self) -> Iterable[Fact]:
        facts = list(self._pool.backend.events())
        facts += self._pool.secrets.after(facts)
        if self.connects:  # what couldn't be written down isn't in the backend's picture
            self.connects = False
            facts += self._pool.withdrawals.facts()
        self._pool.story.facts(facts)
        self._pool.view.facts(facts)
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        ending = frozenset(each.workload for each in effects if isinstance(each, EndWorkload))
        if ending:  # ends are written down with their events: what led to them is to stand before
            self._pool.record(self._pool.story.take(ending))
        self._pool.backend.apply(effects)
        self._pool.view.effects(effects)
        self._pool.story.effects(effects)


class PoolControlHooks:
    """The household of the control thread."""

    def __init__(self, pool: "PoolService") -> None:
        self._pool = pool
        self._reasons = PendingReasons(pool.view.reasons)
        self._next_minute_s = 0.0
        self._over: deque[tuple[str, int]] = (
            deque()
        )  # that ended last, and of which is kept what they reported
        self._queue_rows: dict[str, QueueRow] = {}
        self._queues_next_s = 0.0
        self._queues_changes = -1

    def connect(self) -> Control:
        """A new control: the view begins anew too."""
        pool = self._pool
        now_s = pool.clock()
        nodes = pool.inventory.nodes
        kept = pool.store.journal.workloads()
        pool.secrets.begin(kept)
        pool.view.begin(kept, lambda workload: submissions.requested_devices(workload, nodes))
        pool.backend.connect()
        pool.story.begin(now_s)
        pool.tally.connected_s = now_s
        readers = (pool.view, pool.story, pool.tally, pool.meter)
        control = Control(
            _ObservedBackend(pool), pool.policy, pool.clock, readers=readers, isolates_faults=True
        )
        pool.meter.watch(control.cluster, pool.store.sampled_s() or now_s)
        return control

    def begins(self, now_s: float) -> None:
        """A step begins.

        Raises:
            StoreFailed: another server may be the pool's by now, so nothing may be decided.
        """
        lost = self._pool.store.lost
        if lost is not None:
            raise StoreFailed(lost)
        self._pool.story.step(now_s)

    def stepped(self, control: Control, now_s: float) -> None:  # noqa: ARG002 - what rests needs it
        """A step was carried out: tell of it."""
        told = self._pool.story.take()
        self._pool.record(told)
        write_warnings(told, self._pool.backend.pods)
        self._send_rows()
        self._pool.secrets.stepped()

    def _send_rows(self) -> None:
        pool = self._pool
        rows = pool.view.publish()
        pool.tally.ended(rows)
        pool.hub.send([("workload", row, None) for row in rows])
        for row in rows:
            if row.ended_s is not None:
                pool.uses.pop(row.name, None)
                self._over.append((row.name, row.uid))
        while len(self._over) > ENDED_MOST:
            name, uid = self._over.popleft()
            if (said := pool.reported.get(name)) is not None and said.uid == uid:
                del pool.reported[name]

    def rests(self, control: Control, now_s: float) -> float | None:
        """Between steps: reasons, rows of queues for the stream, and once a minute what was used."""
        pool = self._pool
        _ = pool.clock.ahead_s  # a jump of the wall clock is noticed, and told, here at the latest
        cluster = control.cluster
        changed = self._reasons.turn(cluster, pool.policy, now_s)
        if pool.hub.readers:
            rows = (pool.view.row(name) for name in changed[:REASONS_SENT_MOST])
            pool.hub.send([("workload", row, None) for row in rows if row is not None])
            self._send_queues(cluster, now_s)
        if now_s >= self._next_minute_s:
            if self._next_minute_s:
                pool.store.sample(pool.meter.take(now_s))
                pool.store.write_token_uses()
            self._next_minute_s = (now_s // MINUTE_S + 1) * MINUTE_S
            persistent_clock.keep(pool.home, pool.clock)
            pool.withdrawals.reserve.restore()
            pool.disk_trouble = pool.withdrawals.reserve.trouble
        pool.record(())
        times = [self._next_minute_s, self._reasons.due_s(cluster)]
        if pool.view.starting:
            pool.view.run_now(pool.backend.pods())
            self._send_rows()
        if pool.view.starting:
            times.append(now_s + STARTED_AFTER_S)
        if pool.hub.readers and cluster.changes != self._queues_changes:
            times.append(self._queues_next_s)
        return min(time_s for time_s in times if time_s is not None)

    def _send_queues(self, cluster: Cluster, now_s: float) -> None:
        """Rows of queues and nodes that changed, at most once in a while."""
        pool = self._pool
        if cluster.changes == self._queues_changes or now_s < self._queues_next_s:
            return
        started = time.perf_counter()
        self._queues_changes = cluster.changes
        running, pending = pool.view.counts()
        rows = queue_rows(cluster, pool.policy, now_s, running, pending)
        changes: list[tuple[str, Answer, str | None]] = [
            ("queue", row, None) for name, row in rows.items() if self._queue_rows.get(name) != row
        ]
        self._queue_rows = rows
        changes += [("node", row, None) for row in node_rows(cluster, pool.device_use)]
        pool.hub.send(changes)
        self._queues_next_s = now_s + max(1.0, 20 * (time.perf_counter() - started))
