"""Conditions of `PodGroup` objects, which the scheduler has to write: is the group placed, or why not.

As with kube-scheduler, a condition that was true stays true: it is about the group's first placement.
"""

from collections.abc import Iterator

from weir.api.answers import Explanation
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.translate.scheduling_groups import POD_GROUP
from weir.kubernetes.writes.operations import ApplyObject, Write
from weir.kubernetes.writes.statuses.values import cut

SCHEDULED, UNSCHEDULABLE = "Scheduled", "Unschedulable"
_TYPES = {"v1alpha2": "PodGroupScheduled"}
_TYPE_SINCE_1_37 = "PodGroupInitiallyScheduled"
DISRUPTION, PREEMPTED = "DisruptionTarget", "PreemptionByScheduler"
AGAIN_S = 60.0
"""Shortest time between two writes of a condition if only its sentence has changed."""


class GroupConditions:
    """Makes the writes of conditions of pod groups that have changed."""

    def __init__(self) -> None:
        self._written: dict[Gang, tuple[dict[str, str], ...]] = {}
        self._at_s: dict[Gang, float] = {}

    def take(
        self, gang: Gang, phase: str, why: Explanation | None, stop: Explanation | None, now_s: float
    ) -> Iterator[Write]:
        """Yield the write of a group's conditions, if they have changed; `stop` is why it is stopped."""
        if gang.key.kind != POD_GROUP or gang.head is None or gang.head.derived.native is None:
            return
        version = gang.key.api_version.rpartition("/")[2]
        before = {condition["type"]: condition for condition in self._written.get(gang, ())}
        type_ = _TYPES.get(version, _TYPE_SINCE_1_37)
        candidates = [_scheduled(type_, gang, phase, why, before.get(type_))]
        candidates.append(_disruption(phase, stop, before.get(DISRUPTION)))
        conditions = tuple(
            _since(condition, before, now_s) for condition in candidates if condition is not None
        )
        if not conditions or conditions == self._written.get(gang):
            return
        only_reworded = _states(conditions) == _states(self._written.get(gang, ()))
        if only_reworded and now_s < self._at_s.get(gang, 0.0) + AGAIN_S:
            return
        self._written[gang], self._at_s[gang] = conditions, now_s
        path = path_of(gang.key.api_version, "podgroups", gang.key.namespace, gang.key.name)
        metadata = {"name": gang.key.name, "namespace": gang.key.namespace, "uid": gang.key.uid}
        body = {
            "apiVersion": gang.key.api_version,
            "kind": POD_GROUP,
            "metadata": metadata,
            "status": {"conditions": list(conditions)},
        }
        yield ApplyObject(f"{path}/status", body)

    def drop(self, gang: Gang) -> None:
        """Forget a group."""
        self._written.pop(gang, None)
        self._at_s.pop(gang, None)


def _scheduled(
    type_: str, gang: Gang, phase: str, why: Explanation | None, before: dict[str, str] | None
) -> dict[str, str] | None:
    if before is not None and before["status"] == "True":
        return before
    held = sum(tracked.holds for tracked in gang.pods()) + sum(gang.members.placed.values())
    if phase in ("Starting", "Running") and held >= gang.whole:
        return {"type": type_, "status": "True", "reason": SCHEDULED, "message": f"{held} pods have nodes."}
    if why is None or phase not in ("Pending", "Refused"):
        return before
    return {"type": type_, "status": "False", "reason": UNSCHEDULABLE, "message": cut(why.sentence)}


def _disruption(phase: str, stop: Explanation | None, before: dict[str, str] | None) -> dict[str, str] | None:
    if phase == "Stopping" and stop is not None:
        return {"type": DISRUPTION, "status": "True", "reason": PREEMPTED, "message": cut(stop.sentence)}
    if before is None or phase not in ("Starting", "Running"):
        return before
    return {
        "type": DISRUPTION,
        "status": "False",
        "reason": SCHEDULED,
        "message": "Its pods have nodes again.",
    }


def _since(condition: dict[str, str], before: dict[str, dict[str, str]], now_s: float) -> dict[str, str]:
    """Return a condition with the time since which it has this status."""
    last = before.get(condition["type"])
    same = last is not None and last["status"] == condition["status"]
    changed_at = last["lastTransitionTime"] if last is not None and same else moment(now_s)
    return {**condition, "lastTransitionTime": changed_at}


def _states(conditions: tuple[dict[str, str], ...]) -> list[tuple[str, str, str]]:
    return [(condition["type"], condition["status"], condition["reason"]) for condition in conditions]
