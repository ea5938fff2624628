"""A cluster in place of a pool's server: requests of the client go through the API server.

This transport receives the HTTP requests of the client. It reads from Weir's API in the kubeconfig's
cluster, and changes objects of the cluster. Requests that a cluster can't carry out are refused with the tool
that can.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import httpx
from pydantic import BaseModel

from weir.api.answers import Problem
from weir.cli.cluster.errors import not_here, refused
from weir.cli.cluster.queries import ClusterQueries
from weir.cli.cluster.queue_objects import access_queue, list_queues
from weir.client.errors import Unreachable
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.credentials import NOT_VERIFIED, Kubeconfig, NoCredentials
from weir.kubernetes.api.errors import ApiError, TooManyRequests
from weir.kubernetes.api.errors import ApiRefused as Said
from weir.kubernetes.api.errors import ApiUnreachable as NoAnswer

NAMESPACE = "WEIR_NAMESPACE"
"""Where Weir runs in the cluster."""
DEFAULT_NAMESPACE = "weir-system"
LEFT_S = 1.0
BUSY_S = 30.0
"""Time for which a read is repeated that an API server had no time for."""
_NO_SUCH_KIND = ("could not find the requested resource", "404 page not found")
_ROOT = "/api/v1/"
Answer = BaseModel | bytes | str | None


class ClusterTransport(httpx.BaseTransport):
    """Transport that answers requests for one cluster."""

    def __init__(self, context: str | None, *, namespace: str | None = None) -> None:
        try:
            access = Kubeconfig(None, context)
        except NoCredentials as error:
            raise Unreachable(str(error)) from None
        self._server = access.server
        if not access.is_verified:
            print(f"weir: warning: {NOT_VERIFIED}.", file=sys.stderr)
        self._loop = asyncio.new_event_loop()
        self._api = ApiClient(access)
        self._loop.run_until_complete(self._api.__aenter__())
        home = os.environ.get(NAMESPACE) or DEFAULT_NAMESPACE
        self._queries = ClusterQueries(self._api, access.namespace, home, namespace=namespace)

    def close(self) -> None:
        """Close all connections."""
        self._loop.run_until_complete(self._closed())
        self._loop.close()

    async def _closed(self) -> None:
        """Close the API client after pending requests, within a time limit."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=LEFT_S)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._api.__aexit__(None, None, None)
        await asyncio.sleep(0.01)  # sockets under TLS close in some steps

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request."""
        path = request.url.raw_path.decode().partition("?")[0].partition(_ROOT)[2]
        parts = [unquote(part) for part in path.split("/")]
        try:
            answer = self._loop.run_until_complete(
                self._patient(request.method, parts, dict(request.url.params), request.read())
            )
        except NoAnswer as error:
            raise Unreachable(f"The cluster at {self._server} can't be reached: {error}.") from None
        except Said as error:
            problem = Problem(title="The cluster refused", status=error.status, detail=_sentence(error))
            return httpx.Response(error.status, content=problem.model_dump_json())
        except ApiError as error:
            raise refused(500, _sentence(error)) from None
        if isinstance(answer, str):
            return httpx.Response(200, text=answer)
        if isinstance(answer, bytes):
            return httpx.Response(200, content=answer)
        return httpx.Response(200, content=b"" if answer is None else answer.model_dump_json())

    async def _patient(self, method: str, parts: list[str], params: dict[str, str], body: bytes) -> Answer:
        """Return the answer; a read for which the API server has no time is repeated, as kubectl does."""
        end_s = time.monotonic() + BUSY_S
        while True:
            try:
                return await self._answer(method, parts, params, body)
            except TooManyRequests as error:
                if method != "GET" or time.monotonic() + error.retry_after_s > end_s:
                    raise
                await asyncio.sleep(max(0.1, error.retry_after_s))

    async def _answer(  # noqa: PLR0911 - one for each request
        self, method: str, parts: list[str], params: dict[str, str], body: bytes
    ) -> Answer:
        queries = self._queries
        match method, parts:
            case "GET", ["workloads"]:
                return await queries.workloads(params)
            case "POST", ["workloads"]:
                return await queries.submit(body)
            case "GET", ["workloads", name]:
                return await queries.workload(name)
            case "GET", ["workloads", name, "why"]:
                return await queries.why(name)
            case "GET", ["workloads", name, "decision"]:
                return await queries.decision(name)
            case "POST", ["workloads", name, ("stop" | "suspend" | "resume") as act]:
                return await queries.act(name, act)
            case "GET", [("projects" | "departments") as kind]:
                return await list_queues(self._api, kind)
            case _, [("projects" | "departments") as kind, name]:
                return await access_queue(self._api, method, kind, name, body)
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
        raise not_here(_instead(parts))


def _sentence(error: Exception) -> str:
    text = str(error)
    if any(kind in text for kind in _NO_SUCH_KIND):
        return "Weir isn't installed in this cluster: weir kube manifests | kubectl apply --server-side -f -"
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _instead(parts: list[str]) -> str:  # noqa: PLR0911 - one for each request
    """Return the tool that carries out a request on a cluster."""
    match parts:
        case ["workloads", name, "logs"]:
            namespace, _, rest = name.rpartition("/")
            within = f"-n {namespace} " if namespace else ""
            job = rest.removeprefix("job-")
            return f"the output is with the cluster's nodes: kubectl logs {within}job/{job} -f --prefix"
        case ["workloads", _, "exec"]:
            return "that is done with kubectl exec"
        case ["workloads", _, "rerun"]:
            return "a Job that is over can't be started again: submit it again"
        case ["stream"]:
            return "changes are followed with kubectl get workloads.weir.dev -A --watch"
        case ["projects", _, "secrets", *_]:
            return "a cluster has Secrets of its own: kubectl create secret generic"
        case ["audit"]:
            return "a cluster has an audit log of its own: see its API server's settings"
        case ["tokens", *_]:
            return "RBAC decides who may do what in a cluster: bind the ClusterRole weir-view"
    return "a cluster doesn't answer that"
