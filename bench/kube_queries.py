"""Time that Weir's API takes to say why a workload waits, in a cluster of 10,000 full nodes.

    python -m bench.kube_queries [--nodes 10000] [--output json]

A server of generated lists (kube_lists.py) stands in for the cluster, the benchmark for the front proxy of
the API server. With the goals of the design in brackets, in milliseconds:

    why_p50, why_p99    the reason with the numbers of the queues (200)
    why_cpu             processor time of Weir for one of them
    busy_p50            the same while suggestions for others are tried
    list_p50            a page of 100 workloads
    suggested_ms        a reason with suggestions, asked for by one person (2,000)
    suggestions         their number, and the kinds of changes that weren't tried to the end
    nodes_ms            the rows of all nodes
    listed              pods that were listed for all of these: none
"""

import argparse
import base64
import http.client
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from aiohttp import web
from tools.controlplane.api import Object
from tools.controlplane.certificates import Authority
from tools.controlplane.ports import free_port
from tools.controlplane.weir import log_lines
from tools.controlplane.work import pod_spec

from bench import kube_lists
from bench.kube_lists import GANG, GPUS, Lists, Size
from bench.processes import cpu_s
from bench.tables import show

Row = dict[str, object]
ROOT = "/apis/query.weir.dev/v1"
WAITING = 400
TIMES = 100
READY_S = 300.0
KEPT_S = 11.0
"""Time after which suggestions are tried again."""
_CONFIG = "extension-apiserver-authentication"
_ABSENT = ("/admissionregistration.k8s.io/", "/apiregistration.k8s.io/", "/secrets/")
_REASON = {"why": "insufficient_capacity", "sentence": "no node has the capacity for its next pod now"}


class QueriedLists(Lists):
    """Lists with full nodes, and what Weir reads to trust its front proxy."""

    def __init__(self, size: Size, proxy: Authority) -> None:
        self._proxy = proxy
        self.lists_of_pods = 0
        super().__init__(size)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST" and request.path.endswith("/subjectaccessreviews"):
            return web.json_response({"status": {"allowed": True}}, status=201)
        if request.method != "GET" and "/secrets" in request.path:
            return web.json_response(await request.json(), status=201)
        if request.path.endswith(f"/{_CONFIG}"):
            data = {"requestheader-client-ca-file": self._proxy.certificate.read_text()}
            return web.json_response({"data": data})
        if request.method == "GET" and any(part in request.path for part in _ABSENT):
            return web.json_response({"kind": "Status", "message": "not found"}, status=404)
        if request.path == "/api/v1/pods" and "watch" not in request.query:
            self.lists_of_pods += 1
        return await super()._answer(request)


def _pod(number: int, size: Size) -> Object:
    made = kube_lists._pod(number, size)
    spec = {**pod_spec(GPUS), **{key: made["spec"][key] for key in ("nodeName",) if key in made["spec"]}}
    marks = made["metadata"]["annotations"]
    if "weir.dev/gpus" in marks:
        marks["weir.dev/gpus"] = ",".join(map(str, range(GPUS)))
    return {**made, "spec": spec}


def _workload(index: int, size: Size) -> Object:
    made = kube_lists._workload(index, size)
    made["spec"] |= {"project": f"team-{index % size.teams}", "type": "train", "priority": 50}
    if index * GANG >= size.running:
        made["status"] = {"phase": "Pending", "pods": GANG, "gpus": str(GANG * GPUS), "reason": _REASON}
    return made


def measure(nodes: int) -> Row:
    """Ask one Weir."""
    size = Size(nodes, nodes + WAITING, running=nodes // GANG * GANG)
    made = {
        **kube_lists.lists(size),
        "/api/v1/pods": (size.pods, _pod),
        "/apis/weir.dev/v1alpha1/workloads": (size.pods // GANG, _workload),
    }
    kube_lists.lists = lambda _size: made
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        proxy = Authority(home / "proxy")
        pair = proxy.client("front-proxy-client")
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        tls.load_cert_chain(pair.certificate, pair.key)
        with QueriedLists(size, proxy) as lists, (home / "log").open("w+") as log:
            port = free_port()
            weir = _start(home, lists.port, port, log.fileno())
            try:
                caller = Caller(port, tls)
                caller.wait(weir)
                before = lists.lists_of_pods
                row = _measured(caller, size, weir.pid)
                row["listed"] = lists.lists_of_pods - before
            finally:
                weir.terminate()
                weir.wait(60)
            log.seek(0)
            (started,) = log_lines(log.read(), "started")
    return {"nodes": nodes, "running": size.running, "waiting": WAITING, **row, "engine": started["engine"]}


class Caller:
    """The front proxy of an API server that authorizes everything."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls
        self._connection = self._new()

    def _new(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=120, context=self._tls)

    def get(self, path: str) -> tuple[int, bytes, float]:
        """Return status, body and milliseconds of an answer."""
        began = time.perf_counter()
        try:
            self._connection.request("GET", f"{ROOT}/{path}", headers={"X-Remote-User": "ann"})
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = self._new()
            return 0, b"", 0.0
        return answer.status, body, (time.perf_counter() - began) * 1000

    def wait(self, weir: "subprocess.Popen[bytes]") -> None:
        """Wait until Weir has read everything, and leads."""
        end = time.monotonic() + READY_S
        while self.get("pools/cluster")[0] != 200:
            assert weir.poll() is None, f"Weir ended with {weir.returncode}"
            assert time.monotonic() < end, "it doesn't answer"
            time.sleep(0.2)
        time.sleep(5.0)  # its first decision, and the numbers of the queues


def _measured(caller: Caller, size: Size, pid: int) -> Row:
    first = size.running // GANG

    def why(index: int, wait_s: float) -> tuple[dict[str, Any], float]:
        number = first + index % (WAITING // GANG)
        path = f"namespaces/team-{number % size.teams}/workloads/job-train-{number}/why?wait={wait_s}"
        status, body, took_ms = caller.get(path)
        assert status == 200, body
        answer = json.loads(body)
        assert answer["reason"] is not None
        assert answer["queues"]
        return answer, took_ms

    busy = [why(index, 0.0)[1] for index in range(TIMES)]
    while why(0, 10.0)[0]["unfinished"]:
        pass
    before_s = cpu_s(pid)
    times = [why(0, 0.0)[1] for _ in range(TIMES)]
    cpu_ms = 1e3 * (cpu_s(pid) - before_s) / TIMES
    time.sleep(KEPT_S)
    began = time.perf_counter()
    while (answer := why(0, 10.0)[0])["unfinished"]:
        assert time.perf_counter() - began < READY_S, "the suggestions aren't finished"
    suggested_ms = (time.perf_counter() - began) * 1000
    assert answer["suggestions"], "nothing was tried"
    pages = [caller.get("workloads?limit=100")[2] for _ in range(20)]
    _, body, nodes_ms = caller.get("nodes")
    assert json.loads(body)["total"] == size.nodes
    return {
        "why_p50": round(statistics.median(times), 1),
        "why_p99": round(sorted(times)[int(len(times) * 0.99) - 1], 1),
        "why_max": round(max(times), 1),
        "why_cpu": round(cpu_ms, 1),
        "busy_p50": round(statistics.median(busy), 1),
        "list_p50": round(statistics.median(pages), 1),
        "suggested_ms": round(suggested_ms),
        "suggestions": len(answer["suggestions"]),
        "untried": len(answer["untried"]),
        "nodes_ms": round(nodes_ms),
    }


def _start(home: Path, lists: int, port: int, log: int) -> "subprocess.Popen[bytes]":
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lists", "cluster": {"server": f"http://127.0.0.1:{lists}"}}],
        "users": [{"name": "weir", "user": {"token": base64.b64encode(b"any").decode()}}],
        "contexts": [{"name": "lists", "context": {"cluster": "lists", "user": "weir"}}],
        "current-context": "lists",
    }
    path = home / "kubeconfig"
    path.write_text(json.dumps(config))
    words = ["up", "--on", "kubernetes", "--no-leader-election", "--namespace", "weir-system"]
    words += ["--service", "weir", "--host", "127.0.0.1", "--port", str(port)]
    variables = {"KUBECONFIG": str(path), "WEIR_HOME": str(home / "home")}
    command = [sys.executable, "-m", "weir", *words]
    return subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.kube_queries", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    row = measure(args.nodes)
    show("Questions to a big cluster", [row], args.output, measured=str(row["engine"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
