"""The server is killed again and again while an array runs: each index runs, and none is queued twice."""

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
INDICES, KILLS = 120 * EFFORT, 6 * EFFORT
SCRIPT = """
exec 9> {marks}/lock-$WEIR_ARRAY_INDEX
flock -n 9 || echo $WEIR_ARRAY_INDEX >> {marks}/twice
trap 'exit 1' TERM
sleep 0.1 9>&- & wait $!
echo $WEIR_ARRAY_INDEX >> {marks}/done
"""


def test_no_index_is_lost_or_queued_twice(tmp_path: Path) -> None:
    dice = random.Random(11)
    server = Serving(tmp_path / "home", gpus=4)
    marks = tmp_path / "marks"
    marks.mkdir()
    ends = time.monotonic() + 240 + 20 * KILLS
    try:
        script = SCRIPT.format(marks=marks)
        server.submit("sh", "-c", script, name="sweep", gpus=0.5, array=f"0-{INDICES - 1}")
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.0, 0.6))
            server.end(signal.SIGKILL)
            server.begin()
        while server.get("/api/v1/workloads?limit=1")["total"]:
            assert time.monotonic() < ends, server.get("/api/v1/workloads")
            time.sleep(0.1)
        row = server.get("/api/v1/workloads/sweep")
    finally:
        with suppress(AssertionError, http.client.HTTPException, OSError):
            server.stop_all()
        server.end()
    assert (row["status"], row["array"]["succeeded"]) == ("succeeded", INDICES), row
    assert not (marks / "twice").exists(), (marks / "twice").read_text()
    done = Counter((marks / "done").read_text().split())
    assert set(done) == {str(at) for at in range(INDICES)}
    with sqlite3.connect(server.home / "weir.db") as database:
        rows = database.execute("SELECT array_index FROM workloads WHERE array_index IS NOT NULL").fetchall()
        query = "SELECT workload FROM events WHERE kind = 'ended'"
        reported = Counter(each[0] for each in database.execute(query))
    database.close()
    assert sorted(each[0] for each in rows) == list(range(INDICES))
    assert reported == dict.fromkeys([*(f"sweep[{at}]" for at in range(INDICES)), "sweep"], 1)
