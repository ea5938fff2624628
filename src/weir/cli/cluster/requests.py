"""REST requests of a pool, answered for a cluster.

Reads go to Weir's API in the cluster, changes to the objects themselves. Requests that a cluster can't carry
out are refused with the tool that can.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pydantic import BaseModel

from weir.cli.cluster.errors import not_here
from weir.cli.cluster.other_tools import instead_of
from weir.cli.cluster.queries import ClusterQueries
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import TooManyRequests
from weir.model.array_indices import split_name

if TYPE_CHECKING:
    from weir.cli.cluster.cluster_sweeps import ClusterSweeps
    from weir.cli.cluster.cron_jobs import CronJobs
    from weir.cli.cluster.notification_requests import NotificationRequests
    from weir.cli.cluster.template_maps import TemplateMaps

NAMESPACE = "WEIR_NAMESPACE"
"""Variable that names the namespace of Weir in the cluster."""
DEFAULT_NAMESPACE = "weir-system"
BUSY_S = 30.0
"""Time for which a read is repeated while the API server is too busy."""
_NO_SUCH_KIND = ("could not find the requested resource", "404 page not found")
_ROOT = "/api/v1/"
Answer = BaseModel | bytes | str | None


def parts_of(raw_path: str) -> list[str]:
    """Return the parts of a REST path behind its root; names may have an encoded slash."""
    path = raw_path.partition("?")[0].partition(_ROOT)[2]
    return [unquote(part) for part in path.split("/")]


class ClusterRequests:
    """Answers to requests about one cluster, with the rights of the client."""

    def __init__(self, api: ApiClient, *, namespace: str | None) -> None:
        self._api = api
        home = os.environ.get(NAMESPACE) or DEFAULT_NAMESPACE
        self.queries = ClusterQueries(api, api.namespace, home, namespace=namespace)
        self._within, self._only = namespace or api.namespace, namespace

    # Imported on demand: a command needs one of them, and each takes longer than a request.

    @cached_property
    def _schedules(self) -> "CronJobs":
        from weir.cli.cluster.cron_jobs import CronJobs

        lookup, jobs = self.queries.lookup, self.queries.jobs
        return CronJobs(self._api, lookup, jobs, within=self._within, only=self._only)

    @cached_property
    def _sweeps(self) -> "ClusterSweeps":
        from weir.cli.cluster.cluster_sweeps import ClusterSweeps

        lookup, jobs = self.queries.lookup, self.queries.jobs
        return ClusterSweeps(self._api, lookup, jobs, within=self._within, only=self._only)

    @cached_property
    def _notifications(self) -> "NotificationRequests":
        from weir.cli.cluster.notification_requests import NotificationRequests

        return NotificationRequests(self._api, self.queries.lookup, within=self._within, only=self._only)

    @cached_property
    def _templates(self) -> "TemplateMaps":
        from weir.cli.cluster.template_maps import TemplateMaps

        return TemplateMaps(self._api, self.queries.lookup, self.queries.jobs)

    async def answer(self, method: str, parts: Sequence[str], params: dict[str, str], body: bytes) -> Answer:
        """Return the answer; a read that a busy API server refuses is repeated, as in kubectl.

        Raises:
            PoolError: a cluster can't carry it out, or Weir doesn't answer.
            ApiError: the API server refuses it, or doesn't answer.
        """
        end_s = time.monotonic() + BUSY_S
        while True:
            try:
                return await self._answer(method, list(parts), params, body)
            except TooManyRequests as error:
                if method != "GET" or time.monotonic() + error.retry_after_s > end_s:
                    raise
                await asyncio.sleep(max(0.1, error.retry_after_s))

    async def _answer(  # noqa: PLR0911 - one for each request
        self, method: str, parts: list[str], params: dict[str, str], body: bytes
    ) -> Answer:
        queries = self.queries
        match method, parts:
            case _, ["workloads", *rest]:
                return await self._answer_workloads(method, rest, params, body)
            case "POST", ["workloads:batch"]:
                return await queries.batches.submit(body)
            case _, ["schedules", *rest]:
                return await self._schedules.answer(method, rest, body)
            case _, ["sweeps", *rest]:
                return await self._sweeps.answer(method, rest, params, body)
            case _, ["notifications", *rest]:
                return await self._notifications.answer(method, rest, params, body)
            case _, ["projects", project, "templates", *rest]:
                return await self._templates.answer(method, project, rest, body)
            case _, [("projects" | "departments") as kind, *names]:
                return await self._answer_queues(method, kind, names, body)
            case "GET", [("nodes" | "status" | "snapshot") as summary]:
                summaries: dict[str, Callable[[], Awaitable[Answer]]] = {
                    "nodes": queries.nodes,
                    "status": queries.status,
                    "snapshot": queries.snapshot,
                }
                return await summaries[summary]()
            case "GET", [("usage" | "history") as report]:
                return await queries.report(report, params)
            case "GET", ["events"]:
                return await queries.events(params)
            case "GET", ["whoami"]:
                return await queries.whoami()
        raise not_here(instead_of(parts))

    async def _answer_queues(self, method: str, kind: str, names: list[str], body: bytes) -> Answer:
        from weir.cli.cluster.queue_objects import access_queue, list_queues

        match method, names:
            case "GET", []:
                return await list_queues(self._api, kind)
            case _, [name]:
                return await access_queue(self._api, method, kind, name, body)
        raise not_here(instead_of([kind, *names]))

    async def _answer_workloads(  # noqa: PLR0911 - the same
        self, method: str, parts: list[str], params: dict[str, str], body: bytes
    ) -> Answer:
        queries = self.queries
        match method, parts:
            case "GET", []:
                return await queries.workloads(params)
            case "POST", []:
                return await queries.submissions.submit(body)
            case "GET", [name]:
                return await queries.workload(name)
            case "GET", [name, "why"]:
                return await queries.why(name, params)
            case "GET", [name, "series"]:
                return await queries.series(name)
            case "GET", [name, "decision"]:
                return await queries.decision(name)
            case "POST", [name, "extend"]:
                return await queries.extend(name, body)
            case "POST", [name, "rerun"]:
                return await queries.changes.rerun(name, params)
            case "POST", [name, "priority"]:
                return await queries.changes.set_priority(name, body)
            case "POST", [name, ("stop" | "suspend" | "resume") as action]:
                return await queries.act(name, action)
        raise not_here(instead_of(["workloads", *parts]))

    async def logs(self, name: str, params: dict[str, str]) -> AsyncGenerator[bytes, None]:
        """Return the output of a workload, or of an index of an array, in pieces.

        It raises what `answer` does, which doesn't answer this: the page of a cluster reads no output.
        """
        from weir.cli.cluster.pod_logs import PodLogs, log_request
        from weir.cli.cluster.workload_pods import WorkloadPods

        array, index = split_name(name) or (name, None)
        queries = self.queries
        workload = await queries.lookup.workload(array)
        owner = await queries.lookup.owner(workload)
        pods = WorkloadPods(self._api, workload, owner, lambda: queries.workload(workload.key))
        return await PodLogs(self._api, pods).output(log_request(params, index))


def sentence_of(error: Exception) -> str:
    """Return an error of the API server as a sentence."""
    text = str(error)
    if any(kind in text for kind in _NO_SUCH_KIND):
        return "Weir isn't installed in this cluster: weir kube manifests | kubectl apply --server-side -f -"
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
