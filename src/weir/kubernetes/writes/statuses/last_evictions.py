"""Last eviction of each workload, and the lost run time: since its pods started or last saved."""

from dataclasses import dataclass, field

from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.crd.objects import LastEviction
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.writes.statuses.values import Words, cut
from weir.model.reasons import EvictionCause
from weir.model.workloads import WHOLE_MILLI


@dataclass(slots=True)
class _Eviction:
    words: Words
    at_s: float
    stopped: dict[str, tuple[float, float]] = field(default_factory=dict)
    """For each stopped pod, by uid, its GPUs and the time of its start."""
    lost_gpu_s: float | None = None
    saved_s: float = 0.0

    def count(self, saved_s: float) -> None:
        """Add up the lost run time; a workload may save a checkpoint until its pods are gone."""
        self.saved_s = max(self.saved_s, saved_s)
        if self.stopped:
            self.lost_gpu_s = sum(
                gpus * max(0.0, self.at_s - max(started_s, self.saved_s))
                for gpus, started_s in self.stopped.values()
            )


class LastEvictions:
    """Keeps the last eviction of each workload for its status."""

    def __init__(self, node_states: NodeStates) -> None:
        self._node_states = node_states
        self._evictions: dict[Gang, _Eviction] = {}

    def stops(self, gang: Gang, tracked: TrackedPod | None, cause: EvictionCause, now_s: float) -> None:
        """Record a pod that is being stopped; pods that stop together are one eviction."""
        words: Words = {
            "at": moment(now_s),
            "rule": cause.rule.value,
            "sentence": cut(cause.sentence),
            "by": cause.by,
            "choice": cut(cause.choice),
        }
        eviction = self._evictions.get(gang)
        if eviction is None or eviction.words != words:
            eviction = self._evictions[gang] = _Eviction(words, now_s)
        if tracked is not None and tracked.info is not None and tracked.at_s:
            request = tracked.info.request
            milli = min(WHOLE_MILLI, request.share_on(self._node_states.device_memory(tracked.node)))
            eviction.stopped[tracked.uid] = request.devices * milli / WHOLE_MILLI, tracked.at_s
        eviction.count(gang.checkpointed_s)

    def restore(self, gang: Gang, last: LastEviction) -> None:
        """Restore the last eviction from a workload's object, unless a later one is known."""
        words: Words = {"at": last.at, "rule": last.rule, "sentence": last.sentence, "by": last.by}
        self._evictions.setdefault(gang, _Eviction(words, 0.0, lost_gpu_s=last.lost_gpu_seconds))

    def last_eviction(self, gang: Gang) -> Words | None:
        """Return the last eviction of a workload; None if there was none."""
        eviction = self._evictions.get(gang)
        if eviction is None:
            return None
        pods = list(gang.pods())
        if any(pod.uid in eviction.stopped for pod in pods) or not any(pod.holds for pod in pods):
            eviction.count(gang.checkpointed_s)
        else:
            eviction.stopped.clear()  # later checkpoints belong to a later run
        lost = {} if eviction.lost_gpu_s is None else {"lostGpuSeconds": round(eviction.lost_gpu_s, 1)}
        return {**eviction.words, **lost}

    def drop(self, gang: Gang) -> None:
        """Forget a workload."""
        self._evictions.pop(gang, None)
