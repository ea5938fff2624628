"""A server over a lost or restored database: no job gets the output or the devices of another."""

import signal
import sys
import time
from pathlib import Path

from tools import prefork

from weir.local.records.state_dir import StateDir
from weir.store.database.backup import backup, restore

from .server_process import UP, serving


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def leader(home: Path, uid: int) -> int:
    import json

    running = Path(StateDir(home).directory(uid, 1, 0, 0), "running.json")
    until = time.monotonic() + 120
    while not running.exists() or not (text := running.read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return int(json.loads(text)["leader"])


def test_lost_database_is_refused_and_a_restored_one_ends_what_it_doesnt_know(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    with serving(home, gpus=2) as server:
        one = server.submit("sh", "-c", "echo of the first; exec sleep 300", name="one")["uid"]
        server.until("one", "running")
        backup(home, None, file)
        two = server.submit("sleep", "300", name="two")["uid"]
        server.until("two", "running")
        first, second = leader(home, one), leader(home, two)
        server.end(signal.SIGKILL)
        for part in ("", "-wal", "-shm"):
            (home / f"weir.db{part}").unlink(missing_ok=True)
        refused = prefork.run([sys.executable, "-c", UP, str(home), "2", "0", "{}", "0"])
        assert refused.returncode == 1
        assert "weir restore FILE" in refused.stderr
        assert not is_gone(first)
        restore(home, None, file)
        server.begin()
        assert is_gone(second)
        assert not is_gone(first)
        assert server.until("one", "running")["uid"] == one
        three = server.submit("echo", "of the third", name="three")
        assert three["uid"] > two
        server.until("three", "succeeded")
        assert server.get("/api/v1/workloads/three/logs") == "of the third\n"
