"""Arrays and chains on a pool of this machine: `python -m bench.arrays [--indices N] [--links N]`.

Starts a server of its own with virtual devices, queues an array and a chain, and measures their submissions,
the list, and the decisions while they wait, beside the decisions of an empty pool.
"""

import argparse
import http.client
import sys
import tempfile
import time
from pathlib import Path

from bench.pool import Client, Server

SMALL = {"cpu": "100m", "memory": "16Mi"}
PROBES = 40
"""Short jobs whose decisions are measured."""
_SUM, _COUNT = "weir_decision_seconds_sum", "weir_decision_seconds_count"


def submitted_s(client: Client, path: str, body: object) -> float:
    """Return the seconds that a submission takes."""
    started = time.perf_counter()
    client.ask("POST", path, body)
    return time.perf_counter() - started


def decision_ms(client: Client, numbers: "Numbers") -> float:
    """Return the mean time of the decisions for short jobs that run one after another."""
    before = numbers.read()
    for index in range(PROBES):
        body = {"project": "default", "command": ["true"], "name": f"probe-{index}", "gpus": 0, **SMALL}
        client.ask("POST", "/api/v1/workloads", {**body, "priority": 90})
    while client.ask("GET", "/api/v1/workloads?q=probe-&limit=1")["total"]:
        time.sleep(0.02)
    after = numbers.read()
    return 1000 * (after[0] - before[0]) / max(1, after[1] - before[1])


class Numbers:
    """The metrics of decisions."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def read(self) -> tuple[float, float]:
        """Return the seconds of all decisions, and their number."""
        values = {
            line.split()[0]: float(line.split()[1]) for line in self._text().splitlines() if _is_value(line)
        }
        return values[_SUM], values[_COUNT]

    def _text(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self._server.token}"})
        return connection.getresponse().read().decode()


def _is_value(line: str) -> bool:
    return line.startswith((_SUM, _COUNT))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--indices", type=int, default=10_000)
    parser.add_argument("--links", type=int, default=1000)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as home:
        server = Server(Path(home))
        try:
            _measure(server, options.indices, options.links)
        finally:
            for name in ("sweep", "link-0"):
                server.client().ask("POST", f"/api/v1/workloads/{name}/stop")
            time.sleep(2)
            server.close()
    return 0


def _measure(server: Server, indices: int, links: int) -> None:
    client, numbers = server.client(), Numbers(server)
    print(f"decision of an empty pool         {decision_ms(client, numbers):8.2f} ms")
    array = {"project": "default", "command": ["sleep", "3600"], "gpus": 1, **SMALL}
    took_s = submitted_s(client, "/api/v1/workloads", {**array, "name": "sweep", "array": f"1-{indices}"})
    print(f"submission of {indices:6,} indices      {took_s:8.3f} s")
    while client.ask("GET", "/api/v1/workloads/sweep")["array"]["running"] < 8:
        time.sleep(0.05)
    print(f"decision with these               {decision_ms(client, numbers):8.2f} ms")
    defaults = {"project": "default", "command": ["true"], "gpus": 0, **SMALL}
    chain = [{"name": "link-0", "command": ["sleep", "3600"]}]
    chain += [{"name": f"link-{index}", "after_ok": [f"link-{index - 1}"]} for index in range(1, links)]
    took_s = submitted_s(client, "/api/v1/workloads:batch", {"defaults": defaults, "workloads": chain})
    print(f"submission of a chain of {links:6,} {took_s:8.3f} s")
    print(f"decision with both                {decision_ms(client, numbers):8.2f} ms")
    started = time.perf_counter()
    page = client.ask("GET", "/api/v1/workloads?q=sweep")
    took_ms = 1000 * (time.perf_counter() - started)
    print(f"list of the array                 {took_ms:8.1f} ms, {page['total']} row")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
