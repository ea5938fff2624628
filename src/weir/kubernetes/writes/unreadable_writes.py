"""Writes about objects that can't be read."""

from collections.abc import Iterator

from weir.kubernetes.state.unreadable import UnreadableObject
from weir.kubernetes.writes.condition_reasons import UNREADABLE_POD
from weir.kubernetes.writes.event_bodies import unreadable_event
from weir.kubernetes.writes.operations import EmitEvent, Write
from weir.kubernetes.writes.pending_pods import condition


def unreadable_writes(unread: UnreadableObject, now_s: float) -> Iterator[Write | EmitEvent]:
    """Yield an event about an object that can't be read, and a condition if it is a pod."""
    event = unreadable_event(unread)
    if event is not None:
        yield event
    if unread.resource == "pods" and unread.uid:
        namespace, _, name = unread.key.rpartition("/")
        yield condition(namespace, name, unread.uid, UNREADABLE_POD, unread.sentence, now_s)
