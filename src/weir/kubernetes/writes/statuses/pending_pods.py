"""Pending pods: the condition with the reason, and the event that `kubectl describe pod` shows.

Each pod has its own record of the texts that were written for it, so that no text is written twice. A changed
sentence is written at a modest rate, a changed reason almost at once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from weir.api.answers import Explanation
from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.translate.gates import GATED
from weir.kubernetes.writes.operations import EmitEvent, EventSubject, PatchStatus, Write
from weir.kubernetes.writes.statuses.condition_reasons import UNSCHEDULABLE, condition_reason
from weir.kubernetes.writes.statuses.fields import pending
from weir.kubernetes.writes.statuses.values import cut

REASON_EVERY_S, SENTENCE_EVERY_S = 1.0, 60.0
"""Shortest times between two conditions of a pod: if the reason changes, and if only the sentence does."""
EVENT_AGAIN_S = 1800.0
"""Age at which an event is repeated: the API server forgets events after an hour."""
_NEVER_S = float("-inf")


@dataclass(slots=True)
class _WrittenCondition:
    """Last condition and event of a pod."""

    reason: str = ""
    sentence: str = ""
    since_s: float = 0.0
    written_s: float = _NEVER_S
    event: str = ""
    event_s: float = _NEVER_S


class PendingPods:
    """Pending pods of one workload, with the texts that were written for them."""

    __slots__ = ("_conditions", "next_s")

    def __init__(self) -> None:
        self._conditions: dict[str, _WrittenCondition] = {}  # by uid of the pod
        self.next_s: float | None = None  # time of the next condition or event

    def take(
        self, gang: Gang, pods: Iterable[tuple[TrackedPod, Explanation]], now_s: float
    ) -> Iterator[Write | EmitEvent]:
        """Yield the writes for these pods, which have to be all pending pods of the workload."""
        conditions: dict[str, _WrittenCondition] = {}
        due: list[float] = []
        for tracked, why in pods:
            written = conditions[tracked.uid] = self._conditions.get(tracked.uid) or _WrittenCondition(
                since_s=now_s
            )
            yield from self._writes_of(gang, tracked, why, written, now_s)
            due.append(written.event_s + EVENT_AGAIN_S)
            reason = condition_reason(why)
            if (written.reason, written.sentence) != (reason, why.sentence):
                every_s = REASON_EVERY_S if written.reason != reason else SENTENCE_EVERY_S
                due.append(written.written_s + every_s)
        self._conditions = conditions
        self.next_s = min(due, default=None)

    def _writes_of(
        self, gang: Gang, tracked: TrackedPod, why: Explanation, written: _WrittenCondition, now_s: float
    ) -> Iterator[Write | EmitEvent]:
        reason = condition_reason(why)
        every_s = REASON_EVERY_S if written.reason != reason else SENTENCE_EVERY_S
        is_new = (written.reason, written.sentence) != (reason, why.sentence)
        if is_new and now_s >= written.written_s + every_s:
            written.reason, written.sentence, written.written_s = reason, why.sentence, now_s
            if why.why != GATED:  # for gated pods the API server writes the condition
                yield condition(
                    gang.key.namespace, tracked.name, tracked.uid, reason, why.sentence, written.since_s
                )
        if written.reason == reason and (written.event != reason or now_s >= written.event_s + EVENT_AGAIN_S):
            written.event, written.event_s = reason, now_s
            type_: Literal["Normal", "Warning"] = "Warning" if reason == UNSCHEDULABLE else "Normal"
            about = EventSubject("v1", "Pod", tracked.name, gang.key.namespace, tracked.uid)
            yield EmitEvent(about, reason, why.sentence, type=type_, waits=True)


def condition(namespace: str, name: str, uid: str, reason: str, sentence: str, since_s: float) -> PatchStatus:
    """Return the write of the condition `PodScheduled` of a pod that waits."""
    words = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": cut(sentence),
        "lastTransitionTime": moment(since_s),
    }
    body = {"metadata": {"uid": uid}, "status": {"conditions": [words]}}
    path = path_of("v1", "pods", namespace, name)
    return PatchStatus(path, body, kind=Patch.STRATEGIC, until_bound=True)


def pod_reasons(
    gang: Gang, why: Explanation | None, scale_up_over_quota: bool
) -> Iterator[tuple[TrackedPod, Explanation]]:
    """Yield the pending pods of a workload, each with its own reason or else that of the workload."""
    if why is not None and scale_up_over_quota and "over_quota" in why.numbers:
        numbers = {key: value for key, value in why.numbers.items() if key != "over_quota"}
        why = why.model_copy(update={"numbers": numbers})
    for tracked in pending(gang):
        info = tracked.info
        if info is not None and info.wait and info.wait_why:
            yield tracked, Explanation(why=info.wait_why, sentence=cut(info.wait))
        elif why is not None:
            yield tracked, why
