"""Jobs and pods of trials as the cluster has them. Belongs to the event loop."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import field

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import ApiStruct, Metadata, ObjectCondition
from weir.kubernetes.sweeps.termination_results import TrialRunView
from weir.kubernetes.sweeps.trial_jobs import SWEEP_LABEL

_JOB_LABEL = "batch.kubernetes.io/job-name"


class _TrialStatus(ApiStruct):
    conditions: list[ObjectCondition] = field(default_factory=list)
    ready: int | None = None  # pods that are ready


class TrialObject(ApiStruct):
    """The Job of a trial."""

    metadata: Metadata
    status: _TrialStatus = field(default_factory=_TrialStatus)

    def _has(self, condition: str) -> bool:
        return any(
            status_condition.type == condition and status_condition.status == "True"
            for status_condition in self.status.conditions
        )

    @property
    def has_failed(self) -> bool:
        """Return True if the Job has failed."""
        return self._has("Failed")

    @property
    def is_over(self) -> bool:
        """Return True if it is complete or has failed, and none of its pods runs any more."""
        return self._has("Complete") or self._has("Failed")

    def belongs_to(self, uid: str) -> bool:
        """Return True if a Sweep with this uid has made it."""
        owner = self.metadata.controller
        return owner is not None and owner.uid == uid


class ObservedJobs:
    """Jobs of trials by namespace and name, and the Jobs that have a pod on a node.

    `changed` gets the key of a sweep whose Jobs or pods have changed. Pods that are gone before their Job is
    over, such as evicted ones, leave the seconds for which they ran.
    """

    def __init__(self, changed: Callable[[str], None], clock: Callable[[], float] = time.time) -> None:
        self._changed = changed
        self._clock = clock
        self.jobs: dict[str, TrialObject] = {}
        self._placed: dict[str, TrialRunView] = {}  # by key of the pod
        self._evicted_s: dict[str, dict[str, float]] = {}  # by key of the Job and uid of the pod

    def deliver_jobs(self, changes: Sequence[Change[TrialObject]]) -> None:
        """Process changes of Jobs."""
        for change in changes:
            if isinstance(change, ObjectSet):
                self.jobs[change.key] = change.object
                self._changed(_sweep_of(change.object.metadata))
            elif isinstance(change, ObjectRemoved):
                gone = self.jobs.pop(change.key, None)
                self._evicted_s.pop(change.key, None)
                if gone is not None:
                    self._changed(_sweep_of(gone.metadata))

    def deliver_pods(self, changes: Sequence[Change[TrialRunView]]) -> None:
        """Process changes of pods."""
        for change in changes:
            if isinstance(change, ObjectSet):
                pod = change.object
                if pod.spec.node_name:
                    is_new = change.key not in self._placed
                    self._placed[change.key] = pod
                    if is_new:
                        self._changed(_sweep_of(pod.metadata))
            elif isinstance(change, ObjectRemoved):
                gone = self._placed.pop(change.key, None)
                if gone is not None:
                    self._note_gone(gone)

    def _note_gone(self, pod: TrialRunView) -> None:
        key = _job_of(pod)
        job = self.jobs.get(key)
        if job is not None and not job.is_over:
            self._evicted_s.setdefault(key, {})[pod.metadata.uid] = pod.ran_s(self._clock())
            self._changed(_sweep_of(pod.metadata))

    def placed(self) -> set[str]:
        """Return the keys of the Jobs that have a pod on a node."""
        return {_job_of(pod) for pod in self._placed.values()}

    def evicted_s(self, job: str) -> Mapping[str, float]:
        """Return the seconds for which deleted pods of a Job ran, by their uids."""
        return self._evicted_s.get(job, {})

    def forget_evicted(self, job: str, uids: Collection[str]) -> None:
        """Forget pods whose seconds are written down."""
        left = self._evicted_s.get(job, {})
        for uid in uids:
            left.pop(uid, None)
        if not left:
            self._evicted_s.pop(job, None)


def _job_of(pod: TrialRunView) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.labels.get(_JOB_LABEL, '')}"


def _sweep_of(metadata: Metadata) -> str:
    return f"{metadata.namespace}/{metadata.labels.get(SWEEP_LABEL, '')}"
