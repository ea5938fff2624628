"""Order of workloads over quota by predicted run time, size and dominant share."""

from math import log

from weir.engine.queue_order import Candidate, RuntimeKeyOrder
from weir.engine.quota_overlay import QuotaOverlay
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.quota_usage import Amounts

_DOMINANT_MOST = 1e9


class RuntimeOrder:
    """Keys of workloads: smaller first. `share_weight` is that of the dominant share."""

    def __init__(self, cluster: Cluster, overlay: QuotaOverlay, share_weight: float) -> None:
        self._cluster = cluster
        self._overlay = overlay
        self._share_weight = share_weight

    def key_of(self, candidate: Candidate) -> RuntimeKeyOrder:
        """Return the key of a pending workload, then age and name."""
        job = candidate.job
        return self.value(job, job.ran_s, candidate.request), job.submitted_s, job.name

    def value(self, job: Job, ran_s: float, request: Amounts) -> float:
        """Return share_weight · dominant share + ln mean remaining run time + ln devices."""
        remaining_s = self._cluster.runtimes.remaining_s(job.like, ran_s)
        assert remaining_s is not None
        dominant = min(self._overlay.dominant(job.project, request)[0], _DOMINANT_MOST)
        devices = max(job.devices_milli, 1) / WHOLE_MILLI
        return self._share_weight * dominant + log(remaining_s) + log(devices)
