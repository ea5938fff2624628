"""The server is killed again and again while jobs come, run, take capacity from one another and end.

Nothing is lost, nothing runs twice at a time, and the history has one end for each job. WEIR_EFFORT
multiplies how much of it there is: 10 makes 240 jobs and 50 kills.
"""

import http.client
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.unit.local.server.server_process import Serving

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
JOBS, KILLS = 24 * EFFORT, 5 * EFFORT
JOB = """
exec 9> {home}/lock-$WEIR_WORKLOAD
flock -n 9 || echo $WEIR_WORKLOAD >> {home}/twice
trap 'exit 1' TERM
sleep {seconds} 9>&- & wait $!
echo $WEIR_WORKLOAD >> {home}/done
"""


def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    dice = random.Random(7)
    server = Serving(tmp_path / "home", gpus=4)
    marks = tmp_path / "marks"
    marks.mkdir()
    for name, quota in (("owners", 4), ("guests", 0)):
        server.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})
    left = [(f"{project}-{at}", project) for at in range(JOBS // 2) for project in ("guests", "owners")]
    kills = 0
    ends = time.monotonic() + 240 + 20 * KILLS
    try:
        while left or kills < KILLS:
            assert time.monotonic() < ends
            until = time.monotonic() + dice.uniform(0.05, 0.8)
            while left and time.monotonic() < until:
                _submit(server, *left.pop(0), marks, dice)
                time.sleep(dice.uniform(0.0, 0.05))
            if kills < KILLS:
                time.sleep(max(0.0, until - time.monotonic()))
                server.end(signal.SIGKILL)
                kills += 1
                server.begin()
        while server.get("/api/v1/workloads?limit=1")["total"]:
            assert time.monotonic() < ends, server.get("/api/v1/workloads")
            time.sleep(0.1)
        ended = server.get("/api/v1/workloads?all=true&limit=1000")["items"]
    finally:
        with suppress(AssertionError, http.client.HTTPException, OSError):
            server.stop_all()
        server.end()
    assert Counter(row["status"] for row in ended) == {"succeeded": JOBS}, [
        row for row in ended if row["status"] != "succeeded"
    ]
    assert not (marks / "twice").exists(), (marks / "twice").read_text()
    done = Counter((marks / "done").read_text().split())
    assert set(done) == {row["name"] for row in ended}
    with sqlite3.connect(server.home / "weir.db") as database:
        reported = Counter(
            row[0] for row in database.execute("SELECT workload FROM events WHERE kind = 'ended'")
        )
    database.close()
    assert reported == dict.fromkeys(done, 1)


def _submit(server: Serving, name: str, project: str, marks: Path, dice: random.Random) -> None:
    seconds = round(dice.uniform(0.05, 0.6), 2)
    script = JOB.format(home=marks, seconds=seconds)
    server.submit("sh", "-c", script, name=name, project=project, gpus=dice.choice([1, 1, 2]))
