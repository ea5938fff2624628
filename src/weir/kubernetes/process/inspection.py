"""Inspection of a cluster, once, as the scheduler sees it.

The same lists are read by the same functions into the same control, which then makes no decisions. So
nodes, reasons and the next decision are those of the scheduler itself.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.api.answers import NodeRow, PoolStatus, WhyAnswer, WorkloadRow
from weir.api.decision import DecisionAnswer
from weir.control.loop import Control
from weir.engine.cache import EngineCache
from weir.engine.pending_reasons import pending_reason
from weir.engine.plan import Plan
from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused, NotFound
from weir.kubernetes.api.paths import key_of, path_of
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import OwnerObject
from weir.kubernetes.crd.scheduler_settings import SchedulerSettings
from weir.kubernetes.process.node_rows import cluster_node_row
from weir.kubernetes.process.scheduler_process import WATCHED
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.node_states import NodeStates
from weir.kubernetes.state.owners import not_listed, not_served
from weir.kubernetes.translate.kinds import WorkloadKinds, load_kinds
from weir.model.policy import Policy
from weir.model.resources import GPU
from weir.scenario_io.scalars import PRIORITY_MAX
from weir.service.cluster_copy import cluster_facts
from weir.service.cluster_snapshot import snapshot
from weir.service.decision_details import explain_decision
from weir.service.pending_reasons import explanation
from weir.service.queue_rows import ancestor_rows, node_rows, queue_rows
from weir.service.suggestions import SuggestionOptions, suggestions
from weir.state.cluster import Cluster
from weir.state.jobs import Job

_HOLDS = ("suspended",)
"""Reasons of work that can be resumed or is retried. Any other hold is a gate."""


@dataclass(slots=True)
class ClusterInspection:
    """State of a cluster, and the settings it is scheduled by."""

    cluster: Cluster
    policy: Policy
    now_s: float
    node_states: NodeStates

    def snapshot(self) -> str:
        """Return a scenario that replays the next decision."""
        return snapshot(cluster_facts(self.cluster), self.policy, self.now_s)

    def nodes(self) -> list[NodeRow]:
        """Return the nodes and the use of each."""
        nodes = (node for node in self.cluster.nodes if node is not None)
        rows = node_rows(self.cluster, {})
        return [cluster_node_row(row, node, self.node_states) for row, node in zip(rows, nodes, strict=True)]

    def status(self, version: str, started_s: float) -> PoolStatus:
        """Return a summary of the cluster."""
        rows = self.nodes()
        holding = sum(map(_holds_capacity, self.cluster.jobs.values()))
        return PoolStatus(
            version=version,
            nodes=len(rows),
            devices=sum(len(row.devices) for row in rows),
            allocated=sum(row.allocated[GPU] for row in rows),
            others=sum(row.others for row in rows),
            running=holding,
            pending=len(self.cluster.jobs) - holding,
            policy=self.policy.preset,
            started_s=started_s,
        )

    def why(self, row: WorkloadRow, priorities: Sequence[int]) -> WhyAnswer:
        """Return why a workload is pending, its queues' numbers, and changes that would let it start now.

        `priorities` are those of the cluster's PriorityClasses.
        """
        cluster, policy, name = self.cluster, self.policy, row.name
        job = cluster.jobs.get(name)
        if job is None:
            return WhyAnswer(name=name, status=row.status, reason=row.reason, evicted=row.evicted)
        running, pending = _counts(cluster)
        cache = EngineCache()
        cache.sync(cluster, policy)
        rows = queue_rows(cluster, policy, self.now_s, running, pending, cache.feasibility.excess())
        queues = ancestor_rows(rows, job.spec.project)
        if row.status != "pending":
            return WhyAnswer(
                name=name, status=row.status, reason=row.reason, evicted=row.evicted, queues=queues
            )
        place, waiting = _place(cluster, job)
        found = row.reason or explanation(pending_reason(cluster, policy, job, self.now_s))
        possible = SuggestionOptions(
            PRIORITY_MAX, tuple(sorted(set(priorities))), shares=False, others_make=True
        )
        is_gated = job.held and (found is None or found.why not in _HOLDS)
        tried = [] if is_gated else suggestions(cluster_facts(cluster), policy, name, possible)
        return WhyAnswer(
            name=name,
            status=row.status,
            reason=found,
            evicted=row.evicted,
            position=place,
            waiting=waiting,
            queues=queues,
            suggestions=tried,
        )

    def decision(self, name: str) -> DecisionAnswer | None:
        """Return the details of the next decision on a workload; None if it can't be placed."""
        if name not in self.cluster.jobs:
            return None
        return explain_decision(cluster_facts(self.cluster), self.policy, name)


async def inspect_cluster(api: ApiClient, settings: SchedulerSettings, scheduler: str) -> ClusterInspection:
    """List everything, and build the state as the scheduler of that name does.

    Raises:
        ApiError: something can't be listed.
    """
    kinds, policy = load_kinds(settings.kinds), settings.policy
    cluster_state = ClusterState(kinds, settings.devices, scheduler, settings.without_project)
    lists = await asyncio.gather(
        *(_listed(api, api_version, resource, of) for api_version, resource, of in WATCHED)
    )
    now_s = time.time()
    backend = KubernetesBackend(cluster_state, lambda _writes: None, lambda: None, lambda: now_s)
    backend.set_budget_rules(policy.budgets)
    cluster_state.resolver.set_unreadable(await _see_owners(api, kinds, cluster_state, now_s))
    for (_, resource, _), things in zip(WATCHED, lists, strict=True):
        cluster_state.see(resource, things, now_s)
    control = Control(backend, policy, lambda: now_s, decide=_nothing)
    backend.connect()
    control.step()
    return ClusterInspection(control.cluster, policy, now_s, cluster_state.node_states)


def _nothing(_cluster: Cluster, _policy: Policy, _now_s: float, _cache: EngineCache) -> Plan:
    return Plan()


async def _listed(api: ApiClient, api_version: str, resource: str, of: type[Any]) -> list[ObjectSet[Any]]:
    things = await api.list_all(path_of(api_version, resource), of)
    return [ObjectSet(key_of(each.metadata.namespace, each.metadata.name), each) for each in things]


async def _see_owners(
    api: ApiClient, kinds: WorkloadKinds, cluster_state: ClusterState, now_s: float
) -> dict[tuple[str, str], str]:
    """List the owners of pods; return the kinds that can't be listed, with the reason."""
    wanted = [
        (api_version, watched.kind, watched.resource)
        for watched in kinds.watched
        for api_version in watched.api_versions
    ]
    unreadable: dict[tuple[str, str], str] = {}
    found = await asyncio.gather(*(_owners(api, *each) for each in wanted))
    for (api_version, kind, _), things in zip(wanted, found, strict=True):
        if isinstance(things, str):
            unreadable[api_version, kind] = things
            continue
        bodies = (
            kinds.narrow({**msgspec.to_builtins(each), "apiVersion": api_version, "kind": kind})
            for each in things
        )
        cluster_state.see_owners([ObjectSet("", body) for body in bodies], now_s)
    return unreadable


async def _owners(api: ApiClient, api_version: str, kind: str, resource: str) -> Sequence[OwnerObject] | str:
    """Return all objects of a kind, or why they can't be listed."""
    try:
        return await api.list_all(path_of(api_version, resource), OwnerObject)
    except NotFound:
        return not_served(api_version, kind)
    except ApiRefused as error:
        if error.status != 403:
            raise
        return not_listed(kind, str(error))


def _holds_capacity(job: Job) -> bool:
    """Return True if pods of a workload run, or stop and hold their devices until they are gone."""
    return bool(job.running_pods()) or job.stopping > 0


def _counts(cluster: Cluster) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of running and pending workloads by project."""
    running: dict[str, int] = {}
    pending: dict[str, int] = {}
    for job in cluster.jobs.values():
        of = running if _holds_capacity(job) else pending
        of[job.spec.project] = of.get(job.spec.project, 0) + 1
    return running, pending


def _place(cluster: Cluster, job: Job) -> tuple[int | None, int]:
    """Return its place among the pending workloads of its project, and their number."""
    ahead = [
        (of.line_key(at), member[2])
        for of in cluster.waiting_of.get(job.project, ())
        for at, member in enumerate(of.members)
    ]
    mine = next((key for key, other in ahead if other is job), None)
    return (None if mine is None else 1 + sum(key < mine for key, _ in ahead)), len(ahead)
