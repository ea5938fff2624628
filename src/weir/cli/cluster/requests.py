"""REST requests of a pool, answered for a cluster.

Reads go to Weir's API in the cluster, changes to the objects themselves. Requests that a cluster can't carry
out are refused with the tool that can.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pydantic import BaseModel

from weir.cli.cluster.errors import not_here
from weir.cli.cluster.other_tools import instead_of
from weir.cli.cluster.queries import ClusterQueries
from weir.cli.cluster.query_api import INSTALL, NO_SUCH_KIND
from weir.cli.cluster.usable_projects import usable_projects
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import TooManyRequests
from weir.model.array_indices import split_name

if TYPE_CHECKING:
    from weir.cli.cluster.log_events import LogPieces
    from weir.cli.cluster.submission_job import SubmissionJobs

NAMESPACE = "WEIR_NAMESPACE"
"""Variable that names the namespace of Weir in the cluster."""
DEFAULT_NAMESPACE = "weir-system"
FOLLOWED_MAX = 200
"""Pods whose output a command follows at the same time: each needs a connection."""
BUSY_S = 30.0
"""Time for which a read is repeated while the API server is too busy."""
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
        self._home = os.environ.get(NAMESPACE) or DEFAULT_NAMESPACE
        self.queries = ClusterQueries(api, api.namespace, self._home, namespace=namespace)

    @property
    def _jobs(self) -> "SubmissionJobs":
        """The Jobs of submissions."""
        from weir.cli.cluster.submission_job import SubmissionJobs

        return SubmissionJobs(self._api, self._home)

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
        api, lookup = self._api, self.queries.lookup
        # Imported on demand: a command needs one of them, and each takes longer than a request.
        match method, parts:
            case _, ["workloads", *rest]:
                return await self._answer_workloads(method, rest, params, body)
            case "POST", ["workloads:batch"]:
                from weir.cli.cluster.batch_submissions import BatchSubmissions

                return await BatchSubmissions(api, lookup, self._jobs).submit(body)
            case _, ["schedules", *rest]:
                from weir.cli.cluster.cron_jobs import CronJobs

                return await CronJobs(api, lookup, self._jobs).answer(method, rest, body)
            case _, ["sweeps", *rest]:
                from weir.cli.cluster.cluster_sweeps import ClusterSweeps

                return await ClusterSweeps(api, lookup, self._jobs).answer(method, rest, params, body)
            case _, ["notifications", *rest]:
                from weir.cli.cluster.notification_requests import NotificationRequests

                return await NotificationRequests(api, lookup).answer(method, rest, params, body)
            case _, ["projects", project, "templates", *rest]:
                from weir.cli.cluster.template_maps import TemplateMaps

                return await TemplateMaps(api, lookup, self._jobs).answer(method, project, rest, body)
            case _, [("projects" | "departments") as kind, *names]:
                return await self._answer_queues(method, kind, names, params, body)
            case "GET", _:
                return await self._answer_reads(parts, params)
        raise not_here(instead_of(parts))

    async def _answer_reads(self, parts: list[str], params: dict[str, str]) -> Answer:
        queries = self.queries
        match parts:
            case ["nodes"]:
                return await queries.nodes()
            case ["status"]:
                return await queries.status()
            case ["snapshot"]:
                return await queries.snapshot()
            case [("usage" | "history") as report]:
                return await queries.report(report, params)
            case ["events"]:
                return await queries.events(params)
            case ["whoami"]:
                return await queries.whoami()
        raise not_here(instead_of(parts))

    async def _answer_queues(
        self, method: str, kind: str, names: list[str], params: dict[str, str], body: bytes
    ) -> Answer:
        from weir.cli.cluster.queue_objects import access_queue, list_queues, tried_spec

        match method, names:
            case "POST", [name, "preview"]:
                return await self.queries.preview(kind, name, await tried_spec(self._api, kind, name, body))
            case "GET", []:
                chosen = None
                if params.get("may_submit") == "true":
                    chosen = partial(usable_projects, self._api, only=self.queries.lookup.namespace)
                return await list_queues(self._api, kind, chosen)
            case _, [name]:
                return await access_queue(self._api, method, kind, name, body, params.get("version"))
        raise not_here(instead_of([kind, *names]))

    async def _answer_workloads(  # noqa: PLR0911 - the same
        self, method: str, parts: list[str], params: dict[str, str], body: bytes
    ) -> Answer:
        queries = self.queries
        match method, parts:
            case "GET", []:
                return await queries.workloads(params)
            case "POST", []:
                from weir.cli.cluster.submissions import submit

                return await submit(self._api, queries.lookup, self._jobs, body)
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
            case "POST", [name, ("rerun" | "priority") as change]:
                from weir.cli.cluster.job_changes import JobChanges

                changes = JobChanges(self._api, queries.lookup, self._jobs)
                is_rerun = change == "rerun"
                return await (changes.rerun(name, params) if is_rerun else changes.set_priority(name, body))
            case "POST", [name, ("stop" | "suspend" | "resume") as action]:
                return await queries.act(name, action)
        raise not_here(instead_of(["workloads", *parts]))

    async def logs(
        self, name: str, params: dict[str, str], *, followed_max: int = FOLLOWED_MAX
    ) -> "LogPieces":
        """Return the output of a workload, or of an index of an array, in pieces.

        `followed_max`: limit of pods that are followed at the same time. It raises the errors of `answer`.
        """
        from weir.cli.cluster.pod_logs import PodLogs, log_request
        from weir.cli.cluster.workload_pods import WorkloadPods

        array, index = split_name(name) or (name, None)
        queries = self.queries
        workload = await queries.lookup.workload(array)
        owner = await queries.lookup.owner(workload)
        pods = WorkloadPods(self._api, workload, owner, lambda: queries.workload(workload.key))
        return await PodLogs(self._api, pods, followed_max).output(log_request(params, index))


def sentence_of(error: Exception) -> str:
    """Return an error of the API server as a sentence."""
    text = str(error)
    if any(kind in text for kind in NO_SUCH_KIND):
        return f"Weir isn't installed in this cluster: {INSTALL}"
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + ("" if text.endswith("?") else ".")
