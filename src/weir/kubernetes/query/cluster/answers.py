"""Answers of one replica about its cluster, in the shares of time that the scheduler can spare.

The control thread owns the state. It is asked for little at a time: a page of nodes, or one trial of a
suggestion. A thread of its own waits for the trials.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from structlog import get_logger

from weir import __version__
from weir.api.answers import NodeRow, PodRow, PoolStatus, QueueRow, WhyAnswer
from weir.api.decision import DecisionAnswer
from weir.api.workload_list import ActivityRow, IdleRulesRow
from weir.engine.overcommit import NodeDeviceUsage
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.query.cluster.advice import Owner, advised
from weir.kubernetes.query.cluster.numbers import (
    DeviceUses,
    nodes_at,
    pool_status,
    rows_of_nodes,
)
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry
from weir.kubernetes.query.workloads.rows import activity_row, pod_row
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import TrackedPod
from weir.kubernetes.state.gangs.owner_state import suspension_refusal
from weir.kubernetes.translate.annotations import PREFIX
from weir.kubernetes.usage.cluster_use import ClusterUse, MeasuredUse
from weir.model.policy import LifecyclePolicy, Policy
from weir.scenario_io.scalars import PRIORITY_MAX
from weir.service.cluster_snapshot import read_cluster, snapshot
from weir.service.control_thread import ControlThread, ControlUnavailable
from weir.service.decision_details import explain_decision
from weir.service.decision_state import StateReader, reader_of
from weir.service.idle_times import idle_rules_row
from weir.service.kept_suggestions import KeptSuggestions, with_suggestions_found
from weir.service.queue_position import queue_position
from weir.service.queue_rows import ancestor_rows
from weir.service.quota_preview import PreviewedChange, preview_queues
from weir.service.suggestions import SuggestionOptions, SuggestionsFound, suggestions
from weir.state.cluster import Cluster

QUERY_S, PLACE_S = 30.0, 0.1
"""Time that a question to the control thread may take; that of a place among pending workloads."""
NODES_AT_A_TIME = 250
DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
_SYSTEM_CLASSES = "system-"
"""PriorityClasses of Kubernetes itself begin like this."""
_SUSPENDED = "suspended"
"""Reason of workloads that can be resumed. Other suspensions are gates."""
_ANNOTATED = {"min-pods": "min_pods", "topology": "topology", "preemptible": "preemptible"}
"""Annotations that suggestions change, and the fields they set."""
_STARTING = "Weir is being started, or changes its leader: try again in some seconds."
T = TypeVar("T")
_LOG = get_logger(__name__)


class SchedulerAnswers:
    """Answers from the state of a scheduler process, leading or not. All calls are on the event loop."""

    def __init__(
        self,
        backend: KubernetesBackend,
        control: Callable[[], ControlThread | None],
        numbers: Callable[[], ClusterSummary],
        policy: Callable[[], Policy],
        gpu_resources: tuple[str, ...],
        use: Callable[[], ClusterUse] = ClusterUse,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the answers. `clock` is that of the times in objects."""
        self._clock = clock
        self._backend = backend
        self._control = control
        self._numbers = numbers
        self._policy = policy
        self._use = use
        names = (resource for resource in gpu_resources if not resource.endswith("*"))
        self._gpu_resource = next(names, DEFAULT_GPU_RESOURCE)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="weir-query")
        self._kept = KeptSuggestions()
        self._started_s = clock()

    def close(self) -> None:
        """Refuse further questions."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    # Workloads

    def pods(self, workload: WorkloadIndexEntry) -> list[PodRow]:
        """Return the pods of a workload, by name."""
        pods = self._backend.read(partial(_pods, uid=workload.object.spec.owner.uid, key=workload.key))
        return [pod_row(workload.name, tracked) for tracked in pods]

    def activity(self, workload: WorkloadIndexEntry) -> ActivityRow | None:
        """Return the activity of a workload; None if it holds no GPUs, or nothing measures them."""
        measured = self.measured().get(workload.key)
        return (
            None if measured is None else activity_row(measured.activity, measured.since_s, workload.object)
        )

    def idle_rules(self, workload: WorkloadIndexEntry) -> IdleRulesRow | None:
        """Return the idle times after which the rules act on a workload; None if nothing measures the use."""
        if not self._use().at_s:
            return None
        return self._backend.read(partial(_idle_rules, workload=workload, rules=self._policy().life))

    def measured(self) -> Mapping[str, MeasuredUse]:
        """Return the workloads of the newest reading of the use."""
        return self._use().workloads

    async def why(self, workload: WorkloadIndexEntry, *, all_namespaces: bool, wait_s: float) -> WhyAnswer:
        """Return the reason of a pending workload, its queues' numbers, and suggested changes."""
        row = workload.row(self._clock())
        queues = self._queues(row.project, all_namespaces=all_namespaces)
        answer = WhyAnswer(
            name=row.name,
            status=row.status,
            reason=row.reason,
            evicted=row.evicted,
            activity=self.activity(workload),
            queues=queues,
        )
        if row.status != "pending" or not self._is_scheduled(workload):
            return answer
        place, waiting = await self._place(row.name)
        answer = answer.model_copy(update={"position": place, "waiting": waiting})
        if not all_namespaces:
            return answer.model_copy(update={"withheld": True})
        # A later workload may have the same name, but has another uid
        key = workload.key, workload.object.spec.owner.uid
        tried = await self._kept.find(
            key, None, partial(self._suggestions, workload), wait_s
        )  # a large cluster changes all the time, and trials take seconds
        return with_suggestions_found(answer, tried)

    async def decision(self, workload: WorkloadIndexEntry) -> DecisionAnswer:
        """Return how the nodes score for a workload, and the victims that it may evict.

        Raises:
            QueryRefused: it can't be placed now, or nothing is known yet.
        """
        decision = await self._read_state(lambda ask: ask(partial(explain_decision, name=workload.key)))
        if decision is None:
            raise QueryRefused(
                409, f"{workload.key} can't be placed now; `weir why {workload.key}` says why."
            )
        return decision

    async def preview(self, kind: str, name: str, spec: Mapping[str, Any]) -> PreviewedChange:
        """Return the effect of a spec of a department or project on the next decision.

        Raises:
            QueryRefused: the spec can't be used, or nothing is known yet.
        """
        tree = self._backend.read(lambda state: state.quota_objects.with_spec(kind, name, spec))
        if (refused := tree.refused.get((kind, name))) is not None:
            raise QueryRefused(422, _as_sentence(refused))
        previewed = await self._read_state(lambda ask: ask(partial(preview_queues, queues=tree.queues)))
        if (remark := tree.remarks.get((kind, name))) is not None:
            previewed.warnings.append(_as_sentence(remark))
        return previewed

    # Answers about the cluster

    def queues(self) -> Mapping[str, QueueRow]:
        """Return projects and departments by name, as of some seconds ago."""
        return self._numbers().queues

    async def nodes(self) -> list[NodeRow]:
        """Return the nodes, some at a time, so that the scheduler isn't kept waiting."""
        rows: list[NodeRow] = []
        count = await self._ask(lambda cluster: len(cluster.nodes))
        for start in range(0, count, NODES_AT_A_TIME):
            positions = range(start, min(count, start + NODES_AT_A_TIME))
            rows += await self._ask(partial(self._rows_of_nodes, positions=positions))
        return rows

    async def status(self) -> PoolStatus:
        """Return a summary of the cluster."""
        policy = self._policy()
        return await self._ask(
            lambda cluster: pool_status(
                cluster,
                self._uses(cluster, range(len(cluster.nodes))),
                policy,
                version=__version__,
                started_s=self._started_s,
            )
        )

    async def snapshot(self) -> str:
        """Return a scenario that replays the next decision."""
        policy = self._policy()
        read = await self._ask(lambda cluster: read_cluster(cluster, policy))
        return await self._on_worker(partial(snapshot, read, read.now_s))

    # Below

    def _rows_of_nodes(self, cluster: Cluster, positions: range) -> list[NodeRow]:
        return rows_of_nodes(cluster, self._uses(cluster, positions), positions, self._use().devices)

    def _uses(self, cluster: Cluster, positions: range) -> DeviceUses:
        """Return the use of devices on nodes; the state is locked for some of them at a time."""
        names = [node.name for _, node in nodes_at(cluster, positions)]
        uses: dict[str, NodeDeviceUsage | None] = {}
        for start in range(0, len(names), NODES_AT_A_TIME):
            part = names[start : start + NODES_AT_A_TIME]
            uses |= self._backend.read(partial(_device_uses, names=part))
        return uses

    async def _ask(self, look: Callable[[Cluster], T], within_s: float = QUERY_S) -> T:
        """Return the result of reading the cluster on the control thread.

        Raises:
            QueryRefused: it doesn't answer now.
        """
        control = self._control()
        if control is None:
            raise QueryRefused(503, _STARTING)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(control.query(look)), within_s)
        except TimeoutError:
            raise QueryRefused(503, "The scheduler has no time to answer now: try again.") from None
        except ControlUnavailable as error:
            raise QueryRefused(503, f"{error} Try again in some seconds.") from None

    async def _read_state(self, work: Callable[[StateReader], T]) -> T:
        """Call a function on the worker with a reader of the state that decisions are made from.

        Raises:
            QueryRefused: nothing can be read now.
        """
        control = self._control()
        if control is None:
            raise QueryRefused(503, _STARTING)
        try:
            return await self._on_worker(partial(work, reader_of(control)))
        except ControlUnavailable as error:
            raise QueryRefused(503, f"{error} Try again in some seconds.") from None

    async def _on_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def _queues(self, project: str, *, all_namespaces: bool) -> list[QueueRow]:
        """Return a project and the departments above it; without the right to all, the project alone."""
        stuck = self._numbers().unschedulable
        rows = ancestor_rows(self.queues(), project)
        return [
            row.model_copy(update={"pending": row.pending + stuck.get(row.name, 0)})  # as the list counts
            for row in (rows if all_namespaces else rows[:1])
        ]

    def _is_scheduled(self, workload: WorkloadIndexEntry) -> bool:
        """Return True if the engine knows a workload: it isn't refused, and its owner was read."""

        def reported(state: ClusterState) -> bool:
            gang = state.registry.named.get(workload.key)
            return gang is not None and gang.reported is not None

        return self._backend.read(reported)

    async def _place(self, name: str) -> tuple[int | None, int]:
        try:
            return await self._ask(partial(queue_position, name=name), PLACE_S)
        except QueryRefused:
            return None, 0

    async def _suggestions(self, workload: WorkloadIndexEntry) -> SuggestionsFound:
        try:
            classes, owner = self._backend.read(partial(_surroundings, workload=workload))
            reason = workload.object.status.reason
            is_gate = reason is not None and reason.why != _SUSPENDED
            possible = SuggestionOptions(
                PRIORITY_MAX, tuple(sorted(set(classes))), shares=False, others_make=True
            )
            outcome = await self._read_state(
                partial(_suggested, name=workload.key, possible=possible, is_gate=is_gate)
            )
        except QueryRefused:
            return SuggestionsFound()
        except Exception as error:  # noqa: BLE001 - the reason is answered without suggestions
            _LOG.error("suggestions_failed", workload=workload.key, exc_info=error)
            return SuggestionsFound()
        told = [
            advised(suggestion, workload.key, owner, self._gpu_resource, classes)
            for suggestion in outcome.suggestions
        ]
        return SuggestionsFound(tuple(told), outcome.untried)


def _pods(state: ClusterState, uid: str, key: str) -> list[TrackedPod]:
    """Return the pods of a workload, those that are over too."""
    gang = state.registry.named.get(key)
    if gang is None or gang.key.uid != uid:
        return []
    prefix = f"{gang.key.namespace}/"
    pods = [
        tracked
        for name, tracked in state.pods.by_key.items()
        if name.startswith(prefix)
        and (tracked.gang is gang or (tracked.info is not None and tracked.info.gang == gang.key))
    ]
    return sorted(pods, key=lambda tracked: tracked.name)


def _idle_rules(
    state: ClusterState, workload: WorkloadIndexEntry, rules: LifecyclePolicy
) -> IdleRulesRow | None:
    gang = state.registry.named.get(workload.key)
    if gang is None or gang.reported is None or gang.key.uid != workload.object.spec.owner.uid:
        return None
    projects = (queue for queue in state.quota_objects.tree.queues if queue.is_project)
    project = next((queue for queue in projects if queue.name == gang.project), None)
    can_suspend = not suspension_refusal(gang, state.resolver.owners)
    return idle_rules_row(gang.reported, project, rules, can_suspend=can_suspend)


def _as_sentence(remark: str) -> str:
    return f"{remark[:1].upper()}{remark[1:].rstrip('.')}."


def _device_uses(state: ClusterState, names: Sequence[str]) -> dict[str, NodeDeviceUsage | None]:
    return {name: state.node_states.device_use(name) for name in names}


def _surroundings(state: ClusterState, workload: WorkloadIndexEntry) -> tuple[Mapping[int, str], Owner]:
    """Return PriorityClasses by value, and the owner of a workload's pods."""
    names = sorted((value, name) for name, value in state.resolver.priorities.items())
    classes = {value: name for value, name in reversed(names) if not name.startswith(_SYSTEM_CLASSES)}
    gang = state.registry.named.get(workload.key)
    head = None if gang is None else gang.head
    stated = {
        f"{PREFIX}{name}"
        for name, field in _ANNOTATED.items()
        if head is not None and getattr(head.annotations, field) is not None
    }
    held = None if head is None else head.derived.stated_suspension
    resumer, resume = ("", "") if held is None else (held.resumer, held.command)
    return classes, Owner(workload.namespace, workload.object.spec.owner, stated, resumer, resume)


def _suggested(
    ask: StateReader, *, name: str, possible: SuggestionOptions, is_gate: bool
) -> SuggestionsFound:
    """Return the successful suggestions; `is_gate`: the workload is held by a gate that no person opens."""
    is_open = ask(
        lambda state: name in state.cluster.jobs and not (is_gate and state.cluster.jobs[name].held)
    )
    try:
        return suggestions(ask, name, possible) if is_open else SuggestionsFound()
    except KeyError:  # the workload has ended
        return SuggestionsFound()
