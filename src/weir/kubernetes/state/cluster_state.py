"""State of the cluster, and its changes since the last facts.

A state machine without a clock, a thread or a connection: changes of objects go in (`see`), facts come out
(`facts`). Nothing depends on the order of changes of different objects: a pod is resolved from all objects
known at that moment, and new facts are the difference to earlier ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weir.control.port import Fact, WorkloadFinished
from weir.kubernetes.api.changes import Change
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import KubeNode, Metadata, Namespace
from weir.kubernetes.crd.objects import WRITTEN_KEY, QuotaObject, WorkloadObject
from weir.kubernetes.crd.without_project import IGNORE, WithoutProject
from weir.kubernetes.state.gangs.facts import forget_facts, new_facts
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.gangs.job_report import reported_times
from weir.kubernetes.state.gangs.owner_state import see_owner
from weir.kubernetes.state.intake import Intake
from weir.kubernetes.state.nodes.overcommit import OvercommittedNodes
from weir.kubernetes.state.nodes.reading import differ
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.pods.orders import PodOrders
from weir.kubernetes.state.pods.resolver import PodResolver
from weir.kubernetes.state.pods.share_memory import NodeMemory, ShareMemory
from weir.kubernetes.state.pods.stale import StalePods
from weir.kubernetes.state.pods.suspended_jobs import SuspendedJobs
from weir.kubernetes.state.pods.tracker import EMPTY_S, PodTracker
from weir.kubernetes.state.queues.quota_objects import QuotaObjects
from weir.kubernetes.state.unreadable import QUARANTINED, UnreadableObjects
from weir.kubernetes.state.workloads.budgets import Budgets
from weir.kubernetes.state.workloads.control_names import ControlNames
from weir.kubernetes.state.workloads.registry import WorkloadRegistry
from weir.kubernetes.state.workloads.start_conditions import StartConditionGates
from weir.kubernetes.translate.claim_constraints import CLAIMED_DEVICES
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.gpu_sharing import limits_memory
from weir.kubernetes.translate.kinds import WorkloadKinds
from weir.kubernetes.translate.requests import unstated_in_use
from weir.state.events import WorkloadOutcome

_NAMELESS = Metadata("")


class ClusterState:
    """Processes objects in any order, and derives the facts of the port from them."""

    def __init__(
        self,
        kinds: WorkloadKinds,
        devices: DeviceResources,
        scheduler: str = "weir",
        without_project: WithoutProject = IGNORE,
        managed: ManagedNamespaces = ALL,
    ) -> None:
        self.scheduler, self.managed = scheduler, managed
        self.node_states = NodeStates(devices)
        self.quota_objects = QuotaObjects(without_project, managed)
        self.resolver = PodResolver(kinds, devices)
        self.claims = self.resolver.resource_claims
        self.budgets = Budgets(self.resolver.labels)
        self.registry = WorkloadRegistry(self.quota_objects, self.node_states, self._beside)
        self.in_control = ControlNames()
        self.overcommitted = OvercommittedNodes(self.node_states)
        self.unreadable = UnreadableObjects(managed)
        self.pods = PodTracker(
            scheduler, self.node_states, self.resolver, self.registry, self.budgets, self.unreadable, managed
        )
        self.orders = PodOrders(self.pods, self.node_states, self.registry, self.budgets, self.claims)
        self._start_conditions = StartConditionGates(self.registry, self.pods.look_again)
        self.share_memory = ShareMemory(self.pods, self.node_states, self.resolver)
        self._suspended = SuspendedJobs(self.resolver, self.registry, self.quota_objects, scheduler, managed)
        self._stale = StalePods(self.pods, self.node_states, self.resolver, self.registry, self.unreadable)
        self._later: list[Fact] = []  # facts for the next delivery
        self._unstated: frozenset[str] = frozenset()  # requested resources that no node has stated so far
        self._no_shares = ""  # reason why shares were refused when the pods were read
        self._adopts = True  # True: adopt workloads from objects whose pods went before control began
        self._unplaced: set[Gang] = set()  # gangs with pods on unknown nodes
        sees: dict[str, Callable[[str, Any], None]] = {
            "pods": self.pods.see,
            "nodes": self._node,
            "namespaces": self._namespace,
            "priorityclasses": self.resolver.see_priority,
            "persistentvolumeclaims": self.resolver.see_claim,
            "persistentvolumes": self.resolver.see_volume,
            "storageclasses": self.resolver.see_storage_class,
            "csinodes": lambda name, node: self.node_states.limit(
                name, self.resolver.see_drivers(name, node)
            ),
            "departments": lambda name, quota_object: self._queue("Department", name, quota_object),
            "projects": lambda name, quota_object: self._queue("Project", name, quota_object),
            "topologies": lambda name, quota_object: self._queue("Topology", name, quota_object),
            "workloads": self._workload,
            "poddisruptionbudgets": self.budgets.see,
            "podgroups": self.resolver.groups.see_pod_group,
            "groupworkloads": self.resolver.groups.see_workload,
            "resourceslices": self.claims.inventory.see_slice,
            "deviceclasses": self.claims.inventory.see_class,
            "devicetaintrules": self.claims.inventory.see_taint_rule,
            "resourceclaims": self._suspended.claims.see_claim,
            "resourceclaimtemplates": self._suspended.claims.see,
            "nodememory": self._node_memory,
            "trialcosts": self._trial_cost,
        }
        self._intake = Intake(sees, self.node_states, self.resolver, self.unreadable, self.pods.drop)

    # Observations

    def see(self, resource: str, changes: Iterable[Change[Any]], now_s: float) -> None:
        """Process new, changed and removed objects of one resource.

        An unreadable object affects no other.
        """
        self.pods.advance(now_s)
        self._intake.take(resource, changes)
        self._decide_again(self.registry.owned_by(self.resolver.groups.take_gone()))

    def _beside(self, tracked: TrackedPod) -> list[TrackedPod]:
        """Return the other pods with a part of this pod's shared device, in a fixed order."""
        keys = sorted(self.claims.beside(tracked.key))
        return [self.pods.by_key[key] for key in keys if key in self.pods.by_key]

    def see_owners(self, changes: Iterable[Change[Any]], now_s: float) -> None:
        """Process changed owners of pods, narrowed by `WorkloadKinds.narrow`."""
        self.pods.advance(now_s)
        changes = list(changes)
        self._suspended.see(changes, now_s)
        self._intake.take_owners(changes)
        owners = self.resolver.owners
        self._decide_again(self.registry.owned_by(owners.news | self.resolver.groups.made_by(owners.news)))
        owners.news.clear()

    def set_unreadable(
        self, kinds: Mapping[tuple[str, str], str], absent: frozenset[tuple[str, str]]
    ) -> bool:
        """Set the kinds of owners that can't be read, and those without objects; return True for changes."""
        if is_news := self.resolver.set_unreadable(kinds, absent):
            self._decide_again(self.registry.gangs.values())
        return is_news

    def _decide_again(self, gangs: Iterable[Gang]) -> None:
        """Mark those of these workloads without pods for a new decision."""
        self.registry.dirty.update(dict.fromkeys(gang for gang in gangs if not gang.count))

    def _node(self, name: str, node: KubeNode | None) -> None:
        if node is None:
            self.node_states.gone(name)
            self.unreadable.clear("nodes", name)
            self.registry.dirty.update(self._gangs_on(name))
        else:
            before = self.node_states.node(name)
            mistakes = self.node_states.set(node)
            if mistakes:
                self.unreadable.note("nodes", name, node.metadata.uid, "; ".join(mistakes))
            else:
                self.unreadable.clear("nodes", name)
            now = self.node_states.node(name)
            if before is None or now is None or differ(before, now):
                self.claims.inventory.set_node(name)
            self.resolver.see_resources(() if now is None else now.capacity)
            if before is not None and now is not None:
                if before.gpus != now.gpus:
                    self.pods.node_devices_changed(name)
                if limits_memory(before.labels) != limits_memory(now.labels):
                    self.registry.changed.update(self._gangs_on(name))
            self.registry.dirty.update(dict.fromkeys(self._unplaced))
            self._unplaced.clear()

    def _trial_cost(self, name: str, cost_s: float | None) -> None:
        """Process the cost of stopping a running trial of a sweep."""
        gang = self.registry.named.get(name)
        if gang is not None:
            gang.restart_s = cost_s
            self.registry.dirty[gang] = None

    def _node_memory(self, node: str, memory: NodeMemory | None) -> None:
        """Set the memory of shares on a node; without a name: every agent had time to report."""
        if not node:
            self.share_memory.is_settled = True
            self.registry.changed.update(dict.fromkeys(self.registry.named.values()))
        elif self.share_memory.see(node, memory):
            self.registry.changed.update(self._gangs_on(node))

    def _gangs_on(self, node: str) -> dict[Gang, None]:
        """Return the workloads with pods on a node."""
        gangs = (self.pods.by_key[key].gang for key in self.node_states.own_pods_on(node))
        return dict.fromkeys(gang for gang in gangs if gang is not None)

    def _namespace(self, name: str, namespace: Namespace | None) -> None:
        self.resolver.see_namespace(name, namespace)
        self.quota_objects.see_namespace(name, None if namespace is None else namespace.metadata.labels)

    def _queue(self, kind: str, name: str, quota_object: QuotaObject | None) -> None:
        created = 0.0 if quota_object is None else seconds_of(quota_object.metadata.creation_timestamp)
        self.quota_objects.see(kind, name, quota_object, created)

    def _workload(self, key: str, stored: WorkloadObject | None) -> None:
        if stored is not None:
            stored.written = stored.metadata.annotations.get(WRITTEN_KEY, "")
            stored.uid = stored.metadata.uid
            stored.metadata = _NAMELESS  # not needed: the key identifies the object
            stored.status.conditions, stored.status.nodes = [], []  # written for people only
        self.registry.see(key, stored)
        self.registry.dirty.update(dict.fromkeys(self._start_conditions.dependents([key])))
        gang = self.registry.named.get(key)
        if gang is not None:
            self.registry.changed[gang] = None
            before, gang.job_report = gang.job_report, reported_times(stored, gang.key.uid)
            is_unknown = gang.project is None and any(tracked.holds for tracked in gang.pods())
            if is_unknown or gang.job_report != before or not gang.count:  # facts that pods don't show
                self.registry.dirty[gang] = None

    # Results

    def facts(self, now_s: float) -> list[Fact]:
        """Return the facts that control hasn't received yet."""
        self.pods.advance(now_s)
        self.orders.come_due()
        self._settle_claims()
        self._settle_devices()
        self.quota_objects.use_node_labels(self.resolver.groups.topologies)
        if self.quota_objects.changed:
            self.quota_objects.settle()
            self._suspended.queues_changed = True
            self.registry.dirty.update(dict.fromkeys(self.registry.gangs.values()))
        self._stale.read()
        self._adopt()
        for key in self.resolver.remarked:
            self.node_states.remark(key, *map(self.pods.once, self.resolver.of_others(key)))
        self.resolver.remarked.clear()
        touched = self.resolver.take_touched(self.registry.namespaces)
        self.registry.dirty.update(dict.fromkeys(self.registry.owned_by(touched)))
        self.registry.dirty.update(
            dict.fromkeys(self.budgets.stale(self.registry.gangs.values(), self.pods.now_s))
        )
        facts, self._later = [*self._later, *self.orders.take_refusals()], []
        for gang in list(self.registry.dirty):
            gang.choose_head()
            self.registry.give_name(gang)
        names = [gang.name for gang in self.registry.dirty]
        self.registry.dirty.update(dict.fromkeys(self._start_conditions.dependents(names)))
        dirty = sorted(self.registry.dirty, key=lambda gang: (not gang.newer, gang.name))
        self.registry.dirty.clear()
        facts += self._facts_of(dirty, self._find_members)
        facts += self._facts_of(dirty, self.registry.choose_project)
        try:
            self.registry.settle(dirty)
        except Exception:  # noqa: BLE001 - the one it is because of is found, and left out
            facts += self._facts_of(dirty, lambda gang: self.registry.settle([gang]))
        self._unstated |= unstated_in_use(group.request for gang in dirty for group in gang.groups)
        self.node_states.use_unstated(self._unstated)
        self._offer_claims()
        facts += self.node_states.facts()
        for node in self.overcommitted.update(self.pods.now_s):
            self.registry.changed.update(self._gangs_on(node))
        self._judge(dirty)
        used = set(self.registry.projects)
        reported = self._facts_of(dirty, self._tell)
        facts += self.quota_objects.facts(used | set(self.registry.projects))
        self.registry.changed.update(dict.fromkeys(dirty))
        self.registry.changes += len(dirty)
        self.in_control.facts_are_complete()
        return facts + reported + self.budgets.facts(dirty)

    def _adopt(self) -> None:
        """Adopt workloads without pods: of objects, once at the start of control, and of suspended Jobs."""
        adopted, self._adopts = self.registry.adopt() if self._adopts else [], False
        for gang in (*adopted, *self._suspended.take(self.pods.now_s)):
            self.pods.note_empty(gang)
            self.registry.dirty[gang] = None

    def _judge(self, gangs: Iterable[Gang]) -> None:
        """Find the workloads that disruption budgets make non-preemptible."""
        protected = []
        for gang in gangs:
            ends_s = self.budgets.judge(gang, self.pods.now_s)
            if ends_s is not None:
                self.pods.look_again(ends_s, gang.name)
            gang.lapsed = False
            if gang.protected and self.budgets.protection_lapses:
                protected.append(gang)
        self.registry.judge_protected(protected)

    def _find_members(self, gang: Gang) -> None:
        gang.members = self.resolver.members(gang.key)

    def _facts_of(self, gangs: Iterable[Gang], act: Callable[[Gang], Sequence[Fact] | None]) -> list[Fact]:
        """Call this for each workload; a workload that raises is left out from now on."""
        facts: list[Fact] = []
        for gang in gangs:
            try:
                facts += act(gang) or ()
            except Exception as error:  # noqa: BLE001 - the others have to be told of
                facts += self.quarantine(gang, error)
        return facts

    def quarantine(self, gang: Gang, why: str | Exception) -> list[Fact]:
        """Leave out a workload until it is gone: control can't take it, and its usage counts as foreign."""
        was_reported = gang.reported is not None
        gang.quarantined = self.unreadable.note(QUARANTINED, gang.name, "", why)
        gang.project, gang.refusal = None, gang.quarantined
        forget_facts(gang)
        self.registry.count_project(gang)
        self.registry.dirty[gang] = None
        if not was_reported:
            return []
        self.in_control.note_end(gang)
        return [WorkloadFinished(gang.name, WorkloadOutcome.STOPPED, self.pods.now_s)]

    def leave_out(self, gang: Gang, why: Exception) -> None:
        """Report the end of a workload whose orders can't be carried out."""
        self._later += self.quarantine(gang, why)

    def retell(self) -> None:
        """Forget the reported facts: control starts again."""
        self.node_states.retell()
        self.quota_objects.retell()
        self.budgets.retell()
        self._later.clear()
        self.orders.take_refusals()
        self._adopts = True
        for gang in self.registry.gangs.values():
            forget_facts(gang)
            gang.nomination = None  # read from the object again, if it is still stored
            self.registry.recollect(gang)
            self.registry.unsettle(gang)
            self.registry.dirty[gang] = None

    @property
    def due_s(self) -> float | None:
        """Return when `facts` has to be called even without a change; None if it needn't be."""
        if self.registry.dirty or self.resolver.stale or self.node_states.no_shares != self._no_shares:
            return self.pods.now_s
        times = (self.pods.due[0][0] if self.pods.due else None, self.claims.due_s, self._suspended.due_s)
        return min((time_s for time_s in times if time_s is not None), default=None)

    def _settle_claims(self) -> None:
        """Bring nodes up to the devices that claims allocate on them, and resolve concerned pods again."""
        self.claims.expire(self.pods.now_s)
        if self.claims.extended.take_changed():
            self.resolver.provided_changed()
        for name in self.claims.take_other_devices(self.node_states.names):
            node = self.node_states.node(name)
            if node is not None and self.node_states.set_claimed(name, self.claims.gpus.of_node(node)):
                self.pods.node_devices_changed(name)
        self.resolver.stale |= self.claims.take_stale()

    def _offer_claims(self) -> None:
        """Count the copies of claims that fit each node whose devices are used otherwise."""
        changed = self.node_states.claimed.take_changed()
        for name in self.claims.take_changed(self.node_states.names, changed):
            node = self.node_states.node(name)
            if node is not None:
                self.node_states.set_copies(name, self.claims.sets.copies(node))

    def _settle_devices(self) -> None:
        before = self.resolver.devices
        present = before.present | self.node_states.present  # a restarting driver must not change requests
        if self.claims.are_used:
            present |= {CLAIMED_DEVICES}
        if len(present) <= 1 and CLAIMED_DEVICES not in present:
            present = before.present
        self._no_shares = self.node_states.no_shares
        further = self.claims.extended.further_classes
        devices = replace(before, present=present, no_shares=self._no_shares, further_classes=further)
        self.resolver.set_devices(devices)

    def _tell(self, gang: Gang) -> Sequence[Fact]:
        if self.in_control.has_to_wait(gang):
            self.registry.dirty[gang] = None
            return ()
        now_s, was_reported = self.pods.now_s, gang.reported is not None
        if gang.count:
            gang.empty_since_s = None
        elif gang.empty_since_s is not None:
            is_late = now_s >= gang.empty_since_s + EMPTY_S
            has_object, resolver = gang.name in self.registry.objects, self.resolver
            see_owner(gang, resolver.owners, resolver.groups, is_late=is_late, has_object=has_object)
        if not gang.nomination_reported:  # the capacity may have been given to others since
            gang.nomination = self.registry.stored_nomination(gang, now_s, self.pods.is_stopping)
        facts = new_facts(gang, now_s, self.node_states)
        facts += self._start_conditions.facts(gang, now_s)
        self.in_control.note_facts(gang, was_reported=was_reported)
        self.registry.count_project(gang)
        is_unplaced = any(tracked.holds and not tracked.reported_start for tracked in gang.pods())
        if gang.reported is not None and is_unplaced:
            self._unplaced.add(gang)
        if not gang.count and not gang.succeeded and gang.reported is None and (gang.left or gang.is_over()):
            self.registry.forget(gang)
            self.budgets.forget(gang)
            self._start_conditions.forget(gang)
            self.in_control.forget(gang)
            if gang.quarantined:
                self.unreadable.clear(QUARANTINED, gang.name)
        return facts
