"""Order of workloads over quota by predicted run time, size and dominant share."""

from math import log

from weir.engine.queue_order import Candidate, RuntimeKeyOrder
from weir.engine.quota_overlay import QuotaOverlay
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job

DominantShares = dict[EquivalenceClass, tuple[tuple[int, int], float]]
"""Dominant share of each class with its request, and the version of its queue."""
_DOMINANT_MOST = 1e9
_CLASSES_KEPT = 64


class RuntimeOrder:
    """Keys of workloads: smaller first. `share_weight` is that of the dominant share.

    `kept` are dominant shares of earlier cycles.
    """

    def __init__(
        self, cluster: Cluster, overlay: QuotaOverlay, share_weight: float, kept: DominantShares
    ) -> None:
        self._cluster = cluster
        self._overlay = overlay
        self._share_weight = share_weight
        self._kept = kept
        if len(kept) > 2 * len(cluster.waiting) + _CLASSES_KEPT:
            kept.clear()  # most of these classes are no longer pending

    def key_of(self, candidate: Candidate) -> RuntimeKeyOrder:
        """Return the key of a candidate, then age and name."""
        job, of = candidate.job, candidate.of
        if candidate.request is of.step.request:
            value = self.pending_value(of, job)
        else:  # a later step of a workload that was placed
            value = self._value(job, job.ran_s, self._overlay.dominant(job.project, candidate.request)[0])
        return value, job.submitted_s, job.name

    def pending_value(self, of: EquivalenceClass, job: Job) -> float:
        """Return the value of a member of a class, for its next step."""
        version = self._overlay.version(of.project)
        kept = self._kept.get(of)
        if kept is not None and kept[0] == version:
            dominant = kept[1]
        else:
            dominant = self._overlay.dominant(of.project, of.step.request)[0]
            if version is not None:
                self._kept[of] = version, dominant
        return self._value(job, job.ran_s, dominant)

    def running_value(self, job: Job, ran_s: float) -> float:
        """Return the value of a running workload that has run for `ran_s`."""
        return self._value(job, ran_s, self._overlay.dominant(job.project)[0])

    def _value(self, job: Job, ran_s: float, dominant: float) -> float:
        """Return share_weight · dominant share + ln mean remaining run time + ln devices."""
        remaining_s = self._cluster.runtimes.remaining_s(job.like, ran_s)
        assert remaining_s is not None
        devices = max(job.devices_milli, 1) / WHOLE_MILLI
        return self._share_weight * min(dominant, _DOMINANT_MOST) + log(remaining_s) + log(devices)
