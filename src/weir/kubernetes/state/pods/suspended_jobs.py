"""Workloads of suspended Jobs without pods, made from the templates.

Weir usually learns of workloads from their pods. Without this module, such a Job would be in no list.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.managed_namespaces import ManagedNamespaces
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.state.gangs.gang import Gang, PodGroupSlots, TrackedPod
from weir.kubernetes.state.owners.pod_info import PodInfo
from weir.kubernetes.state.pods.resolver import PodResolver
from weir.kubernetes.state.pods.template_claims import TemplateClaims
from weir.kubernetes.state.queues.quota_objects import QuotaObjects
from weir.kubernetes.state.workloads.adoption import PODS_MAX
from weir.kubernetes.state.workloads.registry import WorkloadRegistry
from weir.kubernetes.translate.annotations import Annotations, means_something
from weir.kubernetes.translate.job_templates import TEMPLATE

SETTLED_S = 2.0
"""Time after which a suspended Job counts as held back: queues of batches resume theirs after a moment."""
SLOTS_MAX = 1000
"""Limit of the pods that are reported to control before they exist."""
AT_ONCE = 200
"""Jobs whose templates are read in one step of control; the next step follows at once."""
_DEFAULT_SCHEDULER = "default-scheduler"
_LEAVES_JOBS_ALONE = "CronJob"


class SuspendedJobs:
    """Suspended Jobs that aren't workloads yet. Those without a project wait for one."""

    def __init__(
        self,
        resolver: PodResolver,
        registry: WorkloadRegistry,
        quota_objects: QuotaObjects,
        scheduler: str,
        managed: ManagedNamespaces,
    ) -> None:
        self._scheduler, self._managed = scheduler, managed
        self._resolver, self._registry, self._quota_objects = resolver, registry, quota_objects
        self.claims = TemplateClaims(resolver.resource_claims)
        self._claiming: dict[str, KubePod] = {}  # pods with resource claims, of those that were looked at
        self._pods: dict[str, KubePod] = {}  # pods as the templates describe them, by the uid of the Job
        self._due_s: dict[str, float] = {}  # times at which new ones are looked at
        self._without_project: dict[
            str, Annotations
        ] = {}  # what the templates say of those without a project
        self.queues_changed = False

    @property
    def due_s(self) -> float | None:
        """Time of the next check for new Jobs; None if no check is due."""
        return min(self._due_s.values(), default=None)

    def see(self, changes: Iterable[Change[Any]], now_s: float) -> None:
        """Process changed owners of pods, and keep the templates of those that are suspended Jobs."""
        for change in changes:
            if isinstance(change, ObjectRemoved):
                self._forget(change.uid)
            elif isinstance(change, ObjectSet):
                pod = change.object.pop(TEMPLATE, None)
                uid = str(change.object.get("metadata", {}).get("uid", ""))
                at_s = self._due_s.get(uid, now_s + SETTLED_S)
                self._forget(uid)
                if pod is not None and self._may_be_ours(pod):
                    self._pods[uid], self._due_s[uid] = pod, at_s

    def _forget(self, uid: str) -> None:
        for by_uid in (self._pods, self._due_s, self._without_project, self._claiming):
            by_uid.pop(uid, None)

    def _may_be_ours(self, pod: KubePod) -> bool:
        named = pod.spec.scheduler_name in (self._scheduler, _DEFAULT_SCHEDULER)
        return named and pod.metadata.namespace in self._managed

    def take(self, now_s: float) -> list[Gang]:
        """Return the new workloads of suspended Jobs."""
        if self.queues_changed:
            self.queues_changed = False
            with_project = [
                uid for uid, stated in self._without_project.items() if self._has_project(uid, stated)
            ]
            self._due_s.update(dict.fromkeys(with_project, now_s))
        if self.claims.take_changed():
            self._pods.update(self._claiming)
            self._due_s.update(dict.fromkeys(self._claiming, now_s))
        due = (uid for uid, at_s in self._due_s.items() if at_s <= now_s)
        taken = []
        for uid in list(islice(due, AT_ONCE)):
            pod = self._pods[uid]
            try:
                info = self._read(uid, pod)
            except Exception:  # noqa: BLE001 - its pods say what is wrong, if they come
                info = None
            if info is not None and not self._has_project(uid, info.annotations):
                self._due_s.pop(uid, None)
                self._without_project[uid] = info.annotations
                continue
            self._forget(uid)
            if pod.spec.resource_claims:
                self._claiming[uid] = pod
            if info is not None:
                taken.append(self._made(info, pod))
        return taken

    def _has_project(self, uid: str, stated: Annotations) -> bool:
        namespace = self._pods[uid].metadata.namespace
        return self._quota_objects.project_of(namespace, stated)[0] is not None

    def _read(self, uid: str, pod: KubePod) -> PodInfo | None:
        """Return the facts of a template; None if its pods won't be Weir's, or pods exist already."""
        above = self._resolver.owners.controller(uid)
        if above is not None and above.kind != _LEAVES_JOBS_ALONE:
            return None
        if any(gang.count or not gang.adopted for gang in self._registry.owned_by([uid])):
            return None
        key = pod.metadata.key
        self._resolver.see(key, pod)
        try:
            info = self._resolver.read(key, bound=False)
        finally:
            self._resolver.drop(key)
        derived = info.derived
        if info.gang.uid != uid or not derived.suspended or derived.over is not None or not derived.pods:
            return None
        is_named = pod.spec.scheduler_name == self._scheduler
        # The webhook gives other pods to Weir if they ask for GPUs, or if their template names a key of Weir
        speaks = any(map(means_something, (*pod.metadata.labels, *pod.metadata.annotations)))
        first, _ = self.claims.requests(pod, info.request)
        return info if is_named or first.devices or speaks else None

    def _made(self, info: PodInfo, pod: KubePod) -> Gang:
        """Return the workload of a Job, with a pod as its template describes it."""
        first, other = self.claims.requests(pod, info.request)
        gang = self._registry.gang_of(info)
        gang.head = replace(info, pod_request=replace(info.pod_request, request=other))
        gang.adopted = True
        gang.foreseen = min(info.derived.pods or 1, PODS_MAX)
        gang.whole = gang.needed = max(1, info.derived.min_pods)
        slots: list[TrackedPod | None] = [None] * min(gang.needed, SLOTS_MAX)
        role, gang.groups = info.derived.role, []
        if first != other:
            slots.pop()
            gang.groups.append(PodGroupSlots(role, first, [None]))
        if slots or first == other:
            gang.groups.append(PodGroupSlots(role, other, slots))
        return gang
