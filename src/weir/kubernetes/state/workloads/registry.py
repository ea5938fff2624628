"""Registry of workloads: the owner of each name, the project of each workload, and the record of its object.

Two owners may have one name after each other, and pods of the first may outlive it. Only one of them has the
name at a time; devices of the other's pods count as foreign usage.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from weir.control.port import EndWorkload, LifecycleCause, LifecycleRule
from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.state.gangs.gang import AllocationOrigin, Gang, TrackedPod
from weir.kubernetes.state.gangs.job_report import reported_times
from weir.kubernetes.state.gangs.workload import wants_more
from weir.kubernetes.state.keyed_members import count_down
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.nodes.usage import ForeignUsage, PodUsage, amounts_of
from weir.kubernetes.state.owners.pod_info import PodInfo, object_name, with_devices
from weir.kubernetes.state.queues.non_preemptible_usage import NonPreemptibleUsage
from weir.kubernetes.state.queues.quota_objects import QuotaObjects
from weir.kubernetes.state.workloads.adoption import adopted
from weir.kubernetes.state.workloads.allocations import AllocationRecords, Beside, is_sound, life_of, settle
from weir.kubernetes.translate.claim_constraints import UNREAD_NEED, claim_needs
from weir.kubernetes.translate.kinds import GangKey
from weir.kubernetes.translate.requests import has_unstated
from weir.model.resources import CLAIMS_PREFIX
from weir.model.workloads import Request
from weir.state.events import Nominated, Placement, PodKey, WorkloadOutcome

_PHASES = {
    "Succeeded": WorkloadOutcome.SUCCEEDED,
    "Failed": WorkloadOutcome.FAILED,
    "Stopped": WorkloadOutcome.STOPPED,
}
_VERDICTS = frozenset(rule.value for rule in LifecycleRule)


def outcome_of_phase(phase: str) -> WorkloadOutcome | None:
    """Return the outcome of a phase of a Workload; None if the phase isn't final."""
    return _PHASES.get(phase)


class WorkloadRegistry:
    """Workloads by name. `dirty` ones have changes for control, `changed` ones changes for people."""

    def __init__(self, quota_objects: QuotaObjects, node_states: NodeStates, beside: Beside) -> None:
        self._quota_objects = quota_objects
        self._node_states = node_states
        self._beside = beside
        self.gangs: dict[GangKey, Gang] = {}
        self.named: dict[str, Gang] = {}  # gangs that own their name
        self.dirty: dict[Gang, None] = {}
        self.changed: dict[Gang, None] = {}
        self.objects: dict[str, WorkloadObject] = {}  # existing `Workload` objects
        self.projects: Counter[str] = Counter()  # number of workloads in control, by project
        self.users: dict[str, dict[Gang, None]] = {}  # workloads that haven't ended, by project
        self.uses_version = 0
        self.changes = 0  # number of changes of workloads and deletions of objects
        self._records: dict[str, AllocationRecords] = {}  # allocations in the objects
        self._namesakes: dict[str, list[Gang]] = {}
        self._by_owner: dict[str, list[Gang]] = {}
        self.namespaces: Counter[str] = Counter()  # number of workloads by namespace
        self._fixed = NonPreemptibleUsage()

    def see(self, name: str, workload_object: WorkloadObject | None) -> None:
        """Process a new, changed or deleted (None) `Workload` object."""
        if workload_object is None:
            self.changes += 1
            self.objects.pop(name, None)
            self._records.pop(name, None)
        else:
            self.objects[name] = workload_object
            self._records[name] = AllocationRecords(
                workload_object.spec.owner.uid,
                {allocation.uid: allocation for allocation in workload_object.status.allocations},
            )

    def object_of(self, gang: Gang) -> WorkloadObject | None:
        """Return the object of a workload; None without one, or if it describes another owner."""
        workload_object = self.objects.get(gang.name)
        return (
            workload_object
            if workload_object is not None and workload_object.spec.owner.uid == gang.key.uid
            else None
        )

    def gang_of(self, info: PodInfo) -> Gang:
        """Return the workload of a resolved pod; create it if needed."""
        gang = self.gangs.get(info.gang)
        return self._made(info) if gang is None else gang

    def _made(self, info: PodInfo) -> Gang:
        gang = self.gangs[info.gang] = Gang(info.gang)
        gang.head = info
        self._namesakes.setdefault(gang.name, []).append(gang)
        self._by_owner.setdefault(gang.key.uid, []).append(gang)
        self.namespaces[gang.key.namespace] += 1
        if gang.name not in self.named:
            self.named[gang.name] = gang
            self.recollect(gang)
        return gang

    def adopt(self) -> list[Gang]:
        """Adopt workloads from objects if they have no pods, or only ended ones; return them."""
        taken = []
        for name, workload_object in self.objects.items():
            gang = self.named.get(name)
            info = adopted(name, workload_object) if gang is None or not gang.count else None
            if info is None or (gang is not None and gang.key != info.gang):
                continue
            gang = gang or self._made(info)
            gang.adopted = True
            gang.whole = gang.needed = info.derived.min_pods
            taken.append(gang)
        return taken

    def owned_by(self, uids: Iterable[str]) -> Iterator[Gang]:
        """Return the workloads of these owners."""
        for uid in uids:
            yield from self._by_owner.get(uid, ())

    def recollect(self, gang: Gang) -> None:
        """Restore the facts that its object recorded."""
        workload_object = self.object_of(gang)
        if workload_object is None:
            return
        gang.job_report = reported_times(workload_object, gang.key.uid)
        status, why = workload_object.status.life, workload_object.status.reason
        gang.short_since_s = (
            seconds_of(workload_object.status.short_since) if workload_object.status.short_since else 0.0
        )
        gang.granted = gang.granted or any(
            not allocation.preemptible for allocation in workload_object.status.allocations
        )
        if (pause := workload_object.status.pause) is not None:
            gang.backoff.resume(pause.lost, pause.stopped, seconds_of(pause.at))
        life = None if status is None else life_of(status)
        if life is not None and life.starts >= gang.life.starts:
            gang.remember(life)
        gang.idle.warning, gang.idle.suspended_for = (
            workload_object.status.idle_warning,
            workload_object.status.suspended_for,
        )
        if status is not None and status.idle is not None:
            gang.idle.extended_until_s = max(gang.idle.extended_until_s, status.idle.extended_until_seconds)
        if why is not None and why.why in _VERDICTS:
            gang.verdict = _PHASES.get(workload_object.status.phase)
            if gang.verdict is not None and gang.ending is None:
                cause = LifecycleCause(LifecycleRule(why.why), why.sentence)
                at_s, ran_s = seconds_of(workload_object.status.ended_at), gang.life.ran_s
                gang.ending = EndWorkload(gang.name, gang.verdict, at_s, why.sentence, ran_s, cause=cause)

    def choose_project(self, gang: Gang) -> None:
        """Choose the project of a workload, or record why there is none."""
        wanted = self._choose_project(gang)
        gang.priority_max = self._quota_objects.max_priority(gang.project)
        gang.gpu_quota_milli = self._quota_objects.gpu_quota_milli(gang.project)
        uses = gang.uses if gang.quarantined else gang.project or wanted
        goes_on = gang.is_over() is None or any(tracked.holds for tracked in gang.pods())
        self._use(gang, uses if goes_on else None)

    def _use(self, gang: Gang, project: str | None) -> None:
        if project == gang.uses:
            return
        if gang.uses is not None:
            users = self.users[gang.uses]
            del users[gang]
            if not users:
                del self.users[gang.uses]
        if project is not None:
            self.users.setdefault(project, {})[gang] = None
        gang.uses = project
        self.uses_version += 1

    def _choose_project(self, gang: Gang) -> str | None:
        """Choose the project; return the one that the workload names or its namespace has, if any.

        Running work keeps its project. Elastic work may never end. So when an elastic pod is added, the whole
        workload moves to the new project: a workload belongs to one project, and new pods need the quota of
        the new one.
        """
        head = gang.head
        if head is None:
            return None
        if gang.quarantined:
            gang.project, gang.refusal, gang.topology = None, gang.quarantined, None
            return None
        project, refusal = self._quota_objects.project_of(gang.key.namespace, head.annotations)
        wanted = project
        missing = self._quota_objects.topology_missing(head.annotations)
        gang.topology = None if missing else head.annotations.topology
        if missing:
            project, refusal = None, missing
        holds = any(tracked.holds for tracked in gang.pods())
        if gang.project is None and holds:
            gang.project = self._started_for(gang, project)
        moves = holds and gang.project not in (None, project) and wants_more(gang)
        if project is not None and (moves or not holds) and (closing := self._quota_objects.closing(project)):
            project, refusal = None, closing
        gang.refusal = refusal
        if not holds and gang.reported is not None and project not in (None, gang.project):
            gang.project = None  # removed from control first, then added with the new project
            self.dirty[gang] = None
        elif not holds:
            gang.project = project
        elif moves and project is not None:
            gang.project, gang.granted = project, False  # its running pods are judged by the new quota
        return wanted

    def _started_for(self, gang: Gang, project: str | None) -> str | None:
        """Return the project that its running pods are charged to, or else this one; None without one.

        The object of the workload records it, since the namespace may belong to another project now. A
        project recorded without allocations may be outdated.
        """
        workload_object = self.object_of(gang)
        if workload_object is None:
            return project
        recorded = {allocation.uid for allocation in workload_object.status.allocations}
        if project is not None and not any(pod.holds and pod.uid in recorded for pod in gang.pods()):
            return project
        return self._quota_objects.project_left(workload_object.spec.project) or project

    def give_name(self, gang: Gang) -> None:
        """Give a name that two owners have to the one that exists, else to the newest; the other ends."""
        alike = self._namesakes.get(gang.name, ())
        if self.named.get(gang.name) is gang and len(alike) == 1:
            return
        best = max(alike, key=_claim_to_name, default=None)
        for namesake in alike:
            if namesake.newer != (namesake is not best):
                namesake.newer = namesake is not best
                self.dirty[namesake] = None
        if best is not None and self.named.get(gang.name) is not best:
            self.named[gang.name] = best
            self.recollect(best)

    def settle(self, gangs: Sequence[Gang]) -> None:
        """Settle the devices of these workloads' bound pods, and charge them."""
        known_gangs = [gang for gang in gangs if _is_known(gang)]
        settle(known_gangs, self._node_states, self._records, self._beside)
        for gang in gangs:
            self._charge(gang)
        queues = {queue.name: queue for queue in self._quota_objects.tree.queues}
        self._fixed.judge(gangs, queues, self._node_states)

    def judge_protected(self, gangs: Sequence[Gang]) -> None:
        """Find the workloads over quota that their disruption budgets would protect for good."""
        if gangs:
            queues = {queue.name: queue for queue in self._quota_objects.tree.queues}
            self._fixed.judge_protected(gangs, queues, self._node_states)

    def as_bound(self, tracked: TrackedPod, info: PodInfo) -> PodInfo:
        """Return the facts of a pod with the devices of its binding, since annotations may have changed.

        If the devices were inferred, those in the pod's facts are used, or those of a record while its claims
        are unknown.
        """
        is_inferred = tracked.guessed or tracked.origin is AllocationOrigin.POD
        if not tracked.bound or (is_inferred and not info.is_guess):
            return info
        if tracked.guessed and info.request.devices:
            return info
        before = tracked.info
        if tracked.settled and before is not None:
            was = before.request
            info = _without_new_resources(info, was)
            return with_devices(info, was.devices, was.share_milli, was.gpu_memory)
        records = self._records.get(f"{info.gang.namespace}/{object_name(info.gang)}")
        allocation = None if records is None else records.for_owner(info.gang.uid).get(tracked.uid)
        if (
            allocation is None
            or (allocation.self_bound and not info.is_guess)
            or allocation.node != tracked.node
            or not is_sound(allocation)
        ):
            return info
        return with_devices(info, len(allocation.devices), allocation.share, allocation.memory)

    def unsettle(self, gang: Gang) -> None:
        """Read all records again, because another leader may have decided in the meantime."""
        for tracked in gang.pods():
            if tracked.bound:
                tracked.settled = False

    def _charge(self, gang: Gang) -> None:
        """Charge the pods' devices to the workload if control knows it, else to the node as foreign usage."""
        is_known = _is_known(gang)
        for tracked in gang.pods():
            assert tracked.info is not None
            request = tracked.info.request
            if not tracked.holds:
                self._node_states.set_own_pod(tracked.key, None)
            elif is_known:
                self._node_states.set_own_pod(tracked.key, PodUsage(tracked.node, request, tracked.devices))
            else:
                amounts = tuple(sorted(amounts_of(request)))
                self._node_states.set_foreign_pod(
                    tracked.key, ForeignUsage(tracked.node, amounts, request.devices, request.marks)
                )

    def forget(self, gang: Gang) -> None:
        """Remove a gang from every index."""
        if self.gangs.pop(gang.key, None) is None:
            return
        self._fixed.forget(gang)
        owned, namespace = self._by_owner[gang.key.uid], gang.key.namespace
        owned.remove(gang)
        if not owned:
            del self._by_owner[gang.key.uid]
        count_down(self.namespaces, namespace)
        self._use(gang, None)
        alike = self._namesakes[gang.name]
        alike.remove(gang)
        if self.named[gang.name] is gang:
            del self.named[gang.name]
        if alike:
            self.dirty[alike[0]] = None
        else:
            del self._namesakes[gang.name]

    def count_project(self, gang: Gang) -> None:
        """Update the number of reported workloads by project."""
        project = None if gang.reported is None else gang.reported.project
        if project != gang.counted:
            if gang.counted is not None:
                count_down(self.projects, gang.counted)
            if project is not None:
                self.projects[project] += 1
            gang.counted = project

    def stored_nomination(
        self, gang: Gang, now_s: float, stopping: Callable[[str], bool]
    ) -> Nominated | None:
        """Return the nomination in its object, if its pods still wait and the nodes are free or being freed.

        The nomination may have been written without the evictions that it needs.
        """
        workload_object = self.object_of(gang)
        nomination = None if workload_object is None else workload_object.status.nomination
        if nomination is None or not nomination.places:
            return None
        waiting = {tracked.name: tracked for tracked in gang.pods() if not tracked.holds}
        places = []
        by_node: dict[str, list[PodUsage]] = {}
        for place in nomination.places:
            tracked = waiting.get(place.pod)
            if tracked is None or tracked.info is None:
                return None
            devices = tuple(place.devices)
            places.append(Placement(PodKey(gang.name, tracked.group, tracked.index), place.node, devices))
            by_node.setdefault(place.node, []).append(PodUsage(place.node, tracked.info.request, devices))
        if not all(self._node_states.is_being_freed(those, stopping) for those in by_node.values()):
            return None
        return Nominated(gang.name, tuple(places), now_s, tuple(nomination.freed_by))

    def is_nominated(self, gang: Gang) -> bool:
        """Return True if its object holds a nomination."""
        workload_object = self.objects.get(gang.name)
        return gang.nomination is not None or (
            workload_object is not None and workload_object.status.nomination is not None
        )

    def forget_nomination(self, gang: Gang) -> None:
        """Clear the stored nomination at once, since each start of control reads it."""
        workload_object = self.objects.get(gang.name)
        if workload_object is not None:
            workload_object.status.nomination = None


def _without_new_resources(info: PodInfo, was: Request) -> PodInfo:
    """Return the facts of a bound pod without resources that nodes state only since its binding.

    The request of its claims stays the same, even while their class is deleted.
    """
    request, had = info.request, dict(was.further)
    needs = dict(claim_needs(was))
    had_unread, is_known = UNREAD_NEED[0] in needs, bool(needs) and UNREAD_NEED[0] not in needs
    further = [
        (name, amount)
        for name, amount in request.further
        if (had_unread if name.startswith(CLAIMS_PREFIX) else name in had or has_unstated(name) is not None)
    ]
    resources = tuple(sorted((*further, *needs.items()) if is_known else further))
    if resources == request.further:
        return info
    return replace(info, pod_request=replace(info.pod_request, request=replace(request, further=resources)))


def _is_known(gang: Gang) -> bool:
    """Return True if control knows a workload, or will."""
    return gang.project is not None and not gang.newer


def _claim_to_name(gang: Gang) -> tuple[bool, float, str]:
    head = gang.head
    return head is not None and not head.orphan, head.submitted_s if head else 0.0, gang.key.uid
