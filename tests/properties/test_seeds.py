"""Nothing depends on the order of a hash: other seeds of the interpreter, the same plans."""

import os
import subprocess
import sys
from pathlib import Path

SCENARIOS = Path(__file__).parents[1] / "scenarios"
FOLDERS = ("gang", "limits", "loops", "place", "price", "reclaim", "topology")


def test_other_hashes_give_the_same_plans() -> None:
    files = sorted(str(file) for folder in FOLDERS for file in (SCENARIOS / folder).glob("*.yaml"))
    assert files
    played = [_played(files, seed) for seed in ("1", "2")]
    assert played[0] == played[1]
    assert played[0].count("\n") == len(files)


def _played(files: list[str], seed: str) -> str:
    words = [sys.executable, "-m", "weir", "scenario", "run", *files, "--output", "json", "--cycles", "4"]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
