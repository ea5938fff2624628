"""Process changes one object at a time.

An object that fails is marked as unreadable, and the next one follows.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from weir.kubernetes.api.changes import Change, ObjectSet, ObjectUnreadable
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.pods.resolver import PodResolver
from weir.kubernetes.state.unreadable import UnreadableObjects, held_roughly, node_in, rough

_SAY_SO_THEMSELVES = ("pods", "nodes")
"""Resources whose handlers mark unreadable objects, or unreadable parts of objects, themselves."""
See = Callable[[str, Any], None]


class Intake:
    """Processes the objects of each resource, and keeps the pods that couldn't be read."""

    def __init__(
        self,
        sees: Mapping[str, See],
        node_states: NodeStates,
        resolver: PodResolver,
        unreadable: UnreadableObjects,
        drop: Callable[[str], None],
    ) -> None:
        """Create an intake. `drop` forgets a pod, even one of which only a part was processed."""
        self._sees = sees
        self._node_states = node_states
        self._resolver = resolver
        self._unreadable = unreadable
        self._drop = drop
        self._left_out: set[str] = set()  # pods whose devices count as foreign usage

    def take(self, resource: str, changes: Iterable[Change[Any]]) -> None:
        """Process new, changed and deleted objects of one resource."""
        sees = self._sees[resource]
        for change in changes:
            current = change.object if isinstance(change, ObjectSet) else None
            pod = current if isinstance(current, KubePod) else None
            node = "" if pod is None else pod.spec.node_name  # stored specs have no node name
            try:
                if isinstance(change, ObjectUnreadable):
                    self._refuse(resource, change.key, change.uid, change.sentence, change.body)
                else:
                    left_out = resource == "pods" and change.key in self._left_out
                    if left_out:
                        self._left_out.discard(change.key)
                        self._node_states.set_foreign_pod(change.key, None)
                    sees(change.key, current)
                    if left_out or resource not in _SAY_SO_THEMSELVES:
                        self._unreadable.clear(resource, change.key)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others have to be heard of
                body = None if pod is None else rough(pod.spec, node, pod.status.phase)
                uid = change.object.metadata.uid if isinstance(change, ObjectSet) else change.uid
                with suppress(Exception):
                    self._refuse(resource, change.key, uid, error, body)

    def take_owners(self, changes: Iterable[Change[Any]]) -> None:
        """Process objects that make pods, in the form that `WorkloadKinds.narrow` returns."""
        for change in changes:
            try:
                if isinstance(change, ObjectUnreadable):
                    self._unreadable.note("owners", change.key, change.uid, change.sentence)
                    continue
                self._unreadable.clear("owners", change.key)
                if isinstance(change, ObjectSet):
                    self._resolver.see_owner(change.object)
                else:
                    self._resolver.forget_owner(change.uid)
            except Exception as error:  # noqa: BLE001 - as above
                self._unreadable.note("owners", change.key, "", error)

    def _refuse(self, resource: str, key: str, uid: str, why: str | Exception, body: Any) -> None:
        """Mark an object as unreadable; a pod keeps its node, where its devices count as foreign usage."""
        self._unreadable.note(resource, key, uid, why)
        if resource != "pods":
            return
        self._left_out.add(key)
        with suppress(Exception):
            self._drop(key)
        node = node_in(body)
        usage = held_roughly(body, node, self._resolver.devices) if node else None
        self._node_states.set_foreign_pod(key, usage)
