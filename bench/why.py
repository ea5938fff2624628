"""Time and processor time of `weir why` on one machine: `python -m bench.why [--pending 142]`.

Starts a server of its own with eight virtual devices in a new directory, fills them, and queues workloads of
several projects and sizes. Then it asks by REST why each of them waits:

    alone       the reason alone, without suggestions
    first       the first answer, while suggestions begin to be tried
    followed    an answer that waits for suggestions: with what the trials cost
    kept        an answer with suggestions that are known already
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.pool import Client, Server
from bench.tables import show

GPUS = 8
PROJECTS = 4
ROUNDS = 3
SETTLED_S = 6.0
"""Time after which the pool has placed, preempted and started what it can."""
_ASKED = {"alone": "?suggestions=false", "first": "?wait=0", "followed": "?wait=10", "kept": "?wait=10"}
Row = dict[str, object]


def measure(pending: int) -> list[Row]:
    """Ask one server."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            client = server.client()
            names = _filled(client, pending)
            return [_measured(server, client, names, kind) for kind in _ASKED]
        finally:
            _end_all(server.client())
            server.close()


def _end_all(client: Client) -> None:
    """End all workloads: those that run would outlive the server."""
    path = "/api/v1/workloads?status={}&limit=1000"
    end = time.monotonic() + 60
    for status in ("pending", "running"):
        for row in client.ask("GET", path.format(status))["items"]:
            client.ask("POST", f"/api/v1/workloads/{row['name']}/stop")
    while client.ask("GET", path.format("running"))["items"] and time.monotonic() < end:
        time.sleep(0.2)


def _filled(client: Client, pending: int) -> list[str]:
    """Fill the devices, and return the names of workloads that wait."""
    for index in range(PROJECTS):
        client.ask(
            "PUT",
            f"/api/v1/projects/team-{index}",
            {"name": f"team-{index}", "quota": {"gpu": GPUS // PROJECTS}},
        )
    for index in range(GPUS + pending):
        body = {
            "project": f"team-{index % PROJECTS}",
            "name": f"job-{index:03d}",
            "command": ["sleep", "3600"],
            "pods": [{"gpus": 1 if index < GPUS else 1 + index % 5, "cpu": "10m", "memory": "16Mi"}],
            "priority": 50 + index % 3,
        }
        client.ask("POST", "/api/v1/workloads", body)
    time.sleep(SETTLED_S)
    waits = client.ask("GET", "/api/v1/workloads?status=pending&limit=1000")["items"]
    return [str(row["name"]) for row in waits]


def _measured(server: Server, client: Client, names: list[str], kind: str) -> Row:
    if kind == "kept":
        for name in names:
            client.ask("GET", f"/api/v1/workloads/{name}/why{_ASKED[kind]}")
    took, answers, before_s = [], 0, server.cpu_s()
    for _ in range(1 if kind == "kept" else ROUNDS):  # others are kept for some seconds
        for name in names:
            begun = time.perf_counter()
            answer = client.ask("GET", f"/api/v1/workloads/{name}/why{_ASKED[kind]}")
            took.append(1e3 * (time.perf_counter() - begun))
            assert answer["reason"] is not None, answer
            answers += len(answer["suggestions"])
            assert not answer["unfinished"] or kind == "first", answer
        time.sleep(0.1)
        if kind in ("first", "followed"):
            _change(client)
    return {
        "asked": kind,
        "pending": len(names),
        "ms_p50": round(statistics.median(took), 2),
        "ms_p99": round(sorted(took)[int(len(took) * 0.99)], 2),
        "cpu_ms": round(1e3 * (server.cpu_s() - before_s) / len(took), 2),
        "suggestions": round(answers / len(took), 1),
    }


def _change(client: Client) -> None:
    """Change the pool, so that suggestions are tried again."""
    made = client.ask(
        "POST", "/api/v1/workloads", {"project": "team-0", "command": ["true"], "pods": [{"gpus": 8}]}
    )
    client.ask("POST", f"/api/v1/workloads/{made['name']}/stop")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.why", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pending", type=int, default=142)
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    show("Reasons on one machine", measure(args.pending), args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
