"""examples/elastic_torch.py: with PyTorch where it is installed, and by its own logic everywhere."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.e2e.standin_torch import lay
from tests.unit.local.server.server_process import Serving, serving

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "elastic_torch.py"
BATCH = 256


class Run:
    """Runs of the example with the stand-in, one process for each rank, from one checkpoint directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.saved = place / "saved"
        self.saved.mkdir()
        lay(place / "path")

    def ranks(self, size: int, steps: int, restart: int) -> list[str]:
        """Run a world of this size to a step, as torchrun starts its workers; return the outputs by rank."""
        return [self._rank(rank, size, steps, restart) for rank in reversed(range(size))][::-1]

    def _rank(self, rank: int, size: int, steps: int, restart: int) -> str:
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (self.place / "path", ROOT / "src"))),
            "WEIR_CHECKPOINT_DIR": str(self.saved),
            "WEIR_ELASTIC": "1:4",
            "TORCHELASTIC_RUN_ID": "7",
            "TORCHELASTIC_RESTART_COUNT": f"{restart}",
            "RANK": f"{rank}",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": f"{size}",
            "STANDIN_SEEN": str(self.place / f"seen-{restart}-{rank}"),
        }
        command = [sys.executable, str(EXAMPLE), "--steps", f"{steps}", "--save-every", "2"]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=240, check=True
        ).stdout

    def seen(self, restart: int, size: int, steps: int) -> Iterator[list[int]]:
        """Yield the numbers of the examples of each step, of all ranks together."""
        passes = [
            [json.loads(line) for line in (self.place / f"seen-{restart}-{rank}").read_text().splitlines()]
            for rank in range(size)
        ]
        for step in range(steps):
            of_step: list[int] = []
            for each in passes:
                count = len(each) // steps
                of_step += [number for some in each[step * count : (step + 1) * count] for number in some]
            yield of_step


@pytest.mark.parametrize("sizes", [(1, 3), (4, 2)])
def test_each_step_has_the_same_examples_in_any_world_and_goes_on_at_the_saved_step(
    tmp_path: Path, sizes: tuple[int, int]
) -> None:
    """The world is that of torchrun's variables, and the second one begins where the first one saved."""
    run = Run(tmp_path)
    for restart, size in enumerate(sizes):
        outputs = run.ranks(size, steps=4 * (restart + 1), restart=restart)
        for rank, output in enumerate(outputs):
            assert f"rank {rank} of {size} begins at step {4 * restart}" in output
        assert [rank for rank, output in enumerate(outputs) if "done after" in output] == [0]
        for numbers in run.seen(restart, size, steps=4):
            assert sorted(numbers) == list(range(BATCH))


@pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch isn't installed: pip install torch runs this test"
)
def test_torchrun_starts_workers_again_as_gpus_come_and_go(tmp_path: Path) -> None:
    with serving(tmp_path / "home", gpus=3) as server:
        for name, quota in (("owners", 2), ("guests", 1)):
            server.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})
        job = server.submit(
            *(sys.executable, "-m", "torch.distributed.run", str(EXAMPLE)),
            *("--steps", "1000000", "--save-every", "20"),
            name="job",
            project="guests",
            elastic="1:3",
            pods=[{"gpus": 1, "cpu": "200m", "memory": "1Gi"}],
            env={"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        )
        logs = tmp_path / "home" / "jobs" / str(job["uid"])
        _until_world(server, logs, 3, begun=0)
        server.submit("sleep", "600", name="owner", project="owners", gpus=2)
        server.until("owner", "running")
        steps = _until_world(server, logs, 1, begun=1)
        assert steps > 0, "it goes on from a checkpoint"
        server.ask("POST", "/api/v1/workloads/owner/stop")
        assert _until_world(server, logs, 3, begun=2) >= steps
        assert server.get("/api/v1/workloads/job")["restarts"] == 0
        server.ask("POST", "/api/v1/workloads/job/stop")
        server.until("job", "stopped")


def _until_world(server: Serving, logs: Path, size: int, *, begun: int) -> int:
    """Wait until workers have begun in a world of this size, after `begun` others; return their step."""
    until = time.monotonic() + 300
    while True:
        text = "\n".join(file.read_text() for file in sorted(logs.glob("*/log")))
        worlds = [
            (int(found[1]), int(found[2]))
            for found in re.finditer(r"rank 0 of (\d+) begins at step (\d+)", text)
        ]
        for of, step in worlds[begun:]:
            if of == size and step >= max((each for _, each in worlds[:begun]), default=0):
                return step
        assert time.monotonic() < until, text
        assert server.get("/api/v1/workloads/job")["status"] in ("pending", "starting", "running"), text
        time.sleep(0.1)
