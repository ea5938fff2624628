"""Hooks around the steps of the pool's control loop, all on the control thread.

A new control rebuilds the view. After a step its events are stored and published, and pending reasons are
brought up to date. Once a minute usage is summed up.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence

from weir.api.answers import Answer, QueueRow
from weir.api.workload_list import EvictionRow
from weir.control.loop import Control
from weir.control.port import CancelRequested, Effect, EndWorkload, Fact
from weir.local.records import persistent_clock
from weir.local.server.changes.cancellations import Cancellations
from weir.local.server.control.array_feed import ArrayFeed
from weir.local.server.output.job_warnings import write_warnings
from weir.local.server.state.pool_state import PoolState
from weir.local.server.submissions import submission_checks
from weir.local.server.submissions.project_secrets import ProjectSecrets
from weir.local.server.submissions.start_conditions import StartGates
from weir.local.server.sweeps.controller import SweepController
from weir.local.server.views.pool_view import ENDED_MAX
from weir.service.pending_reasons import PendingReasons
from weir.service.queue_rows import node_rows, queue_rows
from weir.state.cluster import Cluster
from weir.store.errors import StoreFailed
from weir.store.records import HistoryEvent
from weir.store.store import Store

MINUTE_S = 60.0
STARTED_AFTER_S = 0.1
"""Delay before started pods are checked; only the display depends on it."""
REASONS_SENT_MAX = 64
"""Rows sent live because nothing but their reason changed, in one turn."""


class _ObservedBackend:
    """Backend whose facts and effects the view and the event log observe."""

    def __init__(
        self, pool: PoolState, secrets: ProjectSecrets, cancellations: Cancellations, sweeps: SweepController
    ) -> None:
        self._pool = pool
        self._secrets = secrets
        self._cancellations = cancellations
        self._sweeps = sweeps
        self.connects = True

    def events(self) -> Iterable[Fact]:
        facts = self._sweeps.recorder.after(list(self._pool.backend.events()))
        facts += self._secrets.after(facts)
        if self.connects:  # facts that couldn't be stored are missing in the new state
            self.connects = False
            stops = self._cancellations.facts()
            named = {fact.workload for fact in stops}
            facts = [
                fact for fact in facts if not (isinstance(fact, CancelRequested) and fact.workload in named)
            ]
            facts += stops
        self._pool.event_log.facts(facts)
        self._pool.view.facts(facts)
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        ending = frozenset(effect.workload for effect in effects if isinstance(effect, EndWorkload))
        if ending:  # earlier events have to be stored before an end
            self._pool.record(self._pool.event_log.take(ending))
        self._pool.backend.apply(effects)
        self._pool.view.effects(effects)
        self._pool.event_log.effects(effects)


class PoolControlHooks:
    """Brings view, store and gates up to date around each step of control."""

    def __init__(
        self,
        pool: PoolState,
        secrets: ProjectSecrets,
        cancellations: Cancellations,
        gates: StartGates,
        arrays: ArrayFeed,
        sweeps: SweepController,
    ) -> None:
        self._pool = pool
        self._sweeps = sweeps
        self._secrets = secrets
        self._cancellations = cancellations
        self._gates = gates
        self._arrays = arrays
        self._reasons = PendingReasons(pool.view.reasons)
        self._next_minute_s = 0.0
        self._over: deque[tuple[str, int]] = deque()  # workloads that ended last, whose curves are kept
        self._queue_rows: dict[str, QueueRow] = {}
        self._queues_next_s = 0.0
        self._queues_changes = -1
        self._control: Control | None = None
        self._joined = 0  # number of readers at the last full send

    def connect(self) -> Control:
        """Create a new control, and build the view for it."""
        pool = self._pool
        self._cancellations.make_space()
        now_s = pool.clock()
        nodes = pool.inventory.nodes
        records = pool.store.journal.workloads()
        self._secrets.begin(records)
        self._arrays.begin()
        self._sweeps.connected()
        self._gates.begin([*records, *pool.view.arrays.not_begun()])
        evictions = {} if pool.view.workloads else _stored_evictions(pool.store)
        pool.view.begin(
            records, lambda workload: submission_checks.requested_devices(workload, nodes), evictions
        )
        pool.backend.connect()
        pool.event_log.begin(now_s)
        pool.counters.connected_s = now_s
        readers = (pool.view, pool.activity_view, pool.event_log, pool.counters, pool.meter)
        control = self._control = Control(
            _ObservedBackend(pool, self._secrets, self._cancellations, self._sweeps),
            pool.policy,
            pool.clock,
            readers=readers,
            isolates_faults=True,
        )
        pool.meter.watch(control.cluster, pool.store.samples.sampled_s() or now_s)
        return control

    def before_step(self, now_s: float) -> None:
        """Prepare a step.

        Raises:
            StoreFailed: another server may be the pool's by now, so nothing may be decided.
        """
        lost = self._pool.store.lost
        if lost is not None:
            raise StoreFailed(lost)
        control = self._control
        if control is not None and control.policy is not self._pool.policy:
            control.policy = self._pool.policy  # the learned headroom may have changed it
        self._pool.event_log.step(now_s)

    def after_step(self, control: Control, now_s: float) -> None:  # noqa: ARG002 - part of the protocol
        """Record and publish the results of a step."""
        events = self._pool.event_log.take()
        self._pool.record(events)
        write_warnings(events, self._pool.backend.pods)
        self._send_rows()
        self._secrets.after_step()

    def _send_rows(self) -> None:
        pool = self._pool
        rows = pool.view.publish()
        pool.counters.ended(rows)
        changed = pool.view.arrays.note(rows)
        shown = [pool.view.with_reason(row) for row in pool.view.arrays.shown(rows)] if changed else rows
        self._gates.changed([*rows, *shown] if changed else rows)
        self._sweeps.changed(rows)
        pool.stream.send([("workload", row, None) for row in shown])
        for uid in changed:
            self._arrays.wake(uid)
        for row in rows:
            if row.ended_s is not None:
                self._over.append((row.name, row.uid))
        while len(self._over) > ENDED_MAX:
            name, uid = self._over.popleft()
            if (progress := pool.reported.get(name)) is not None and progress.uid == uid:
                del pool.reported[name]

    def on_idle(self, control: Control, now_s: float) -> float | None:
        """Update reasons, queue rows and, once a minute, sums of usage; return the time of the next call."""
        pool = self._pool
        _ = pool.clock.ahead_s  # reading it reports a jump of the wall clock
        cluster = control.cluster
        changed = self._reasons.update(control, now_s)
        if pool.stream.readers:
            rows = (pool.view.row(name) for name in changed[:REASONS_SENT_MAX])
            shown = pool.view.arrays.shown(row for row in rows if row is not None)
            pool.stream.send([("workload", pool.view.with_reason(row), None) for row in shown])
            self._send_queues(cluster, now_s)
        if now_s >= self._next_minute_s:
            if self._next_minute_s:
                pool.store.samples.add(pool.meter.take(now_s))
                pool.store.tokens.write_uses()
            self._next_minute_s = (now_s // MINUTE_S + 1) * MINUTE_S
            persistent_clock.keep(pool.home, pool.clock)
            self._cancellations.make_space()
            self._cancellations.reserve.restore()
            pool.disk_trouble = self._cancellations.reserve.trouble
        pool.record(())
        times = [now_s if self._reasons.is_behind else self._next_minute_s]
        gate_s = self._gates.turn(now_s)
        if gate_s is not None:
            times.append(gate_s)
        if pool.view.starting:
            pool.view.run_now(pool.backend.pods())
            self._send_rows()
        if pool.view.starting:
            times.append(now_s + STARTED_AFTER_S)
        if pool.stream.readers and cluster.changes != self._queues_changes:
            times.append(self._queues_next_s)
        return min(times)

    def _send_queues(self, cluster: Cluster, now_s: float) -> None:
        """Publish rows of queues and nodes that changed, at a bounded rate."""
        pool = self._pool
        if pool.stream.joined != self._joined:
            self._joined, self._queues_changes, self._queue_rows = pool.stream.joined, -1, {}
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
        pool.stream.send(changes)
        self._queues_next_s = now_s + max(1.0, 20 * (time.perf_counter() - started))


def _stored_evictions(store: Store) -> dict[int, EvictionRow]:
    """Return the last eviction of each live workload as stored, by number: a new server shows it again."""
    return {event.uid: _eviction(event) for event in store.events.last_evictions() if event.uid is not None}


def _eviction(event: HistoryEvent) -> EvictionRow:
    def text(name: str) -> str | None:
        value = event.numbers.get(name)
        return value if isinstance(value, str) else None

    return EvictionRow(
        at_s=event.at_s,
        rule=text("rule") or "",
        sentence=text("cause") or event.sentence,
        by=text("by"),
        by_user=text("by_user"),
        by_project=text("by_project"),
        choice=text("choice") or "",
    )
