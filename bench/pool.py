"""Load test of a pool on this machine: `python -m bench.pool [--jobs N] [--queued N]`.

Starts a server of its own with virtual devices in a new directory, has eight submitters queue jobs of
`true`, and measures from the first submission to the last recorded end. Then it queues jobs that wait,
asks for pages of them, and lets the server idle.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from bench.processes import cpu_s

SUBMITTERS = 8
ASKED = 10
"""Number of requests for each page."""
_SERVE = (
    "import sys; from pathlib import Path; from weir.local.server.main import run; "
    "from weir.local.server.settings.server_settings import ServerSettings; "
    "sys.exit(run(ServerSettings(home=Path(sys.argv[1]), port=0, virtual_gpus=8, log_level='warning')))"
)


class Server:
    """A server of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        command = [sys.executable, *(profiler() or ["-c", _SERVE]), str(home)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not (home / "server.json").exists() and time.monotonic() < until:
            time.sleep(0.05)
        reply = json.loads((home / "server.json").read_text())
        self.port = int(reply["url"].rsplit(":", 1)[1])
        self.token = (home / "token").read_text().strip()

    def client(self) -> "Client":
        return Client(self.port, self.token)

    def cpu_s(self) -> float:
        """Return the processor time of the server, in seconds."""
        return cpu_s(self.process.pid)

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def profiler() -> list[str]:
    """Return the script that runs in place of a plain server, if WEIR_PROFILE names one."""
    program = os.environ.get("WEIR_PROFILE")
    return [program] if program else []


class Client:
    """Client with a kept connection."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: object = None) -> dict:
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, self._headers)
        answer = self._connection.getresponse()
        reply = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {reply.decode()[:400]}")
        return json.loads(reply)


def throughput(server: Server, jobs: int) -> dict[str, float]:
    """Jobs of `true` through submit, run and recorded end."""
    body = {
        "project": "default",
        "command": ["true"],
        "pods": [{"gpus": 0.1, "cpu": "100m", "memory": "16Mi"}],
    }
    took: list[float] = []

    def submit(count: int) -> None:
        client = server.client()
        for _ in range(count):
            started = time.perf_counter()
            client.ask("POST", "/api/v1/workloads", body)
            took.append(time.perf_counter() - started)

    before_s = server.cpu_s()
    started = time.perf_counter()
    threads = [threading.Thread(target=submit, args=(jobs // SUBMITTERS,)) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    submitted_s = time.perf_counter() - started
    client = server.client()
    wanted = jobs // SUBMITTERS * SUBMITTERS
    while client.ask("GET", "/api/v1/workloads?status=succeeded&limit=1")["total"] < wanted:
        time.sleep(0.05)
    whole_s = time.perf_counter() - started
    return {
        "jobs": wanted,
        "submitted_per_s": wanted / submitted_s,
        "jobs_per_s": wanted / whole_s,
        "submit_ms_median": median(took) * 1000,
        "submit_ms_p99": sorted(took)[int(len(took) * 0.99)] * 1000,
        "server_cpu_ms_per_job": (server.cpu_s() - before_s) / wanted * 1000,
    }


def lists(server: Server, queued: int) -> dict[str, float]:
    """Pages of many that wait."""
    client = server.client()
    client.ask("PUT", "/api/v1/projects/queue", {"name": "queue", "quota": {"gpu": 0}, "limit": {"gpu": 0}})

    def submit(count: int, kind: int) -> None:
        own_client = server.client()
        body = {
            "project": "queue",
            "command": ["true"],
            "pods": [{"gpus": 1 + kind % 4}],
            "priority": 10 + kind,
        }
        for _ in range(count):
            own_client.ask("POST", "/api/v1/workloads", body)

    started = time.perf_counter()
    threads = [
        threading.Thread(target=submit, args=(queued // SUBMITTERS, kind)) for kind in range(SUBMITTERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = server.client()
    result = {"queued": queued, "queued_per_s": queued / (time.perf_counter() - started)}
    asked = {
        "page": "/api/v1/workloads?limit=100",
        "page_of_1000": "/api/v1/workloads?limit=1000",
        "filtered": "/api/v1/workloads?status=pending&project=queue&q=train&limit=100",
        "deep": f"/api/v1/workloads?limit=100&after={queued // 2}",
        "all": "/api/v1/workloads?all=true&limit=100",
        "all_filtered": "/api/v1/workloads?all=true&project=queue&status=pending&q=train&limit=100",
        "reason": "/api/v1/workloads/{name}/why?suggestions=false",
        "why": "/api/v1/workloads/{name}/why",
        "status": "/api/v1/status",
        "projects": "/api/v1/projects",
    }
    name = client.ask("GET", "/api/v1/workloads?limit=1")["items"][0]["name"]
    for query, path in asked.items():
        times = []
        before_s = server.cpu_s()
        for _ in range(ASKED):
            begun = time.perf_counter()
            client.ask("GET", path.format(name=name))
            times.append(time.perf_counter() - begun)
        result[f"{query}_ms"] = median(times) * 1000
        result[f"{query}_cpu_ms"] = (server.cpu_s() - before_s) / ASKED * 1000
        result[f"{query}_ms_most"] = max(times) * 1000
    return result


def idle(server: Server, seconds: float) -> dict[str, float]:
    """Processor use while nothing happens."""
    time.sleep(3)
    before = server.cpu_s()
    time.sleep(seconds)
    return {"idle_cpu_percent": (server.cpu_s() - before) / seconds * 100}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=20.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            print(json.dumps(throughput(server, chosen.jobs), indent=1))
            print(json.dumps(idle(server, chosen.idle), indent=1))
            if chosen.queued:
                print(json.dumps(lists(server, chosen.queued), indent=1))
                print(json.dumps(idle(server, chosen.idle), indent=1))
        finally:
            server.close()


if __name__ == "__main__":
    main()
