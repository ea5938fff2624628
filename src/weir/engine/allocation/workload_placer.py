"""Workload placement: open nodes of a pending workload, and placements of its pods.

Nodes are closed to a workload where others have waited longer for them. Limits on one GPU model bind work
that names none, too: a gang uses nodes that its limits open to all of its pods. If no model's limit covers
the whole gang, its pods are placed one by one within the limits of each.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from weir.engine.cache import EngineCache
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import both, pods_that_fit
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.placement.outages import OutageRules
from weir.engine.placement.placer import Placer, in_order
from weir.engine.placement.pod_placer import NodePlacement, PlacementRequest
from weir.engine.placement.reservation import Reservation, expected_runtime_s, reservations
from weir.engine.placement.topology_levels import missing_topology
from weir.engine.placement.topology_placer import TopologyPlacer
from weir.engine.quota.quota_checks import QuotaChecks, is_bound_by_quotas
from weir.engine.refusals.refusals import DomainPatienceRefusal, ModelLimitRefusal, ReservationRefusal
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.shapes import GPU_ROW


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
        self._reservations: list[Reservation] | None = None

    def open_nodes(self, candidate: Candidate) -> Bools | None:
        """Return the nodes whose reservations a candidate would not violate; None for all nodes."""
        within = None
        for reservation in () if self._reservations == [] else self._applying(candidate):
            free = reservation.spare >= -(-candidate.queued.step.gpu_milli // WHOLE_MILLI)
            within = both(within, free)
        return within

    def note_placed(self, candidate: Candidate, placements: Sequence[NodePlacement]) -> None:
        """Count placements of a workload against the reservations of others, and end its own."""
        if not self._reservations:
            return
        for reservation in self._applying(candidate):
            for _, node, devices in placements:
                reservation.spare[node] -= len(devices)
        self._reservations = [
            reservation for reservation in self._reservations if reservation.job is not candidate.job
        ]

    def _applying(self, candidate: Candidate) -> list[Reservation]:
        """Return the reservations of others that block a workload.

        There are none if it is over quota or ends before they begin.
        """
        job = candidate.job
        if job.preemptible and not self._checks.in_quota(candidate):
            return []
        others = [reservation for reservation in self._all() if reservation.job is not job]
        ends_s = self._cluster.changed_s + expected_runtime_s(self._cluster, job) if others else 0.0
        return [reservation for reservation in others if ends_s > reservation.at_s]

    def _all(self) -> list[Reservation]:
        if self._reservations is None:
            cluster, feasibility = self._cluster, self._cache.feasibility
            late_s = self._now_s - self._policy.reserve_after
            late = [
                queued
                for queued in cluster.waiting.values()
                if queued.first.waits_since_s <= late_s
                and self._checks.in_quota(Candidate(queued, 0))
                and feasibility.could_run(queued)
                and not (self._outages and self._outages.barring(queued.first))
            ]
            kept = self._cache.reserved
            if late and (kept is None or kept[0] != late):
                fresh = reservations(cluster, feasibility, self._capacity, late, cluster.changed_s)
                kept = self._cache.reserved = late, fresh
            self._reservations = kept[1] if late and kept is not None else []
        return self._reservations


class WorkloadPlacer:
    """Places workloads with respect to reservations, limits of GPU models, and topologies."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        checks: QuotaChecks,
        cache: EngineCache,
        capacity: Capacity,
        now_s: float,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._checks = checks
        self._feasibility = cache.feasibility
        self._now_s = now_s
        self.outages = OutageRules(cluster, policy, now_s)
        self.reserved = ReservedNodes(cluster, policy, checks, cache, capacity, self.outages, now_s)
        self._nodes_of: dict[Job, list[int]] = {}  # nodes of placed workloads with a topology

    def place(self, candidate: Candidate, placer: Placer) -> list[NodePlacement] | None:
        """Return placements by the workload's topology; None if it doesn't fit.

        A gang waits for its preferred level before it is scattered over several domains.
        """
        if not self.outages:
            return self._place(candidate, placer)
        with self.outages.withheld(placer.capacity, candidate.job):
            return self._place(candidate, placer)

    def _place(self, candidate: Candidate, placer: Placer) -> list[NodePlacement] | None:
        job, checks = candidate.job, self._checks
        placements, several = self._place_in_open(candidate, placer), sum(map(bool, candidate.lacks)) > 1
        if placements is not None:
            # Nodes of a GPU model that one group names are open to the other groups, too
            if not several or checks.placed_refusal(job, placements) is None:
                return placements
            for placement in placements:
                placer.capacity.release(placement.node, placement.pod.shape, placement.devices)
        elif sum(candidate.lacks) == 1 or not checks.models_shut(job, candidate.request):
            return None
        return self._place_by_pod(candidate, placer) if job.topology is None else None

    def _place_in_open(self, candidate: Candidate, placer: Placer) -> list[NodePlacement] | None:
        """Return placements on nodes that are open to all of its pods; None if they don't fit."""
        job, within = candidate.job, self.open_to(candidate)
        affinity = self._feasibility.affinity(job)
        if job.topology is None:
            return placer.place(PlacementRequest(job, candidate.pods(), affinity, within))
        if missing_topology(self._cluster.topologies, job.topology) is not None:
            return None
        levels, nodes = self._feasibility.levels(job.topology.name), self._nodes_of.get(job, ())
        topology_placer = TopologyPlacer(placer, job, affinity, levels, within, placed_on=nodes)
        return topology_placer.place(candidate.pods(), self.may_scatter(job, candidate.lacks))

    def _place_by_pod(self, candidate: Candidate, placer: Placer) -> list[NodePlacement] | None:
        """Return placements one by one, each within the bounds of GPU models.

        Pods that name a model come first. None, with the capacity unchanged, if they don't fit.
        """
        job, pods, within = candidate.job, candidate.pods(), self._unreserved_and_in_service(candidate)
        affinity, left = self._feasibility.affinity(job), self._checks.models_left(job)
        placements: list[NodePlacement] = []
        with placer.capacity.trial() as trial:
            for group in sorted(
                in_order(job, pods), key=lambda group: not job.shapes[group].request.gpu_models
            ):
                milli = sum([amount for row, amount in job.requests[group] if row == GPU_ROW])
                for pod in pods[group]:
                    shut = frozenset([model for model, have in left.items() if have < milli])
                    open_ = both(self._feasibility.nodes_without(shut), within)
                    node = placer.best_node(pod.shape, affinity, open_)
                    if node < 0:
                        return None
                    placements.append(placer.put(pod, node, affinity))
                    node_spec = self._cluster.nodes[node]
                    if node_spec is not None and node_spec.gpu_model in left:
                        left[node_spec.gpu_model] -= milli
            trial.commit()
        return placements

    def note_placed(self, candidate: Candidate, placements: Sequence[NodePlacement]) -> None:
        """Subtract placements from the reservations of others, and end the workload's own."""
        job = candidate.job
        if job.topology is not None:
            self._nodes_of.setdefault(job, []).extend(placement.node for placement in placements)
        self.reserved.note_placed(candidate, placements)

    def forget(self, job: Job) -> None:
        """Forget the placements of a workload that will be placed elsewhere."""
        self._nodes_of.pop(job, None)

    def refusal(self, candidate: Candidate) -> ModelLimitRefusal | ReservationRefusal | None:
        """Return why a workload may not use free capacity that it fits; None if it lacks a common domain."""
        if shut := self._checks.models_shut(candidate.job, candidate.request):
            return ModelLimitRefusal(tuple(sorted(shut)), is_bound_by_quotas(candidate.job))
        return ReservationRefusal() if self.reserved.open_nodes(candidate) is not None else None

    def patience_refusal(self, candidate: Candidate) -> DomainPatienceRefusal | None:
        """Return the preferred level for which a gang waits rather than scatter; None if it may."""
        job, topology = candidate.job, candidate.job.topology
        if topology is None or topology.preferred is None or self.may_scatter(job, candidate.lacks):
            return None
        return DomainPatienceRefusal(topology.preferred, job.waits_since_s + self._policy.topology.patience)

    # Nodes

    def open_to(self, candidate: Candidate) -> Bools | None:
        """Return the nodes that a workload may use now; None for all.

        Nodes reserved for others are excluded, and nodes that go out of service before it would end. So are
        nodes of a GPU model that its queues' limits don't cover.
        """
        within = self._unreserved_and_in_service(candidate)
        return both(within, self._checks.open_nodes(candidate.job, candidate.request))

    def _unreserved_and_in_service(self, candidate: Candidate) -> Bools | None:
        """Return nodes without others' reservations and without an outage too soon; None for all."""
        in_service = self.outages.open_nodes(candidate.job) if self.outages else None
        return both(self.reserved.open_nodes(candidate), in_service)

    # Topology

    def may_scatter(self, job: Job, lacks: Sequence[int]) -> bool:
        """Return True if a gang has waited long enough for its preferred level, or fits no domain of it."""
        waited_s = self._now_s - job.waits_since_s
        if sum(lacks) == 1 or waited_s >= self._policy.topology.patience:
            return True
        return not _fits_one_domain(self._cluster, self._feasibility, job)

    def is_scattered(self, job: Job, places: Iterable[NodePlacement | Pod]) -> bool:
        """Return True if placements are in several domains of the job's preferred level."""
        asked = job.topology
        if asked is None or asked.preferred is None:
            return False
        domain_of = self._feasibility.level(asked.name, asked.preferred).domain_of
        return len({int(domain_of[place.node]) for place in places}) > 1


def _fits_one_domain(cluster: Cluster, feasibility: FeasibilityCache, job: Job) -> bool:
    """Return True if a domain of the job's preferred level could hold all its pods on an empty cluster.

    Each group is checked by itself. If no domain could, waiting for one is useless.
    """
    asked = job.topology
    if asked is None or asked.preferred is None or missing_topology(cluster.topologies, asked) is not None:
        return True
    affinity = feasibility.affinity(job)
    key = tuple(shape.id for shape in job.shapes), tuple(job.needed), asked, affinity
    is_possible = feasibility.one_domain.get(key)
    if is_possible is None:
        level = feasibility.level(asked.name, asked.preferred)
        fits = np.ones(level.count, np.bool_)
        for shape, need in zip(job.shapes, job.needed, strict=True):
            pods = pods_that_fit(feasibility.empty_capacity(), shape)
            fits &= level.sums(np.where(feasibility.feasible_nodes(shape, affinity)[0], pods, 0)) >= need
        is_possible = feasibility.one_domain[key] = bool(fits.any())
    return is_possible
