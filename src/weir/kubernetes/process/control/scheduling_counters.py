"""Counters of waits, evictions, ends and cycles, by project and rule.

The control thread writes them, metrics read them. Deleted projects lose their series, and a cluster with
very many projects has one series for the rest.
"""

from collections import Counter
from collections.abc import Collection
from typing import TypeVar

from weir.engine.plan import Plan
from weir.service.metric_families import DECISION_BOUNDS_S, WAIT_BOUNDS_S, Histogram
from weir.state.cluster import Cluster
from weir.state.events import Event, PodAssigned, WorkloadChanged, WorkloadEnded, WorkloadSubmitted
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW

PROJECTS_MAX = 1_000
"""Limit of projects with time series of their own."""
REST = "_other"
"""The label of all further projects; no project can be called so."""
CYCLE_BOUNDS_S = (*DECISION_BOUNDS_S, 2.5, 5.0, 10.0)
Value = TypeVar("Value")


class SchedulingCounters:
    """Counts since this process began."""

    def __init__(self) -> None:
        self.waits: dict[str, Histogram] = {}  # time to the first pod's placement, by project
        self.quota_waits: dict[str, Histogram] = {}  # the same for workloads in quota
        self.replica_waits: dict[str, Histogram] = {}  # time to the GPUs of a service's replica, by project
        self.evictions: Counter[tuple[str, str]] = Counter()  # evicted workloads by rule and project
        self.evicted_pods: Counter[str] = Counter()  # by rule
        self.moves = 0
        self.ends: Counter[tuple[str, str]] = Counter()  # ended workloads by project and outcome
        self.decisions = Histogram(DECISION_BOUNDS_S)
        self.cycles = Histogram(CYCLE_BOUNDS_S)
        self.connects = 0  # number of starts of control
        self._projects: set[str] = set()
        self._project_of: dict[str, str] = {}  # projects of workloads that haven't ended
        self._started: dict[str, float] = {}  # counted start by workload
        self._connected_s = 0.0

    def connected(self, now_s: float) -> None:
        """Record that control connects: its first facts happened earlier and aren't counted."""
        self.connects += 1
        self._connected_s = now_s
        self._started.clear()
        self._project_of.clear()

    def label(self, project: str) -> str:
        """Return the label of a project."""
        if project not in self._projects:
            if len(self._projects) >= PROJECTS_MAX:
                return REST
            self._projects.add(project)
        return project

    def keep(self, projects: Collection[str]) -> None:
        """Drop the series of projects that aren't among these."""
        if self._projects <= {*projects}:
            return
        self._projects.intersection_update(projects)
        projects = {*self._projects, REST}
        self.waits = _of_projects(self.waits, projects)
        self.quota_waits = _of_projects(self.quota_waits, projects)
        self.replica_waits = _of_projects(self.replica_waits, projects)
        for counter, position in ((self.evictions, 1), (self.ends, 0)):
            for key in [key for key in counter if key[position] not in projects]:
                del counter[key]

    def happened(self, cluster: Cluster, event: Event) -> None:
        """Count an event that was just reduced."""
        if isinstance(event, WorkloadSubmitted | WorkloadChanged):
            self._project_of[event.workload.name] = event.workload.project
        elif isinstance(event, PodAssigned):
            job = cluster.jobs.get(event.place.pod.workload)
            if job is not None and self._started.get(job.name) != job.started_s:
                self._started[job.name] = job.started_s or 0.0
                if event.at_s >= self._connected_s:
                    self._waited(cluster, job, event)
        elif isinstance(event, WorkloadEnded):
            self._started.pop(event.workload, None)
            project = self._project_of.pop(event.workload, None)
            if project is not None:
                self.ends[self.label(project), event.how.value] += 1

    def _waited(self, cluster: Cluster, job: Job, event: PodAssigned) -> None:
        project = self.label(job.spec.project)
        waited_s = max(0.0, event.at_s - job.waits_since_s)
        self.waits.setdefault(project, Histogram(WAIT_BOUNDS_S)).add(waited_s)
        if _within_quota(cluster, job, event):
            self.quota_waits.setdefault(project, Histogram(WAIT_BOUNDS_S)).add(waited_s)

    def replica_waited(self, cluster: Cluster, event: PodAssigned, waited_s: float) -> None:
        """Count the wait of a replica of a service, from its creation until GPUs are allocated to it."""
        job = cluster.jobs.get(event.place.pod.workload)
        if job is not None and event.at_s >= self._connected_s:
            project = self.label(job.spec.project)
            self.replica_waits.setdefault(project, Histogram(WAIT_BOUNDS_S)).add(waited_s)

    def decided(self, cluster: Cluster, plan: Plan, took_s: float) -> None:
        """Count evictions: each workload once, and each pod."""
        self.decisions.add(took_s)
        for eviction in plan.evictions:
            self.evicted_pods[eviction.cause.rule.value] += 1
        for name, rule in plan.stopped().items():
            job = cluster.jobs.get(name)
            if rule is None:
                self.moves += 1
            elif job is not None:
                self.evictions[rule.value, self.label(job.spec.project)] += 1


def _of_projects(values: dict[str, Value], projects: Collection[str]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name in projects}


def _within_quota(cluster: Cluster, job: Job, event: PodAssigned) -> bool:
    """Return True if all queues of a workload stay within their quota of devices with its whole gang.

    A pod of it was just counted.
    """
    key, ledger = event.place.pod, cluster.ledger
    pod = job.pods[key.group][key.index]
    gang = zip(job.requests, job.needed, strict=True)
    whole = sum(milli * need for ask, need in gang for row, milli in ask if row == GPU_ROW)
    extra_milli = whole - pod.charge_milli()
    return all(
        ledger.allocated[queue][GPU_ROW] + extra_milli <= ledger.quota[queue][GPU_ROW] for queue in job.path
    )
