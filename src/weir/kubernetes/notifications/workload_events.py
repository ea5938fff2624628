"""Events of a workload for notifications, read from its object.

The status of the object states them, the past ones too. So a new leader finds the events that an earlier one
has not told, as long as the object is there.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from weir.kubernetes.api.object_numbers import workload_identity
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.writes.stated_events import stated_events

_KEY_BYTES = 5


@dataclass(frozen=True, slots=True)
class WorkloadEvent:
    """An event of a workload. `key` is the same whenever the event is read again."""

    key: str
    at_s: float
    kind: str
    topics: frozenset[str]
    sentence: str


def events_of(uid: str, name: str, thing: WorkloadObject, now_s: float) -> Iterator[WorkloadEvent]:
    """Yield the events that the object of a workload states; `name` has its namespace."""
    for each in stated_events(name, thing.spec.project, thing.status, now_s):
        key = _key(uid, thing, each.id)
        yield WorkloadEvent(key, each.at_s, each.kind, frozenset(each.topics), each.sentence)


def deletion_of(uid: str, name: str, thing: WorkloadObject, at_s: float) -> WorkloadEvent:
    """Return the end of a workload whose object is gone before it was over."""
    key = _key(uid, thing, "end")
    return WorkloadEvent(key, at_s, "ended", frozenset(("end",)), f"{name} was deleted.")


def _key(uid: str, thing: WorkloadObject, id_: str) -> str:
    """Return the key of an event. The object may get another owner, which is another workload."""
    owner = thing.spec.owner
    identity = workload_identity("", owner.uid, owner.gang, uid=uid)
    return hashlib.blake2b(f"{identity} {id_}".encode(), digest_size=_KEY_BYTES).hexdigest()
