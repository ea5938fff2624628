"""REST calls of a pool, answered from a cluster's objects."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from weir import __version__
from weir.api.answers import (
    EventPage,
    Explanation,
    NodePage,
    PoolStatus,
    QueueRow,
    Status,
    WhyAnswer,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from weir.api.decision import DecisionAnswer
from weir.api.submissions import Submission
from weir.cli.cluster import objects
from weir.cli.cluster.advice import Owner, advised
from weir.cli.cluster.errors import not_here, refused, wrong
from weir.cli.cluster.installation import InstallationView, read_installation
from weir.cli.cluster.job import job_of
from weir.cli.cluster.lookup import JOBS, Lookup
from weir.cli.cluster.queue_objects import list_queues
from weir.cli.cluster.rows import LEADER, at_s, event_rows, memory_isolation, name_of, pod_rows, workload_row
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.leader_election import Lease
from weir.kubernetes.api.objects import ApiObject, KubePod, PriorityClass
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.crd.schemas import API_VERSION
from weir.model.resources import seconds
from weir.model.workloads import DEFAULT_PRIORITY, PREEMPTIBLE_BELOW, WorkloadType

if TYPE_CHECKING:
    from weir.kubernetes.crd.scheduler_config import SchedulerSettings
    from weir.kubernetes.process.inspection import ClusterInspection

_EVENTS_SHOWN = 20
_LIVE = ("pending", "starting", "running", "stopping")
_SYSTEM_CLASSES = "system-"
"""PriorityClasses of Kubernetes itself begin like this."""


class ClusterQueries:
    """Answers about one cluster: `within` is the default namespace, `home` Weir's own."""

    def __init__(self, api: ApiClient, within: str, home: str, *, namespace: str | None) -> None:
        self._api = api
        self._lookup = Lookup(api, within, namespace)
        self._home = home

    # Workloads

    async def workloads(self, params: Mapping[str, str]) -> WorkloadPage:
        """Return the requested workloads, newest first."""
        rows = [workload_row(each) for each in await self._lookup.workloads()]
        rows = [row for row in rows if _is_wanted(row, params)]
        rows.sort(key=lambda row: (-row.submitted_s, row.name))
        limit, skipped = int(params.get("limit", "100")), int(params.get("after", "0"))
        page = rows[skipped : skipped + limit]
        more = skipped + limit < len(rows)
        return WorkloadPage(total=len(rows), items=page, next=str(skipped + limit) if more else None)

    async def workload(self, name: str) -> WorkloadDetail:
        """Return all details of a workload."""
        workload = await self._lookup.workload(name)
        row = workload_row(workload)
        pods = await self._lookup.pods_of(workload)
        events = [event for event in await self._events([workload]) if event.workload == row.name]
        return WorkloadDetail(
            **row.model_dump(exclude={"reason"}),
            reason=row.reason,
            pod_rows=pod_rows(workload, pods),
            max_runtime_s=_seconds(workload.spec.max_runtime),
            checkpointed_s=at_s(workload.status.checkpointed_at),
            **memory_isolation(workload),
            events=events[-_EVENTS_SHOWN:],
        )

    async def why(self, name: str) -> WhyAnswer:
        """Return why a workload is pending."""
        workload = await self._lookup.workload(name)
        row = workload_row(workload)
        pods = await self._lookup.pods_of(workload)
        other = await self._other_scheduler(workload, pods)
        if other is not None:
            return other
        try:
            inspection, installed, classes = await asyncio.gather(
                self._inspection(), read_installation(self._api, self._home), self._classes()
            )
            answer = inspection.why(row, list(classes))
            annotations = {key for pod in pods for key in pod.metadata.annotations}
            owner = Owner(workload.metadata.namespace, workload.spec.owner, annotations)
            advice = [
                advised(each, row.name, owner, installed.gpu_resource, classes) for each in answer.suggestions
            ]
            return answer.model_copy(update={"suggestions": advice})
        except ApiRefused as error:
            if error.status != 403:  # suggestions need the right to read the whole cluster
                raise
        queues = await self._queues_above(row.project)
        ahead = await self._ahead(row)
        return WhyAnswer(
            name=row.name,
            status=row.status,
            reason=row.reason,
            evicted=row.evicted,
            position=None if row.status != "pending" else 1 + ahead.index(row.name),
            waiting=len(ahead),
            queues=queues,
        )

    async def decision(self, name: str) -> DecisionAnswer:
        """Return how the nodes score for a workload, and the victims that it may evict.

        Raises:
            ApiRefused: the person may not read the whole cluster.
            PoolError: it can't be placed now.
        """
        row = workload_row(await self._lookup.workload(name))
        found = (await self._inspection()).decision(row.name)
        if found is None:
            raise refused(409, f"{row.name} can't be placed now; `weir why {row.name}` says why.")
        return found

    async def _other_scheduler(self, workload: WorkloadObject, pods: Sequence[KubePod]) -> WhyAnswer | None:
        """Return the answer for pods of another scheduler; None for those of Weir or without a scheduler."""
        if workload.status.phase not in ("", "Pending") or workload.status.reason is not None:
            return None
        installed = await read_installation(self._api, self._home)
        others = [pod for pod in pods if pod.spec.scheduler_name not in ("", installed.scheduler)]
        if not others or len(others) < len(pods):
            return None
        running = sum(pod.status.phase == "Running" for pod in others)
        sentence = (
            f"it isn't scheduled by Weir: its pods name the scheduler {others[0].spec.scheduler_name}, "
            f"and {running} of {len(pods)} run; pods with schedulerName: {installed.scheduler} are scheduled "
            f"by Weir"
        )
        reason = Explanation(why="other_scheduler", sentence=sentence)
        status: Status = "running" if running else "pending"
        return WhyAnswer(name=name_of(workload), status=status, reason=reason)

    async def _classes(self) -> dict[int, str]:
        """Return the names of usable PriorityClasses by value; the first one of equal value."""
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        found = await self._api.list_all(path, PriorityClass)
        names = sorted((each.value, each.metadata.name) for each in found)
        return {value: name for value, name in reversed(names) if not name.startswith(_SYSTEM_CLASSES)}

    async def _queues_above(self, project: str) -> list[QueueRow]:
        """Return a project and its departments, bottom up."""
        pages = await asyncio.gather(
            list_queues(self._api, "projects"), list_queues(self._api, "departments")
        )
        rows = {row.name: row for page in pages for row in page.items}
        found, name = [], project
        while name in rows and rows[name] not in found:
            found.append(rows[name])
            name = rows[name].parent or ""
        return found

    async def _ahead(self, row: WorkloadRow) -> list[str]:
        """Return the pending workloads of its project in the order of the queue."""
        rows = [workload_row(each) for each in await self._lookup.workloads()]
        waiting = [each for each in rows if each.project == row.project and each.status == "pending"]
        waiting.sort(key=lambda each: (-each.priority, each.submitted_s, each.name))
        return [each.name for each in waiting] if row.status == "pending" else []

    async def submit(self, body: bytes) -> WorkloadDetail:
        """Create a Job."""
        words = msgspec.json.decode(body)
        try:
            submission = Submission.model_validate(words)
        except ValidationError as error:
            raise wrong(str(error)) from None
        if not submission.image:
            raise wrong("no image is named: write --image IMAGE, what the pods run")
        namespace = await self._lookup.namespace_of(submission.project)
        classes = await self._api.list_all("/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass)
        names = {each.value: each.metadata.name for each in classes}
        installed = await read_installation(self._api, self._home)
        job = job_of(submission, words, submission.image, names, installed)
        created = await self._api.post(path_of(JOBS, "jobs", namespace), job, ApiObject)
        return _queued(submission, namespace, created)

    async def act(self, name: str, action: str) -> WorkloadRow:
        """Stop, suspend or resume a workload through the owner of its pods."""
        workload = await self._lookup.workload(name)
        owner, namespace = workload.spec.owner, workload.metadata.namespace
        if owner.kind != "Job" or owner.api_version != JOBS:
            verb = {"stop": "delete", "suspend": "edit", "resume": "edit"}[action]
            command = f"kubectl {verb} -n {namespace} {owner.kind.lower()} {owner.name}"
            raise not_here(
                f"{name_of(workload)} is made by a {owner.kind}, which does this itself: {command}"
            )
        path = path_of(JOBS, "jobs", namespace, owner.name)
        row = workload_row(workload)
        if action == "stop":
            await self._api.delete(path, uid=owner.uid, propagation="Background")
        else:
            change = {"spec": {"suspend": action == "suspend"}}
            await self._api.patch(path, change, Patch.MERGE, ApiObject)
        return row

    # The cluster

    async def nodes(self) -> NodePage:
        """Return the nodes."""
        rows = (await self._inspection()).nodes()
        return NodePage(total=len(rows), items=rows)

    async def status(self) -> PoolStatus:
        """Return a summary of the cluster."""
        inspection, lease = await asyncio.gather(
            self._inspection(),
            self._lookup.find(path_of("coordination.k8s.io/v1", "leases", self._home, "weir"), Lease),
        )
        started_s = None if lease is None else at_s(lease.spec.acquire_time)
        return inspection.status(__version__, started_s or time.time())

    async def snapshot(self) -> str:
        """Return a scenario that replays the next decision."""
        return (await self._inspection()).snapshot()

    async def events(self, params: Mapping[str, str]) -> EventPage:
        """Return events, newest first."""
        name, project, kind = (params.get(key) for key in ("workload", "project", "kind"))
        found = [await self._lookup.workload(name)] if name else await self._lookup.workloads()
        wanted = name_of(found[0]) if name else None
        rows = [
            row
            for row in await self._events(found)
            if wanted in (None, row.workload) and project in (None, row.project) and kind in (None, row.kind)
        ]
        rows.reverse()
        limit = int(params.get("limit", "100"))
        return EventPage(total=len(rows), items=rows[:limit])

    async def _events(self, workloads: Sequence[WorkloadObject]) -> list[Any]:
        found = await self._lookup.list_everywhere("events.k8s.io/v1", "events", objects.EventView)
        return event_rows((each for each in found if each.reporting_controller == LEADER), workloads)

    async def _inspection(self) -> "ClusterInspection":
        from weir.kubernetes.process.inspection import inspect_cluster

        installed = await read_installation(self._api, self._home)
        return await inspect_cluster(self._api, await self._settings(installed), installed.scheduler)

    async def _settings(self, installed: InstallationView) -> "SchedulerSettings":
        """Return the settings in force, from the scheduler's status."""
        from weir.kubernetes.crd.objects import QuotaObject
        from weir.kubernetes.crd.scheduler_config import PLURAL, SchedulerSettings, settings_of
        from weir.kubernetes.crd.schemas import InvalidObject
        from weir.model.policy import Policy

        base = SchedulerSettings(
            Policy(), devices=installed.devices, without_project=installed.without_project
        )
        found = await self._lookup.find(path_of(API_VERSION, PLURAL, name=installed.scheduler), QuotaObject)
        if found is None:
            return base
        written = found.status.get("inForce")
        try:
            return settings_of(msgspec.json.decode(written) if written else found.spec, base)
        except (InvalidObject, msgspec.DecodeError):
            return base


def _queued(submission: Submission, namespace: str, job: ApiObject) -> WorkloadDetail:
    """Return the workload that a new Job will become."""
    pods = submission.pods[0]
    gpus_each = (pods.devices or 1) * pods.gpus / 1000 if pods.gpus < 1000 else pods.gpus / 1000
    priority = (
        DEFAULT_PRIORITY[WorkloadType(submission.type)]
        if submission.priority is None
        else submission.priority
    )
    return WorkloadDetail(
        uid=int(job.metadata.uid.replace("-", "")[:15] or "0", 16),
        name=f"{namespace}/job-{job.metadata.name}",
        project=submission.project,
        user="",
        type=submission.type,
        status="pending",
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW
        if submission.preemptible is None
        else submission.preemptible,
        devices=gpus_each * pods.count,
        pods=pods.count,
        pods_running=0,
        submitted_s=at_s(job.metadata.creation_timestamp) or time.time(),
        command=submission.command,
    )


def _is_wanted(row: WorkloadRow, params: Mapping[str, str]) -> bool:
    statuses = [word for word in params.get("status", "").split(",") if word]
    if statuses and row.status not in statuses:
        return False
    if not statuses and params.get("all") != "true" and row.status not in _LIVE:
        return False
    wanted = (
        (params.get("project"), row.project),
        (params.get("type"), row.type),
        (params.get("user"), row.user),
    )
    return all(value in (None, is_) for value, is_ in wanted) and params.get("q", "") in row.name


def _seconds(written: str | None) -> float | None:
    return None if written is None else seconds(written)
