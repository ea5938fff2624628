"""An API server with a few objects, for commands that talk to a cluster. It records every change."""

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from aiohttp import web

Object = dict[str, Any]
LISTS = ("cronjobs", "jobs", "notificationrules", "pods", "priorityclasses", "projects", "sweeps")
QUERY = "/apis/query.weir.dev/v1"


class FakeCluster:
    """Answers by path. `objects` are those of GET; a list is every object below a path with its labels."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.rows: list[Object] = []  # of Weir's list of workloads
        self.logs: dict[str, list[list[bytes]]] = {}
        """Pieces of each answer about a pod's output; the last answer is repeated."""
        self.asked: list[str] = []  # paths of all requests
        self.written: list[tuple[str, str, Object]] = []
        self.log_queries: list[dict[str, str]] = []
        self.refused: Callable[[str, str, Object], tuple[int, str] | None] = lambda *_: None
        self.after_log: Callable[[str], None] = lambda _: None
        self.waits = Event()  # set while a stream of output stands still
        self.port = 0
        self._ready, self._loop = Event(), asyncio.new_event_loop()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(180)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(180)

    def kubeconfig(self, directory: Path) -> Path:
        cluster = {"server": f"http://127.0.0.1:{self.port}"}
        path = directory / "config"
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "vision"}}],
            "current-context": "c",
        }
        path.write_text(json.dumps(written))
        return path

    def add(self, path: str, found: Object) -> None:
        self.objects[path] = found

    def add_job(self, name: str, *, uid: str = "j1", **spec: Any) -> Object:
        job: Object = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "vision", "uid": uid},
            "spec": {"parallelism": 1, "template": {"spec": {"containers": []}}, **spec},
            "status": {},
        }
        self.objects[f"/apis/batch/v1/namespaces/vision/jobs/{name}"] = job
        return job

    def add_pod(
        self, name: str, job: str, *, phase: str = "Running", index: int | None = None, **more: Any
    ) -> Object:
        state = {"running": {}} if phase == "Running" else {"terminated": {"reason": "Completed"}}
        if phase == "Pending":
            state = {"waiting": {"reason": "ContainerCreating"}}
        annotations = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": more.pop("owner", "j1")}
        pod: Object = {
            "metadata": {
                "name": name,
                "namespace": "vision",
                "uid": more.pop("uid", f"uid-{name}"),
                "creationTimestamp": more.pop("created", "2026-01-01T00:00:00Z"),
                "labels": {"batch.kubernetes.io/job-name": job},
                "annotations": {**annotations, **more.pop("annotations", {})},
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "main"}]},
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
            },
        }
        self.objects[f"/api/v1/namespaces/vision/pods/{name}"] = pod
        return pod

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)

        async def begin() -> None:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]

        self._loop.run_until_complete(begin())
        self._loop.call_soon(self._ready.set)  # a stop before `run_forever` would be lost
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.asked.append(path)
        if request.method == "GET":
            if path.endswith("/log"):
                return await self._log(request)
            if path.startswith(QUERY):
                return self._query(path)
            return self._read(path, request.query.get("labelSelector", ""))
        body = await request.json() if request.can_read_body else {}
        refused = self.refused(request.method, path, body)
        if refused is not None:
            return _status(*refused)
        if "dryRun" in request.query:
            return web.json_response(body)
        self.written.append((request.method, path, deepcopy(body)))
        return web.json_response(self._write(request.method, path, body))

    def _read(self, path: str, selector: str) -> web.StreamResponse:
        if path in self.objects:
            return web.json_response(self.objects[path])
        parts = [part for part in selector.split(",") if part]
        wanted = dict(part.split("=", 1) for part in parts if "=" in part)
        keys = {part for part in parts if "=" not in part}
        below = [
            found
            for where, found in self.objects.items()
            if where.rpartition("/")[0] == path
            and wanted.items() <= found["metadata"].get("labels", {}).items()
            and keys <= found["metadata"].get("labels", {}).keys()
        ]
        if path.rpartition("/")[2] not in LISTS:
            return _status(404, f"{path} not found")
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": below})

    def _write(self, method: str, path: str, body: Object) -> Object:
        if method == "POST":
            body = {
                **body,
                "metadata": {
                    "namespace": "vision",
                    "uid": f"u{len(self.written)}",
                    **body.get("metadata", {}),
                },
            }
            if "name" in body["metadata"]:
                self.objects[f"{path}/{body['metadata']['name']}"] = body
            return body
        if method == "DELETE":
            self.objects.pop(path, None)
            return {"kind": "Status", "status": "Success", "metadata": {"name": ""}}
        found = self.objects.get(path, {"metadata": {"name": path.rpartition("/")[2]}})
        _merge(found, body)
        return found

    def _query(self, path: str) -> web.StreamResponse:
        if path in self.objects:
            return web.json_response(self.objects[path])
        if path.endswith("/workloads"):
            return web.json_response({"items": self.rows, "total": len(self.rows)})
        return _status(404, f"There is no {path}.")

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pod = request.path.split("/")[-2]
        self.log_queries.append({"pod": pod, **request.query})
        if pod not in self.logs:
            return _status(400, "container is waiting to start: ContainerCreating")
        answers = self.logs[pod]
        pieces = answers.pop(0) if len(answers) > 1 else answers[0]
        if pieces == [b"GONE"]:
            del self.objects[f"/api/v1/namespaces/vision/pods/{pod}"]
            self.after_log(pod)
            return _status(404, f'pods "{pod}" not found')
        answer = web.StreamResponse()
        await answer.prepare(request)
        for piece in pieces:
            if piece == b"BREAK":
                assert request.transport is not None
                request.transport.abort()
                break
            if piece == b"WAIT":
                self.waits.set()
                await asyncio.Event().wait()  # until the client goes
            await answer.write(piece)
        self.after_log(pod)
        return answer


def _status(code: int, message: str) -> web.Response:
    reason = "AlreadyExists" if code == 409 else ""
    return web.json_response(
        {"kind": "Status", "code": code, "message": message, "reason": reason}, status=code
    )


def _merge(found: Object, change: Object) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            _merge(found[key], value)
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = value
