"""A pool under attack: `python -m bench.overload [--seconds N] [--loads NAME ...]`.

Starts a server with 1,024 descriptors and virtual devices, and has one person, or a program without a token,
ask too much of it. Meanwhile another person submits and lists all the time, over a new connection each time.
Prints how the load was answered, how long the other person waited (median / most; the goal is 1 s), and how
much the server logged.

`long_line` needs a job that writes one line of 300 MB; sixteen readers then ask for its last line.
"""

import argparse
import http.client
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tools import prefork

from bench.overload_loads import LOADS, Target, apply

DESCRIPTORS = 1024
GOAL_S = 1.0
_SERVE = (
    "import resource, sys; from pathlib import Path; from weir.local.server.main import run; "
    "from weir.local.server.settings.server_settings import ServerSettings; "
    "most = int(sys.argv[2]); resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)); "
    "limits = Path(sys.argv[3]) if sys.argv[3:] else None; "
    "home = Path(sys.argv[1]); "
    "from pwd import getpwuid; from os import getuid; own = getpwuid(getuid()).pw_name; "
    "sys.exit(run(ServerSettings(home=home, port=0, virtual_gpus=8, limits_file=limits, log_level='info', "
    "shared_account=own)))"
)
_LINE = "head -c {} /dev/zero | tr '\\0' x; sleep 600"


class Pool:
    """Server with few descriptors, an attacker and a worker."""

    def __init__(self, home: Path, limits: Path | None = None, descriptors: int = DESCRIPTORS) -> None:
        self.home = home
        self._log = home.with_name("log")
        with self._log.open("wb") as log:
            command = [sys.executable, "-c", _SERVE, str(home), str(descriptors)]
            command += [] if limits is None else [str(limits)]
            self.process = prefork.start(command, stdout=log.fileno(), stderr=log.fileno())
        until = time.monotonic() + 120
        while not (home / "server.json").exists():
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        self.port = int(json.loads((home / "server.json").read_text())["url"].rsplit(":", 1)[1])
        self.admin = (home / "token").read_text().strip()
        for name in ("attack", "work"):
            self.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": 4}})
        self.attacker, self.worker = (
            self.ask("POST", "/api/v1/tokens", {"user": user, "projects": [project]})["token"]
            for user, project in (("mallory", "attack"), ("alice", "work"))
        )

    def ask(self, method: str, path: str, body: object = None, token: str | None = None) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            headers = {"Authorization": f"Bearer {self.admin if token is None else token}"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            reply = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {reply.decode()[:400]}")
        return json.loads(reply) if reply else {}

    def submit_waiting(self) -> None:
        body = {"project": "attack", "name": "waits", "command": ["true"], "pods": [{"gpus": 8}]}
        body |= {"preemptible": False, "priority": 100}  # beyond the quota of its project
        self.ask("POST", "/api/v1/workloads", body, self.attacker)

    def submit_long_line(self, size: int) -> None:
        """Submit a job that writes one line of this many bytes."""
        command = ["sh", "-c", _LINE.format(size)]
        body = {"project": "attack", "name": "long", "command": command}
        self.ask("POST", "/api/v1/workloads", body, self.attacker)
        until = time.monotonic() + 120
        while not any(log.stat().st_size >= size for log in self.home.glob("jobs/*/*/log")):
            assert time.monotonic() < until
            time.sleep(0.1)

    @property
    def log_bytes(self) -> int:
        return self._log.stat().st_size

    def close(self) -> None:
        """Stop what waits, so that it doesn't start later, then what runs, and end the pool in any case."""
        try:
            for status in ("pending", "starting", "running"):
                for row in self.ask("GET", f"/api/v1/workloads?limit=1000&status={status}")["items"]:
                    self._stop(row["name"])
        finally:
            self._end()

    def _stop(self, name: str) -> None:
        """Stop a workload, as soon as the limit of requests allows; it may be over."""
        while True:
            try:
                self.ask("POST", f"/api/v1/workloads/{name}/stop")
            except RuntimeError as error:
                if " 409 " in str(error):
                    return
                if " 429 " not in str(error):
                    raise
                time.sleep(0.5)
            else:
                return

    def _end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def pool(home: Path, limits: Path | None = None) -> Iterator[Pool]:
    target_pool = Pool(home, limits)
    try:
        yield target_pool
    finally:
        target_pool.close()


@dataclass
class Worker:
    """Worker that submits and lists beside the attacker."""

    pool: Pool
    submits_s: list[float] = field(default_factory=list)
    lists_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def turn(self) -> None:
        body = {"project": "work", "command": ["true"], "pods": [{"gpus": 0, "cpu": "10m", "memory": "1Mi"}]}
        for took_s, words in (
            (self.submits_s, ("POST", "/api/v1/workloads", body)),
            (self.lists_s, ("GET", "/api/v1/workloads", None)),
        ):
            begun_s = time.monotonic()
            try:
                self._ask(*words)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                self.failures.append(f"{words[0]}: {error or type(error).__name__}")
            took_s.append(time.monotonic() - begun_s)

    def _ask(self, method: str, path: str, body: object) -> None:
        """Send a request; once more if the server closed the connection before the request was written.

        On a busy machine this process may pause between both, and a silent connection makes way for others.
        """
        try:
            self.pool.ask(method, path, body, self.pool.worker)
        except (BrokenPipeError, ConnectionResetError):
            self.pool.ask(method, path, body, self.pool.worker)


def measure(target_pool: Pool, name: str, size: int, seconds: float) -> dict[str, object]:
    """Measure one load, and the answers to another person meanwhile."""
    worker, before = Worker(target_pool), target_pool.log_bytes
    command = [sys.executable, "-m", "bench.overload", "--load", name, "--size", str(size)]
    command += ["--seconds", str(seconds), "--port", str(target_pool.port)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TOKEN": target_pool.attacker}
    )
    while process.poll() is None:
        worker.turn()
        time.sleep(0.05)
    reply, _ = process.communicate()
    return {
        "load": name,
        "size": size,
        "answers": json.loads(reply),
        "turns": len(worker.submits_s),
        "submit_ms": median(worker.submits_s) * 1000,
        "submit_ms_max": max(worker.submits_s) * 1000,
        "list_ms": median(worker.lists_s) * 1000,
        "list_ms_max": max(worker.lists_s) * 1000,
        "failures": worker.failures,
        "log_bytes": target_pool.log_bytes - before,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.overload", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--loads", nargs="*", default=list(LOADS), choices=list(LOADS))
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--line", type=int, default=300_000_000, help="bytes of the long line")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    parser.add_argument("--load", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))
        target = Target(args.port, os.environ["TOKEN"], args.seconds)
        print(json.dumps(apply(args.load, args.size, target)))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as directory, pool(Path(directory, "home")) as target_pool:
        target_pool.submit_waiting()
        if "long_line" in args.loads:
            target_pool.submit_long_line(args.line)
        for name in args.loads:
            row = measure(target_pool, name, LOADS[name][1], args.seconds)
            rows.append(row)
            if args.output == "text":
                print(_line(row), flush=True)
    if args.output == "json":
        print(json.dumps(rows))
    worst = max(max(row["submit_ms_max"], row["list_ms_max"]) for row in rows) / 1000
    return int(worst > GOAL_S or any(row["failures"] for row in rows))


def _line(row: dict) -> str:
    answers = ", ".join(f"{status} {count:,}" for status, count in sorted(row["answers"].items()))
    failed = f"; {len(row['failures'])} failed: {row['failures'][0]}" if row["failures"] else ""
    return (
        f"{row['load']:<13} {row['size']:>7,}"
        f"  submit {row['submit_ms']:6.0f} / {row['submit_ms_max']:6.0f} ms"
        f"  list {row['list_ms']:6.0f} / {row['list_ms_max']:6.0f} ms  log {row['log_bytes']:,} B"
        f"  [{answers}]{failed}"
    )


if __name__ == "__main__":
    sys.exit(main())
