"""The time until a session within its quota has its GPU, in a pool that is full of borrowers.

    python -m bench.sessions [--sessions 200] [--notice 1] [--output json]

A project owns four of eight virtual GPUs and submits sessions of one GPU, one after another. Another project
borrows all that it leaves, with jobs that ignore their notice. Measured is the time beyond the notice from a
submission until the session runs (goal: 2 s at the 99th percentile).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

from bench.pool import Client, Server
from bench.tables import show

Row = dict[str, object]
GPUS, OWNED, LOANS = 8, 4, 10
IGNORES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(36000)"
WAIT_S, LOOK_S = 120.0, 0.02


def measure(sessions: int, notice_s: float) -> Row:
    """Submit sessions one after another; return the quantiles of their times beyond the notice."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            over = sorted(_times_over(server.client(), sessions, notice_s))
            _stop_all(server.client())
        finally:
            server.close()
    return {
        "sessions": sessions,
        "notice_s": notice_s,
        "over_s_p50": round(median(over), 2),
        "over_s_p99": round(over[min(len(over) - 1, int(0.99 * len(over)))], 2),
        "over_s_max": round(over[-1], 2),
    }


def _times_over(client: Client, sessions: int, notice_s: float) -> Iterator[float]:
    for name, quota in (("default", 0), ("owner", OWNED), ("lender", GPUS - OWNED)):
        client.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})
    loan = {"project": "default", "command": [sys.executable, "-c", IGNORES], "gpus": 1, "grace": notice_s}
    for _ in range(LOANS):
        client.ask("POST", "/api/v1/workloads", loan)
    session = {"project": "owner", "command": ["sleep", "3600"], "gpus": 1, "type": "build"}
    for index in range(sessions):
        _until(client, "default", GPUS)
        began = time.perf_counter()
        client.ask("POST", "/api/v1/workloads", {**session, "name": f"s{index}"})
        _until(client, "owner", 1)
        yield time.perf_counter() - began - notice_s
        client.ask("POST", f"/api/v1/workloads/s{index}/stop")


def _until(client: Client, project: str, running: int) -> None:
    """Wait until this number of workloads of a project runs."""
    end = time.monotonic() + WAIT_S
    path = f"/api/v1/workloads?project={project}&status=running&limit=1"
    while client.ask("GET", path)["total"] != running:
        assert time.monotonic() < end, f"{running} workloads of {project} never ran"
        time.sleep(LOOK_S)


def _stop_all(client: Client) -> None:
    while rows := client.ask("GET", "/api/v1/workloads?limit=100")["items"]:
        for row in rows:
            with suppress(SystemExit):  # it ended meanwhile
                client.ask("POST", f"/api/v1/workloads/{row['name']}/stop")
        time.sleep(0.2)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.sessions", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--notice", type=float, default=1.0)
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    show("Sessions in a full pool", [measure(args.sessions, args.notice)], args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
