"""Cluster that is only lists: the first answers of an API server to a scheduler, of any size.

Objects are as big as real ones, with what a scheduler doesn't read, and are made before the first request.
Every write is accepted, counted and dropped.
"""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiohttp import web
from tools.controlplane.api import Object
from tools.controlplane.nodes import node
from tools.controlplane.weir import project
from tools.controlplane.work import pod_spec

GPUS = 8
GANG = 4
PIECE = 1000  # as many as Weir asks for
SINCE = "2026-01-01T00:00:00Z"
NOISE = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:note": "x" * 2000}}}]
"""Managed fields that every object carries."""
NOTHING = b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}'


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a cluster: nodes, pods in Jobs of four, and the number of pods that run."""

    nodes: int
    pods: int
    running: int
    teams: int = 20


def _meta(name: str, uid: str, namespace: str = "", **fields: object) -> Object:
    meta = {"name": name, "uid": uid, "resourceVersion": "1", "creationTimestamp": SINCE, **fields}
    return {**meta, **({"namespace": namespace} if namespace else {}), "managedFields": NOISE}


def _job_uid(index: int) -> str:
    return f"11111111-2222-3333-4444-{index:012d}"


def _owner(index: int) -> Object:
    uid, job = _job_uid(index), f"train-{index}"
    return {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}


def _node(index: int, _: Size) -> Object:
    made = node(
        f"gpu-{index:05d}", gpus=GPUS, labels={"rack": f"rack-{index // 8}", "zone": f"zone-{index // 64}"}
    )
    images = [{"names": [f"registry.local/image-{number}"], "sizeBytes": 10**9} for number in range(40)]
    made["metadata"] |= _meta(made["metadata"]["name"], f"node-{index}")
    made["status"] |= {"images": images, "conditions": [{"type": "Ready", "status": "True"}]}
    return made


def _pod(number: int, size: Size) -> Object:
    job, index = divmod(number, GANG)
    name, uid = f"train-{job}", _job_uid(job)
    labels = {f"{prefix}job-name": name for prefix in ("", "batch.kubernetes.io/")}
    labels |= {f"{prefix}controller-uid": uid for prefix in ("", "batch.kubernetes.io/")}
    marks = {"batch.kubernetes.io/job-completion-index": str(index)}
    spec, status = pod_spec(1), {"phase": "Pending"}
    spec["volumes"] = [{"name": f"kube-api-access-{number}", "projected": {"defaultMode": 420}}]
    spec["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    if number < size.running:
        marks |= {"weir.dev/gpus": str(number // size.nodes), "weir.dev/start": str(index + 1)}
        spec["nodeName"] = f"gpu-{number % size.nodes:05d}"
        placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": SINCE}
        status = {"phase": "Running", "startTime": SINCE, "conditions": [placed]}
    meta = _meta(
        f"{name}-{index}-abcde",
        f"00000000-2222-3333-4444-{number:012d}",
        f"team-{job % size.teams}",
        labels=labels,
        annotations=marks,
        ownerReferences=[_owner(job)],
    )
    return {"metadata": meta, "spec": spec, "status": status}


def _job(index: int, size: Size) -> Object:
    spec = {
        "parallelism": GANG,
        "completions": GANG,
        "completionMode": "Indexed",
        "template": {"spec": pod_spec(1)},
    }
    meta = _meta(f"train-{index}", _job_uid(index), f"team-{index % size.teams}")
    return {"metadata": meta, "spec": spec, "status": {"active": GANG}}


def _workload(index: int, size: Size) -> Object:
    meta = _meta(
        f"job-train-{index}",
        f"workload-{index}",
        f"team-{index % size.teams}",
        ownerReferences=[_owner(index)],
    )
    status = {"phase": "Running", "running": f"{GANG}/{GANG}", "since": SINCE, "life": {"starts": GANG}}
    return {"metadata": meta, "spec": {"owner": _owner(index), "minPods": GANG}, "status": status}


def _project(index: int, size: Size) -> Object:
    made = project(f"team-{index}", GPUS * size.nodes // size.teams)
    return {**made, "metadata": _meta(f"team-{index}", f"project-{index}")}


def lists(size: Size) -> dict[str, tuple[int, Callable[[int, Size], Object]]]:
    """Return by path the length of each list and the function that makes one object of it."""
    return {
        "/api/v1/nodes": (size.nodes, _node),
        "/api/v1/pods": (size.pods, _pod),
        "/apis/batch/v1/jobs": (size.pods // GANG, _job),
        "/apis/weir.dev/v1alpha1/projects": (size.teams, _project),
        "/apis/weir.dev/v1alpha1/workloads": (size.running // GANG, _workload),
    }


@dataclass(slots=True)
class Written:
    """Requests by kind, and the times of a pod's first and last binding."""

    read: Counter[str] = field(default_factory=Counter)  # pages of lists, and watches
    count: Counter[str] = field(default_factory=Counter)
    bound_at_s: list[float] = field(default_factory=list)


class Lists:
    """The server, on a port of its own in a thread of its own."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.written = Written()
        self.port = 0
        self._pieces = dict(self._made())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10), "the server of lists doesn't come up"
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _why: BaseException | None, _where: TracebackType | None
    ) -> None:
        assert self._loop is not None, "it is up"
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._up.set()
        await self._over.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return self._take(request)
        self.written.read["watch" if "watch" in request.query else "list"] += 1
        if "watch" in request.query:
            return await self._nothing_happens(request)
        begin = int(request.query.get("continue", "0"))
        body = self._pieces.get((request.path, begin), NOTHING)
        return web.Response(body=body, content_type="application/json")

    def _made(self) -> Iterator[tuple[tuple[str, int], bytes]]:
        """Yield all pieces of all lists, with their path and position."""
        for path, (count, made) in lists(self.size).items():
            for begin in range(0, count, PIECE):
                end = min(count, begin + PIECE)
                metadata = {"resourceVersion": "1", **({"continue": str(end)} if end < count else {})}
                items = [made(index, self.size) for index in range(begin, end)]
                piece = {"kind": "List", "metadata": metadata, "items": items}
                yield (path, begin), json.dumps(piece, separators=(",", ":")).encode()

    def _take(self, request: web.Request) -> web.Response:
        kind = request.path.rpartition("/")[2] if request.method == "POST" else "object"
        self.written.count[f"{request.method} {kind}"] += 1
        if kind == "binding":
            self.written.bound_at_s.append(time.perf_counter())
        return web.Response(text='{"kind":"Status","status":"Success"}', status=201)

    async def _nothing_happens(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        await asyncio.sleep(float(request.query.get("timeoutSeconds", "600")))
        return answer
