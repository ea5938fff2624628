"""Reserved nodes: closed to a candidate, because others have waited longer for them."""

from collections.abc import Sequence

from weir.engine.cache import EngineCache
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import both
from weir.engine.placement.outages import OutageRules
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.placement.reservation import Reservation, expected_runtime_s, reservations
from weir.engine.quota.quota_checks import QuotaChecks
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster


class ReservedNodes:
    """Reservations of one cycle, computed at their first use."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        checks: QuotaChecks,
        cache: EngineCache,
        capacity: Capacity,
        outages: OutageRules,
        now_s: float,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._checks = checks
        self._cache = cache
        self._capacity = capacity
        self._outages = outages
        self._now_s = now_s
        self._known: list[Reservation] | None = None

    def open_nodes(self, candidate: Candidate) -> Bools | None:
        """Return the nodes without a reservation that a candidate would use; None for all."""
        within = None
        for reservation in () if self._known == [] else self._applying(candidate):
            free = reservation.spare >= -(-candidate.of.step.gpu_milli // WHOLE_MILLI)
            within = both(within, free)
        return within

    def note_placed(self, candidate: Candidate, placements: Sequence[NodePlacement]) -> None:
        """Count placements of a workload against the reservations of others, and end its own."""
        if not self._known:
            return
        for reservation in self._applying(candidate):
            for _, node, devices in placements:
                reservation.spare[node] -= len(devices)
        self._known = [each for each in self._known if each.job is not candidate.job]

    def _applying(self, candidate: Candidate) -> list[Reservation]:
        """Return the reservations of others that bind it: none if it is preemptible or ends in time."""
        job = candidate.job
        if job.preemptible and not self._checks.in_quota(candidate):
            return []
        others = [each for each in self._all() if each.job is not job]
        ends_s = self._cluster.changed_s + expected_runtime_s(self._cluster, job) if others else 0.0
        return [each for each in others if ends_s > each.at_s]

    def _all(self) -> list[Reservation]:
        if self._known is None:
            cluster, feasibility = self._cluster, self._cache.feasibility
            late_s = self._now_s - self._policy.reserve_after
            late = [
                of
                for of in cluster.waiting.values()
                if of.first.waits_since_s <= late_s
                and self._checks.in_quota(Candidate(of, 0))
                and feasibility.could_run(of)
                and not (self._outages and self._outages.barring(of.first))
            ]
            kept = self._cache.reserved
            if late and (kept is None or kept[0] != late):
                found = reservations(cluster, feasibility, self._capacity, late, cluster.changed_s)
                kept = self._cache.reserved = late, found
            self._known = kept[1] if late and kept is not None else []
        return self._known
