"""REST calls of a pool, answered from a cluster's objects."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pydantic import ValidationError

from weir import __version__
from weir.api.answers import (
    EventPage,
    Explanation,
    NodePage,
    PoolStatus,
    QueuePage,
    QueueRow,
    Status,
    WhyAnswer,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from weir.api.submissions import Submission
from weir.cli.cluster import objects
from weir.cli.cluster.advice import Owner, advised
from weir.cli.cluster.errors import not_here, refused, wrong
from weir.cli.cluster.installation import InstallationView, read_installation
from weir.cli.cluster.job import job_of
from weir.cli.cluster.objects import ListedWorkload
from weir.cli.cluster.rows import LEADER, at_s, event_rows, name_of, pod_rows, queue_row, workload_row
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import ApiRefused, NotFound
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION, camel
from weir.model.resources import seconds
from weir.model.workloads import DEFAULT_PRIORITY, PREEMPTIBLE_BELOW, WorkloadType

if TYPE_CHECKING:
    from weir.kubernetes.crd.scheduler_config import SchedulerSettings
    from weir.kubernetes.process.inspection import ClusterInspection

JOBS = "batch/v1"
_EVENTS_SHOWN = 20
_LIVE = ("pending", "starting", "running", "stopping")
_KINDS = {"projects": "Project", "departments": "Department"}
_NAMED_MOST = 8
_SYSTEM_CLASSES = "system-"
"""PriorityClasses of Kubernetes itself begin like this."""
Thing = TypeVar("Thing")


class ClusterQueries:
    """Answers about one cluster: `within` is the default namespace, `home` Weir's own."""

    def __init__(
        self, api: ApiClient, within: str, home: str, *, namespace: str | None, image: str | None
    ) -> None:
        self._api = api
        self._within = namespace or within
        self._home = home
        self._namespace = namespace
        self._image = image

    # Workloads

    async def workloads(self, params: Mapping[str, str]) -> WorkloadPage:
        """Return the requested workloads, newest first."""
        rows = [workload_row(each) for each in await self._things()]
        rows = [row for row in rows if _is_wanted(row, params)]
        rows.sort(key=lambda row: (-row.submitted_s, row.name))
        limit, skipped = int(params.get("limit", "100")), int(params.get("after", "0"))
        page = rows[skipped : skipped + limit]
        more = skipped + limit < len(rows)
        return WorkloadPage(total=len(rows), items=page, next=str(skipped + limit) if more else None)

    async def workload(self, name: str) -> WorkloadDetail:
        """Return all details of a workload."""
        found = await self._thing(name)
        row = workload_row(found)
        pods = await self._pods_of(found)
        events = [each for each in await self._events([found]) if each.workload == row.name]
        return WorkloadDetail(
            **row.model_dump(exclude={"reason"}),
            reason=row.reason,
            pod_rows=pod_rows(found, pods),
            max_runtime_s=_seconds(found.spec.max_runtime),
            checkpointed_s=at_s(found.status.checkpointed_at),
            events=events[-_EVENTS_SHOWN:],
        )

    async def why(self, name: str) -> WhyAnswer:
        """Return why a workload is pending."""
        found = await self._thing(name)
        row = workload_row(found)
        pods = await self._pods_of(found)
        other = await self._other_scheduler(found, pods)
        if other is not None:
            return other
        try:
            glance, installed, classes = await asyncio.gather(
                self._glance(), read_installation(self._api, self._home), self._classes()
            )
            answer = glance.why(row, list(classes))
            said = {key for pod in pods for key in pod.metadata.annotations}
            owner = Owner(found.metadata.namespace, found.spec.owner, said)
            advice = [
                advised(each, row.name, owner, installed.gpu_resource, classes) for each in answer.suggestions
            ]
            return answer.model_copy(update={"suggestions": advice})
        except (
            ApiRefused
        ) as error:  # what would let it start can be tried by those alone who may see everything
            if error.status != 403:
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

    async def _other_scheduler(
        self, found: ListedWorkload, pods: Sequence[objects.ListedPod]
    ) -> WhyAnswer | None:
        """Return the answer for pods of another scheduler; None for those of Weir or without a scheduler."""
        if found.status.phase != "Pending" or found.status.reason is not None:
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
        return WhyAnswer(name=name_of(found), status=status, reason=reason)

    async def _classes(self) -> dict[int, str]:
        """Return the names of usable PriorityClasses by value; the first one of equal value."""
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        found = await self._api.list_all(path, objects.PriorityClassView)
        names = sorted((each.value, each.metadata.name) for each in found)
        return {value: name for value, name in reversed(names) if not name.startswith(_SYSTEM_CLASSES)}

    async def _queues_above(self, project: str) -> list[QueueRow]:
        """Return a project and its departments, bottom up."""
        pages = await asyncio.gather(self.queues("projects"), self.queues("departments"))
        rows = {row.name: row for page in pages for row in page.items}
        found, name = [], project
        while name in rows and rows[name] not in found:
            found.append(rows[name])
            name = rows[name].parent or ""
        return found

    async def _ahead(self, row: WorkloadRow) -> list[str]:
        """Return the pending workloads of its project in the order of the queue."""
        rows = [workload_row(each) for each in await self._things()]
        waiting = [each for each in rows if each.project == row.project and each.status == "pending"]
        waiting.sort(key=lambda each: (-each.priority, each.submitted_s, each.name))
        return [each.name for each in waiting] if row.status == "pending" else []

    async def submit(self, body: bytes) -> WorkloadDetail:
        """Create a Job."""
        if not self._image:
            raise wrong("no image is named: write --image IMAGE, what the pods run")
        words = msgspec.json.decode(body)
        try:
            asked = Submission.model_validate(words)
        except ValidationError as error:
            raise wrong(str(error)) from None
        namespace = await self._namespace_of(asked.project)
        classes = await self._api.list_all(
            "/apis/scheduling.k8s.io/v1/priorityclasses", objects.PriorityClassView
        )
        names = {each.value: each.metadata.name for each in classes}
        installed = await read_installation(self._api, self._home)
        job = job_of(asked, words, self._image, names, installed)
        made = await self._api.post(path_of(JOBS, "jobs", namespace), job, ApiObject)
        return _queued(asked, namespace, made)

    async def act(self, name: str, act: str) -> WorkloadRow:
        """Stop, suspend or resume a workload through the owner of its pods."""
        found = await self._thing(name)
        owner, namespace = found.spec.owner, found.metadata.namespace
        if owner.kind != "Job" or owner.api_version != JOBS:
            verb = {"stop": "delete", "suspend": "edit", "resume": "edit"}[act]
            whole = f"kubectl {verb} -n {namespace} {owner.kind.lower()} {owner.name}"
            raise not_here(
                f"{name_of(found)} is made by a {owner.kind}, which does this in its own way: {whole}"
            )
        path = path_of(JOBS, "jobs", namespace, owner.name)
        row = workload_row(found)
        if act == "stop":
            await self._api.delete(path, uid=owner.uid, propagation="Background")
        else:
            change = {"spec": {"suspend": act == "suspend"}}
            await self._api.patch(path, change, Patch.MERGE, ApiObject)
        return row

    # Queues

    async def queues(self, kind: str) -> QueuePage:
        """Return all projects, or all departments."""
        found = await self._api.list_all(path_of(API_VERSION, kind), objects.ListedQueue)
        rows = [queue_row(each, is_project=kind == "projects") for each in found]
        rows.sort(key=lambda row: row.name)
        return QueuePage(total=len(rows), items=rows)

    async def queue(self, method: str, kind: str, name: str, body: bytes) -> QueueRow | None:
        """Read, set or delete a project or department."""
        path = path_of(API_VERSION, kind, name=name)
        try:
            if method == "DELETE":
                await self._api.delete(path)
                return None
            if method == "PUT":
                found = await self._put(kind, name, msgspec.json.decode(body))
            else:
                found = await self._api.get(path, objects.ListedQueue)
        except NotFound:
            known = f"`weir {kind[:-1]} list` shows which there are"
            raise refused(404, f"There is no {kind[:-1]} {name}; {known}.") from None
        return queue_row(found, is_project=kind == "projects")

    async def _put(self, kind: str, name: str, words: dict[str, Any]) -> objects.ListedQueue:
        """Create a queue, or replace its spec except for its namespaces."""
        path, spec = path_of(API_VERSION, kind, name=name), _spec(words)
        try:
            before = await self._api.get(path, objects.ListedQueue)
        except NotFound:
            body = {"apiVersion": API_VERSION, "kind": _KINDS[kind], "metadata": {"name": name}, "spec": spec}
            return await self._api.post(path_of(API_VERSION, kind), body, objects.ListedQueue)
        kept = {key: value for key, value in before.spec.items() if key == "namespaces" and key not in spec}
        gone = dict.fromkeys(set(before.spec) - set(spec) - set(kept))
        for key, old in before.spec.items():
            if isinstance(old, dict) and isinstance(spec.get(key), dict):
                spec[key] = {**dict.fromkeys(old), **spec[key]}
        return await self._api.patch(path, {"spec": {**gone, **spec}}, Patch.MERGE, objects.ListedQueue)

    # The whole

    async def nodes(self) -> NodePage:
        """Return the nodes."""
        rows = (await self._glance()).nodes()
        return NodePage(total=len(rows), items=rows)

    async def status(self) -> PoolStatus:
        """Return a summary of the cluster."""
        glance, lease = await asyncio.gather(
            self._glance(),
            self._maybe(path_of("coordination.k8s.io/v1", "leases", self._home, "weir"), objects.LeaseView),
        )
        started_s = None if lease is None else at_s(lease.spec.acquire_time)
        return glance.status(__version__, started_s or time.time())

    async def snapshot(self) -> str:
        """Return a scenario that replays the next decision."""
        return (await self._glance()).snapshot()

    async def events(self, params: Mapping[str, str]) -> EventPage:
        """Return events, newest first."""
        name, project, kind = (params.get(key) for key in ("workload", "project", "kind"))
        found = [await self._thing(name)] if name else await self._things()
        wanted = name_of(found[0]) if name else None
        rows = [
            row
            for row in await self._events(found)
            if wanted in (None, row.workload) and project in (None, row.project) and kind in (None, row.kind)
        ]
        rows.reverse()
        limit = int(params.get("limit", "100"))
        return EventPage(total=len(rows), items=rows[:limit])

    async def _events(self, workloads: Sequence[ListedWorkload]) -> list[Any]:
        found = await self._everywhere("events.k8s.io/v1", "events", objects.EventView)
        return event_rows((each for each in found if each.reporting_controller == LEADER), workloads)

    # What is looked up

    async def _glance(self) -> "ClusterInspection":
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
        found = await self._maybe(path_of(API_VERSION, PLURAL, name=installed.scheduler), QuotaObject)
        if found is None:
            return base
        written = found.status.get("inForce")
        try:
            return settings_of(msgspec.json.decode(written) if written else found.spec, base)
        except (InvalidObject, msgspec.DecodeError):
            return base

    async def _maybe(self, path: str, of: type[Thing]) -> Thing | None:
        """Return an object; None if it doesn't exist or can't be read."""
        try:
            return await self._api.get(path, of)
        except ApiRefused as error:
            if error.status not in (403, 404):
                raise
            return None

    async def _everywhere(self, api_version: str, resource: str, of: type[Thing]) -> list[Thing]:
        """Return the objects of all namespaces, or of the default one if only that may be read."""
        if self._namespace is None:
            try:
                return await self._api.list_all(path_of(api_version, resource), of)
            except ApiRefused as error:
                if error.status != 403:
                    raise
        return await self._api.list_all(path_of(api_version, resource, self._within), of)

    async def _things(self) -> list[ListedWorkload]:
        return await self._everywhere(API_VERSION, "workloads", ListedWorkload)

    async def _thing(self, name: str) -> ListedWorkload:
        """Return the workload with a name, or whose owner has it; the namespace may precede it."""
        namespace, _, bare = name.rpartition("/")
        found = [
            each
            for each in await self._things()
            if bare in (each.metadata.name, each.spec.owner.name)
            and namespace in ("", each.metadata.namespace)
        ]
        near = [each for each in found if each.metadata.namespace == self._within]
        chosen = near if len(near) == 1 else found
        if len(chosen) == 1:
            return chosen[0]
        if chosen:
            told = ", ".join(name_of(each) for each in chosen[:_NAMED_MOST])
            raise refused(409, f"There are several workloads {name}: write one of {told}.")
        queued = await self._just_queued(namespace or self._within, bare)
        if queued is None:
            raise refused(404, f"There is no workload {name}; `weir list -A` shows which there are.")
        return queued

    async def _just_queued(self, namespace: str, name: str) -> ListedWorkload | None:
        """Return a Job or bare pod without a workload: a new one, or one of another scheduler."""
        for api_version, kind, resource in ((JOBS, "Job", "jobs"), ("v1", "Pod", "pods")):
            prefix = f"{kind.lower()}-"
            bare = name.removeprefix(prefix)
            found = await self._maybe(path_of(api_version, resource, namespace, bare), ApiObject)
            if found is not None:
                labels = found.metadata.labels
                owner = objects.OwnerView(api_version, kind, bare, found.metadata.uid)
                spec = objects.SpecView(
                    owner, labels.get("weir.dev/project", ""), labels.get("weir.dev/type", "train")
                )
                return ListedWorkload(msgspec.structs.replace(found.metadata, name=f"{prefix}{bare}"), spec)
        return None

    async def _pods_of(self, found: ListedWorkload) -> list[objects.ListedPod]:
        """Return the pods of a workload: its owner's, and those of objects that the owner creates."""
        namespace, owner = found.metadata.namespace, found.spec.owner
        pods = await self._api.list_all(path_of("v1", "pods", namespace), objects.ListedPod)
        uids = {owner.uid}
        if owner.kind != "Job":
            for api_version, resource in (("apps/v1", "replicasets"), (JOBS, "jobs")):
                between = await self._between(api_version, resource, namespace)
                uids |= {
                    each.metadata.uid
                    for each in between
                    if owner.uid in objects.owner_uids(each.metadata.owner_references)
                }
        return [
            pod
            for pod in pods
            if pod.metadata.uid in uids or uids & objects.owner_uids(pod.metadata.owner_references)
        ]

    async def _between(self, api_version: str, resource: str, namespace: str) -> list[objects.BareView]:
        try:
            return await self._api.list_all(path_of(api_version, resource, namespace), objects.BareView)
        except ApiRefused:
            return []

    async def _namespace_of(self, project: str) -> str:
        """Return the namespace of a submission: the given one, or the only one of its project."""
        try:
            found = await self._api.get(path_of(API_VERSION, "projects", name=project), objects.ListedQueue)
        except NotFound:
            raise wrong(f"project: there is no project {project}; `weir project list` shows them") from None
        namespaces = found.spec.get("namespaces") or []
        if self._namespace is not None:
            if self._namespace not in namespaces:
                told = ", ".join(namespaces) or "none yet"
                raise wrong(
                    f"namespace: project {project} isn't open to {self._namespace}; its own are {told}"
                )
            return self._namespace
        if len(namespaces) != 1:
            told = f"one of {', '.join(namespaces)}" if namespaces else "one that is in its spec.namespaces"
            raise wrong(f"namespace: project {project} has {len(namespaces)}: write --namespace, {told}")
        return str(namespaces[0])


def _queued(asked: Submission, namespace: str, made: ApiObject) -> WorkloadDetail:
    """Return the workload that a new Job will become."""
    pods = asked.pods[0]
    each = (pods.devices or 1) * pods.gpus / 1000 if pods.gpus < 1000 else pods.gpus / 1000
    priority = DEFAULT_PRIORITY[WorkloadType(asked.type)] if asked.priority is None else asked.priority
    return WorkloadDetail(
        uid=int(made.metadata.uid.replace("-", "")[:15] or "0", 16),
        name=f"{namespace}/job-{made.metadata.name}",
        project=asked.project,
        user="",
        type=asked.type,
        status="pending",
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW if asked.preemptible is None else asked.preemptible,
        devices=each * pods.count,
        pods=pods.count,
        pods_running=0,
        submitted_s=at_s(made.metadata.creation_timestamp) or time.time(),
        command=asked.command,
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
    return all(asked in (None, is_) for asked, is_ in wanted) and params.get("q", "") in row.name


def _seconds(written: str | None) -> float | None:
    return None if written is None else seconds(written)


def _spec(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue as the spec of its object, in which fractions are texts."""
    spec: dict[str, Any] = {}
    for key, value in words.items():
        if key != "name":
            spec[camel(key)] = _amounts(value) if isinstance(value, dict) else value
    return spec


def _amounts(written: Mapping[str, Any]) -> dict[str, Any]:
    return {
        camel(name) if name in ("max_runtime", "idle_limit", "stop_grace") else name: (
            f"{value:g}" if isinstance(value, float) else value
        )
        for name, value in written.items()
    }
