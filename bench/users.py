"""Cost of starting jobs as their users: `python -m bench.users [--jobs N] [--rounds N]`, as root.

A personal pool and a pool for several users take turns on the same machine. A start is timed from the
submission to the first line that the job writes; throughput is counted over jobs of `true` of four users.
"""

import argparse
import json
import os
import pwd
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.unit.local.server.server_process import Serving
from tests.users.installed_server import UnixConnection
from tests.users.open_python import open_python
from tests.users.shared_pool import ROOT, SharedPool
from tests.users.unix_accounts import make_users, remove_users, why_not

from bench.tables import machine

USERS = 5
_CREATED, _TOO_MANY = 201, 429
_DONE = "/api/v1/workloads?status=succeeded&limit=1"


def submission(name: str, line: str) -> dict[str, object]:
    """Return the body of a job that runs one line of a shell."""
    pods = [{"gpus": 0, "cpu": "100m"}]
    return {"project": "default", "pods": pods, "name": name, "command": ["sh", "-c", line]}


def start_ms(submit: Callable[[dict[str, object]], tuple[int, object]], logs: Path, index: int) -> float:
    """Return the milliseconds from a submission to the first line of the job; `logs` are its pool's."""
    before, begun = set(logs.glob("*/*/log")), time.time()
    status, answer = submit(submission(f"start-{index}", "date +%s.%N"))
    if status != _CREATED:
        raise SystemExit(f"weir: the submission was refused: {answer}")
    while not any((text := path.read_text()).endswith("\n") for path in set(logs.glob("*/*/log")) - before):
        time.sleep(0.001)
    return (float(text) - begun) * 1000


def submit_all(connect: Callable[[], UnixConnection], user: pwd.struct_passwd, jobs: int) -> int:
    """Submit jobs of `true` in a process of a user; return its pid."""
    if pid := os.fork():
        return pid
    try:
        if user.pw_uid:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        connection = connect()
        for index in range(jobs):
            text = json.dumps(submission(f"true-{user.pw_uid}-{index}", "true"))
            status = _TOO_MANY
            while status == _TOO_MANY:
                connection.request("POST", "/api/v1/workloads", text)
                answer = connection.getresponse()
                status = answer.status
                answer.read()
            assert status == _CREATED, status
    finally:
        os._exit(0)


def jobs_per_s(socket: Path, users: list[pwd.struct_passwd], ended: Callable[[], int], jobs: int) -> float:
    """Return the jobs that a pool runs in a second, submitted by several users at once."""
    per_user = jobs // len(users)
    before, begun = ended(), time.monotonic()
    for user in users:
        submit_all(lambda user=user: UnixConnection(socket, user.pw_uid, user.pw_gid), user, per_user)  # type: ignore[misc]
    while ended() - before < per_user * len(users):
        time.sleep(0.02)
    return per_user * len(users) / (time.monotonic() - begun)


def measure(jobs: int, rounds: int, users: list[pwd.struct_passwd]) -> dict[str, float]:
    """Return medians of the starts of both pools and of their difference in pairs, and the throughputs."""
    with tempfile.TemporaryDirectory(prefix="weir-b-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        places = Path(name)
        places.chmod(0o755)
        python = open_python(places)
        if python is None:
            raise SystemExit("weir: other users can't run this interpreter, or read its packages.")
        shared, own = SharedPool(places, python, users[-1]), Serving(places / "own", 4, {})
        for user in users[:-1]:
            shared.add_member(user, "default")
        pairs = [
            (
                start_ms(
                    lambda body: shared.ask(users[0], "POST", "/api/v1/workloads", body),
                    shared.home / "jobs",
                    index,
                ),
                start_ms(lambda body: own.ask("POST", "/api/v1/workloads", body), own.home / "jobs", index),
            )
            for index in range(rounds)
        ]
        together = jobs_per_s(
            shared.socket, users[:-1], lambda: shared.ask(ROOT, "GET", _DONE)[1]["total"], jobs
        )
        alone = jobs_per_s(own.home / "weir.sock", [ROOT], lambda: own.get(_DONE)["total"], jobs)
        shared.end()
        own.stop_all()
        own.end()
    return {
        "start as its user, ms": median(one for one, _ in pairs),
        "start in a personal pool, ms": median(other for _, other in pairs),
        "difference in pairs, ms": median(one - other for one, other in pairs),
        "jobs of several users a second": together,
        "jobs of a personal pool a second": alone,
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.users", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of `true` for each pool")
    parser.add_argument("--rounds", type=int, default=100, help="pairs of starts")
    options = parser.parse_args()
    if (reason := why_not()) is not None:
        raise SystemExit(f"weir: {reason}.")
    os.environ.setdefault("PYTHONPATH", "src")
    users = make_users(USERS)
    try:
        figures = measure(options.jobs, options.rounds, users)
    finally:
        remove_users(users)
    print(f"# {machine()}\n")
    for name, value in figures.items():
        print(f"{name:<36}{value:>8.1f}")


if __name__ == "__main__":
    main()
