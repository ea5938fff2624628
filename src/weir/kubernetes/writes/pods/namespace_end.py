"""Jobs of namespaces that are being deleted are made to fail: otherwise the namespace would stay for ever.

The pods of a namespace are deleted before its Jobs. The controller of a Job with `backoffLimitPerIndex` keeps
a failed pod until it has made the next one. A namespace that is being deleted refuses that one. The webhook
writes that field, and with it a policy by which the Job fails when a pod has the condition `weir.dev/ended`.
So these pods get it, also those of other schedulers: a Job that was created in the last moments of a project
has the field, and its pods aren't Weir's any more.

The controller makes the next pod 10 s after the first failure. Once the namespace has refused that pod, the
controller expects it for five minutes and fails no Job meanwhile, whatever conditions there are. After that
it looks again only if a pod changes. So the condition is written again until the pod is gone.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir.kubernetes.admission.job_defaults import ENDED
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.objects import KubePod, Namespace
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.writes.operations import PatchStatus

REASON = "NamespaceDeleted"
AGAIN_S = 30.0
"""Time between two writes of the condition of one pod."""
_BY_INDEX = "batch.kubernetes.io/job-index-failure-count"
"""Annotation that the Job controller writes only on pods of Jobs with `backoffLimitPerIndex`."""
_SENTENCE = "Its namespace is being deleted."


@dataclass(slots=True)
class _KeptPod:
    """Pod of a Job, which is being deleted."""

    uid: str
    written: bool = False  # True: the pod has the condition, or its write is queued


class NamespaceEnds:
    """Pods of Jobs that are being deleted, by namespace. All calls come from the event loop.

    Args:
        submit: queues the writes.
        may_write: returns True if this instance leads; a standby instance only keeps its state.
        clock: has the times that are written.
    """

    def __init__(
        self,
        submit: Callable[[Sequence[PatchStatus]], None],
        may_write: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._submit = submit
        self._may_write = may_write
        self._ending: set[str] = set()
        self._pods: dict[str, dict[str, _KeptPod]] = {}  # by name, by namespace

    def see_namespaces(self, changes: Sequence[Change[Namespace]]) -> None:
        """Process new, changed and deleted namespaces."""
        for change in changes:
            if isinstance(change, ObjectSet) and change.object.metadata.deletion_timestamp is not None:
                self._ending.add(change.key)
                self._write(change.key)
            elif isinstance(change, ObjectSet | ObjectRemoved):
                self._ending.discard(change.key)

    def see_pods(self, changes: Sequence[Change[KubePod]]) -> None:
        """Process new, changed and deleted pods."""
        touched: dict[str, None] = {}
        for change in changes:
            namespace, _, name = change.key.partition("/")
            pod = change.object if isinstance(change, ObjectSet) else None
            if pod is not None and _is_kept(pod):
                kept_pods = self._pods.setdefault(namespace, {})
                if name not in kept_pods or kept_pods[name].uid != pod.metadata.uid:
                    kept_pods[name] = _KeptPod(pod.metadata.uid)
                kept_pods[name].written |= any(condition.type == ENDED for condition in pod.status.conditions)
                touched[namespace] = None
            elif (pods := self._pods.get(namespace)) is not None:
                pods.pop(name, None)
                if not pods:
                    del self._pods[namespace]
        for namespace in touched:
            if namespace in self._ending:
                self._write(namespace)

    def tell_all(self) -> None:
        """Write all conditions, even those that an earlier leader has written."""
        for namespace in list(self._ending):
            self._write(namespace, again=True)

    async def repeat(self) -> None:
        """Write all conditions again and again, for ever."""
        while True:
            await asyncio.sleep(AGAIN_S)
            self.tell_all()

    def _write(self, namespace: str, *, again: bool = False) -> None:
        if not self._may_write():
            return
        pods = self._pods.get(namespace, {})
        due = {name: pod for name, pod in pods.items() if again or not pod.written}
        for pod in due.values():
            pod.written = True
        if due:
            now = moment(self._clock())
            self._submit([_condition(namespace, name, pod.uid, now) for name, pod in due.items()])


def _is_kept(pod: KubePod) -> bool:
    """Return True if a Job with retries by index may keep a pod that is being deleted."""
    if pod.metadata.deletion_timestamp is None or _BY_INDEX not in pod.metadata.annotations:
        return False
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "Job"


def _condition(namespace: str, name: str, uid: str, now: str) -> PatchStatus:
    words = {
        "type": ENDED,
        "status": "True",
        "reason": REASON,
        "message": _SENTENCE,
        "lastProbeTime": now,  # changes the pod each time, so that its Job's controller looks at it
        "lastTransitionTime": now,
    }
    body = {"metadata": {"uid": uid}, "status": {"conditions": [words]}}
    return PatchStatus(path_of("v1", "pods", namespace, name), body, kind=Patch.STRATEGIC)
