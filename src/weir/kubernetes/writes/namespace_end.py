"""Jobs of namespaces that are being deleted: they are made to fail, or the namespace would stay for ever.

The pods of a namespace are deleted before its Jobs. The controller of a Job with `backoffLimitPerIndex` keeps
a failed pod until it has made the next one, which a namespace that is being deleted refuses. The webhook
writes that field, and with it a policy by which the Job fails when a pod has the condition `weir.dev/ended`.
So these pods get it.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from weir.kubernetes.admission.job_defaults import ENDED
from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.objects import KubePod, Namespace
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.writes.operations import PatchStatus

REASON = "NamespaceDeleted"
_SENTENCE = "Its namespace is being deleted."


class NamespaceEnds:
    """Pods of Jobs that are being deleted, by namespace. All calls come from the event loop.

    Args:
        scheduler: whose pods are meant.
        submit: takes the writes.
        may_write: returns True if this instance leads; another one only keeps itself ready.
    """

    def __init__(
        self, scheduler: str, submit: Callable[[Sequence[PatchStatus]], None], may_write: Callable[[], bool]
    ) -> None:
        self._scheduler = scheduler
        self._submit = submit
        self._may_write = may_write
        self._ending: set[str] = set()
        self._pods: dict[str, dict[str, str]] = {}  # uids by name of pods without the condition, by namespace
        self._written: set[str] = set()  # uids of pods

    def see_namespaces(self, changes: Sequence[Change[Namespace]]) -> None:
        """Take in namespaces that are there, changed or gone."""
        for change in changes:
            if isinstance(change, ObjectSet) and change.object.metadata.deletion_timestamp is not None:
                self._ending.add(change.key)
                self._write(change.key)
            elif isinstance(change, ObjectSet | ObjectRemoved):
                self._ending.discard(change.key)

    def see_pods(self, changes: Sequence[Change[KubePod]]) -> None:
        """Take in pods that are there, changed or gone."""
        touched: dict[str, None] = {}
        for change in changes:
            namespace, _, name = change.key.partition("/")
            pod = change.object if isinstance(change, ObjectSet) else None
            if pod is not None and self._is_kept(pod):
                self._pods.setdefault(namespace, {})[name] = pod.metadata.uid
                touched[namespace] = None
            elif (there := self._pods.get(namespace)) is not None:
                self._written.discard(there.pop(name, ""))
                if not there:
                    del self._pods[namespace]
        for namespace in touched:
            if namespace in self._ending:
                self._write(namespace)

    def tell_all(self) -> None:
        """Write all conditions: this instance leads from now on."""
        self._written.clear()
        for namespace in list(self._ending):
            self._write(namespace)

    def _is_kept(self, pod: KubePod) -> bool:
        """Return True if a Job may keep a pod that is being deleted."""
        if pod.metadata.deletion_timestamp is None or pod.spec.scheduler_name != self._scheduler:
            return False
        of_job = any(each.controller and each.kind == "Job" for each in pod.metadata.owner_references)
        return of_job and not any(each.type == ENDED for each in pod.status.conditions)

    def _write(self, namespace: str) -> None:
        if not self._may_write():
            return
        pods = self._pods.get(namespace, {})
        fresh = [(name, uid) for name, uid in pods.items() if uid not in self._written]
        self._written.update(uid for _, uid in fresh)
        if fresh:
            self._submit([_condition(namespace, name, uid) for name, uid in fresh])


def _condition(namespace: str, name: str, uid: str) -> PatchStatus:
    words = {
        "type": ENDED,
        "status": "True",
        "reason": REASON,
        "message": _SENTENCE,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    body = {"metadata": {"uid": uid}, "status": {"conditions": [words]}}
    return PatchStatus(path_of("v1", "pods", namespace, name), body, kind=Patch.STRATEGIC)
