"""Events of a workload for notifications, read from its object.

The status of the object has them, past ones included. So a new leader finds the events that an earlier leader
hasn't reported, as long as the object exists.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from weir.kubernetes.api.object_numbers import workload_identity
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.writes.statuses.stated_events import StatedEvent, stated_events

_ID_BYTES = 5


def events_of(uid: str, name: str, workload_object: WorkloadObject, now_s: float) -> Iterator[StatedEvent]:
    """Yield the events that the object of a workload states; `name` has its namespace.

    The `id` of each tells it from those of all workloads, whenever it is read again.
    """
    for event in stated_events(name, workload_object.spec.project, workload_object.status, now_s):
        yield replace(event, id=_id_of(uid, workload_object, event.id))


def deletion_of(uid: str, name: str, workload_object: WorkloadObject, at_s: float) -> StatedEvent:
    """Return the end of a workload whose object was deleted before its end."""
    return StatedEvent(_id_of(uid, workload_object, "end"), at_s, "ended", ("end",), f"{name} was deleted.")


def _id_of(uid: str, workload_object: WorkloadObject, id_: str) -> str:
    """Return the id of an event among all. The object may get another owner, which is another workload."""
    owner = workload_object.spec.owner
    identity = workload_identity("", owner.uid, owner.gang, uid=uid)
    return hashlib.blake2b(f"{identity} {id_}".encode(), digest_size=_ID_BYTES).hexdigest()
