"""The examples of the manual: evicted for another workload, they go on at the very step."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.standin_torch import lay
from tests.unit.local.server.server_process import serving

ROOT = Path(__file__).parents[2]
PLAIN, TORCH = (ROOT / "examples" / name for name in ("checkpoints_plain.py", "checkpoints_torch.py"))


def alone(example: Path, place: Path, *words: str, path: Path | None = None) -> str:
    """Return its output without a disturbance."""
    place.mkdir()
    paths = os.pathsep.join(str(each) for each in (path, ROOT / "src") if each is not None)
    env = {**os.environ, "WEIR_CHECKPOINT_DIR": str(place), "PYTHONPATH": paths}
    command = [sys.executable, str(example), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=True).stdout


SLOW = """
import os, time
sleep = time.sleep

def step(seconds):
    sleep(seconds)
    while not os.path.exists(os.environ["FAST"]) and os.listdir(os.environ["WEIR_CHECKPOINT_DIR"]):
        import weir
        if weir.stopping():
            return
        sleep(0.05)

time.sleep = step
"""
"""Module that the interpreter of a job imports first: the step after the first checkpoint waits for the stop."""


def stopped_once(home: Path, command: list[str], *paths: Path) -> tuple[str, Any]:
    """Its output over both starts, and its row, after an owner wanted the only device for a moment."""
    first, fast = home.with_name("first"), home.with_name("fast")
    first.mkdir()
    (first / "sitecustomize.py").write_text(SLOW)
    env = {"PYTHONPATH": os.pathsep.join(map(str, (first, *paths, ROOT / "src"))), "FAST": str(fast)}
    with serving(home, gpus=1) as server:
        for name, quota in (("owners", 1), ("guests", 0)):
            server.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})
        job = server.submit(*command, name="job", project="guests", env=env)
        server.until("job", "running")
        log = home / "jobs" / str(job["uid"])
        notes = log / "1-0-0" / "notes.jsonl"
        while not notes.exists() or "checkpointed" not in notes.read_text():
            assert server.get("/api/v1/workloads/job")["status"] == "running"
        server.submit("true", name="owner", project="owners")
        server.until("owner", "succeeded")
        fast.touch()
        row = server.until("job", "succeeded", "failed")
        return "".join((log / f"{start}-0-0" / "log").read_text() for start in (1, 2)), row


def test_plain_python_goes_on_where_it_was(tmp_path: Path) -> None:
    words = ("--steps", "80", "--save-every", "10")
    undisturbed = alone(PLAIN, tmp_path / "alone", *words, "--pause", "0")
    command = [sys.executable, str(PLAIN), *words]
    answer, row = stopped_once(tmp_path / "home", command)
    assert (row["status"], row["restarts"]) == ("succeeded", 1)
    stops, begins = re.search(r"stops at step (\d+)", answer), re.search(r"goes on at step (\d+)", answer)
    assert stops is not None
    assert begins is not None
    assert stops[1] == begins[1]
    assert 10 <= int(stops[1]) < 80
    assert answer.splitlines()[-1] == undisturbed.strip()


def test_torch_goes_on_where_it_was(tmp_path: Path) -> None:
    """By its own logic: what it uses of torch is stood in for."""
    lay(tmp_path / "path")
    words = ("--steps", "400", "--save-every", "20")
    alone(TORCH, tmp_path / "alone", *words, path=tmp_path / "path")
    command = [sys.executable, str(TORCH), *words]
    answer, row = stopped_once(tmp_path / "home", command, tmp_path / "path")
    assert (row["status"], row["restarts"]) == ("succeeded", 1)
    stops, begins = re.search(r"stops at step (\d+)", answer), re.search(r"goes on at step (\d+)", answer)
    assert stops is not None
    assert begins is not None
    assert stops[1] == begins[1]
    (saved,) = (tmp_path / "home" / "checkpoints").glob("1/latest.pt")
    undisturbed = pickle.loads((tmp_path / "alone" / "latest.pt").read_bytes())
    assert pickle.loads(saved.read_bytes()) == undisturbed
