"""Order of workloads over quota by predicted run time, size and dominant share."""

from math import log

from weir.engine.order.queue_order import Candidate, RuntimeKeyOrder
from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.quota_usage import Amounts
from weir.state.runtime_history import RuntimeKey
from weir.state.versions import Versions

_DOMINANT_MOST = 1e9


class RuntimeOrder:
    """Keys of workloads by the usage of one cycle: smaller first.

    The value is share_weight · dominant share + ln mean remaining run time + ln devices.
    """

    def __init__(self, cluster: Cluster, overlay: QuotaOverlay, share_weight: float) -> None:
        self._cluster = cluster
        self._overlay = overlay
        self._share_weight = share_weight

    def key_of(self, candidate: Candidate) -> RuntimeKeyOrder:
        """Return the key of a candidate: its value, then share, age and name."""
        job = candidate.job
        share = self.share_term(job.project, candidate.request)
        return self._value(job, job.ran_s, share), share, job.submitted_s, job.name

    def running_value(self, job: Job, ran_s: float) -> float:
        """Return the value of a running workload that has run for `ran_s`."""
        return self._value(job, ran_s, self.share_term(job.project))

    def _value(self, job: Job, ran_s: float, share: float) -> float:
        return share + self.runtime_term(job.like, ran_s) + self.size_term(job)

    def share_term(self, project: int, request: Amounts = ()) -> float:
        """Return the weighted dominant share of a project with a request."""
        return self._share_weight * min(self._overlay.dominant(project, request)[0], _DOMINANT_MOST)

    def runtime_term(self, like: RuntimeKey, ran_s: float) -> float:
        """Return ln of the mean remaining run time of similar workloads, after `ran_s`."""
        remaining_s = self._cluster.runtimes.remaining_s(like, ran_s)
        assert remaining_s is not None
        return log(remaining_s)

    def size_term(self, job: Job) -> float:
        """Return ln of the devices of a workload."""
        return log(max(job.devices_milli, 1) / WHOLE_MILLI)

    def share_versions(self) -> Versions:
        """Return how often the fair share of each queue has changed."""
        return self._overlay.share_versions()

    def is_charged(self, project: int) -> bool:
        """Return True if this cycle has charged a project: its keys may have risen since."""
        return project in self._overlay.charged
