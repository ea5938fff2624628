"""Load of the reports of nodes' agents on a replica of Weir, by default of 1,250 nodes of 8 GPUs.

    python -m bench.node_reports [--nodes 1250] [--seconds 60] [--output json]

A server of generated lists (kube_lists.py) stands in for the cluster, and Weir is a process of its own. Nine
tenths of the GPUs are in use. The agents are threads of the benchmark, which send with the code of
`weir kube node`: each over TLS, with a token of its own, every 30 seconds. A report names 8 pods with their
GPUs, and the memory that they use of them.

    reports_per_s   reports that were taken
    quiet_pct       processor time of Weir before the first report, of one core
    reporting_pct   the same while the agents report
    ms_per_report   processor time that a report costs, with everything that Weir makes of it
    mib, more_mib   memory with the reports of all nodes, and how much of it they added
    token_reviews   questions to the API server about tokens
"""

import argparse
import base64
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from tools.controlplane.ports import free_port

from bench.kube_lists import GPUS, Lists, Size
from bench.kube_size import USED, start
from bench.processes import cpu_s, memory_mib
from bench.tables import show
from weir.kubernetes.admission.node_tokens import ACCOUNT, AUDIENCE
from weir.kubernetes.node.report_sender import NotDelivered, ReportSender
from weir.kubernetes.usage.node_reports import NodeReport, PodMemory, PodReport
from weir.kubernetes.usage.pod_metrics import DeviceMetrics

EVERY_S = 30.0
SENDERS = 64
HOME = "weir-system"
_READY_S = 300.0


class Cluster(Lists):
    """Lists that also keep Secrets and vouch for tokens, which are the names of nodes."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.secrets: dict[str, Any] = {}
        self.token_reviews = 0

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path.endswith("/tokenreviews"):
            return await self._vouch(request)
        if "/secrets" in path:
            return await self._secret(request)
        if request.method == "GET" and ("webhookconfigurations/" in path or "/apiservices/" in path):
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        return await super()._answer(request)

    async def _vouch(self, request: web.Request) -> web.Response:
        self.token_reviews += 1
        node = (await request.json())["spec"]["token"]
        extra = {"authentication.kubernetes.io/node-name": [node]}
        user = {"username": f"system:serviceaccount:{HOME}:{ACCOUNT}", "extra": extra}
        return web.json_response({"status": {"authenticated": True, "user": user, "audiences": [AUDIENCE]}})

    async def _secret(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            secret = self.secrets.get(request.path.rpartition("/")[2])
            return web.json_response(secret or {"kind": "Status"}, status=200 if secret else 404)
        body = await request.json()
        body["metadata"]["resourceVersion"] = "1"
        self.secrets[body["metadata"]["name"]] = body
        return web.json_response(body, status=201)


@dataclass(slots=True)
class Agents:
    """Agents of all nodes, with the reports that were taken and refused."""

    nodes: int
    port: int
    authority: Path
    tokens: Path
    taken: int = 0
    refused: list[str] = field(default_factory=list)
    _turn: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report meanwhile, each agent in its turn of the interval."""
        began_s = time.monotonic()
        threads = [threading.Thread(target=self._run, args=(began_s,)) for _ in range(SENDERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _run(self, began_s: float) -> None:
        while True:
            with self._lock:
                turn, self._turn = self._turn, self._turn + 1
            due_s = began_s + turn * EVERY_S / self.nodes
            if self._over.wait(max(0.0, due_s - time.monotonic())):
                return
            self._report(turn % self.nodes, turn)

    def _report(self, index: int, turn: int) -> None:
        token = self.tokens / f"gpu-{index:05d}"
        token.write_text(token.name)
        name = f"weir.{HOME}.svc"
        try:
            refused = ReportSender("127.0.0.1", self.port, name, self.authority, token).send(
                report(index, turn)
            )
        except NotDelivered as error:
            refused = [str(error)]
        with self._lock:
            self.taken += not refused
            self.refused += refused


def report(index: int, turn: int) -> NodeReport:
    """Return the report of a node, with other numbers each time."""
    use = (turn * 7919 % 1000) / 1000
    names = [f"train-{index}-{device}-abcde" for device in range(GPUS)]
    pods = [
        PodReport(
            f"team-{index % 20}",
            name,
            [DeviceMetrics(device, f"GPU-{index:05d}-{device}-0a6b3d5e-4000", use, use, 40 << 30)],
            cores=3.25,
            disk=1e6 * use,
            network=2e6 * use,
        )
        for device, name in enumerate(names)
    ]
    memory = [
        PodMemory(f"00000000-2222-3333-4444-{index:012d}", device, turn << 20) for device in range(GPUS)
    ]
    return NodeReport(pods, list(range(GPUS)), memory)


def measure(nodes: int, seconds: float) -> dict[str, object]:
    """Return the row of a cluster of this size."""
    running = int(nodes * GPUS * USED) // 4 * 4
    with Cluster(Size(nodes, running, running)) as cluster, tempfile.TemporaryDirectory() as made:
        home, port = Path(made), free_port()
        with (home / "log").open("w+") as log:
            weir = start(home, cluster.port, log.fileno(), port, HOME)
            try:
                _until_serving(cluster, weir, port)
                time.sleep(10.0)  # what the start left to be written
                quiet_s, before_mib = _spent(weir, seconds), memory_mib(weir.pid)
                (home / "tokens").mkdir()
                authority = home / "ca.crt"
                authority.write_bytes(base64.b64decode(_certificates(cluster)["ca.crt"]))
                agents = Agents(nodes, port, authority, home / "tokens")
                with agents.reporting():
                    time.sleep(EVERY_S)
                    first = agents.taken
                    spent_s = _spent(weir, seconds)
                    taken, mib = agents.taken - first, memory_mib(weir.pid)
            finally:
                weir.terminate()
                weir.wait(30)
        return {
            "nodes": nodes,
            "gpus": nodes * GPUS,
            "reports_per_s": round(taken / seconds, 1),
            "refused": len(agents.refused),
            "quiet_pct": round(100 * quiet_s / seconds, 1),
            "reporting_pct": round(100 * spent_s / seconds, 1),
            "ms_per_report": round(1000 * (spent_s - quiet_s) / max(1, taken), 2),
            "mib": round(mib),
            "more_mib": round(mib - before_mib),
            "token_reviews": cluster.token_reviews,
            "why": agents.refused[:3],
        }


def _spent(weir: "subprocess.Popen[bytes]", seconds: float) -> float:
    """Return the processor time of the next seconds."""
    before_s = cpu_s(weir.pid)
    time.sleep(seconds)
    return cpu_s(weir.pid) - before_s


def _certificates(cluster: Cluster) -> dict[str, str]:
    certificates = next(
        (secret["data"] for secret in cluster.secrets.values() if "ca.crt" in secret["data"]), None
    )
    assert certificates is not None, "Weir has made no certificates"
    return dict(certificates)


def _until_serving(cluster: Cluster, weir: "subprocess.Popen[bytes]", port: int) -> None:
    import socket

    end = time.monotonic() + _READY_S
    while True:
        assert weir.poll() is None, f"Weir ended with {weir.returncode}"
        assert time.monotonic() < end, "Weir doesn't serve"
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.2)
        else:
            if cluster.secrets:
                return


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.node_reports", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1250])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of the two measurements")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    rows = [measure(nodes, args.seconds) for nodes in args.nodes]
    show("Reports of nodes", rows, args.output, hide=("why",))
    return 0


if __name__ == "__main__":
    sys.exit(main())
