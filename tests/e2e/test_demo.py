"""The tour as a person takes it: once to its end, and once ended in the middle."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 1800
"""Longer than the tour takes on any machine; it fails by itself when nothing goes on."""


def start(tmp: Path) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "TMPDIR": str(tmp / "tmp"),
        "HOME": str(tmp / "user"),
        "WEIR_HOME": str(tmp / "user" / "pool"),
    }
    for name in ("tmp", "user"):
        (tmp / name).mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "weir", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def left_in(tmp: Path) -> list[str]:
    """Files of the pool, and processes that know it."""
    found = [str(path) for path in (tmp / "tmp").iterdir()]
    found += [str(path) for path in (tmp / "user").iterdir() if path.name == "pool"]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{tmp}/tmp/weir-demo".encode() in (entry / "environ").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


def test_all_of_it_comes_true_and_nothing_is_left(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        answer, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise
    assert process.returncode == 0, answer
    assert "All of it came true" in answer
    assert "✗" not in answer
    assert "are stopped for big-run (reclaim of quota): vision holds 8 GPUs with a quota of 2" in answer
    assert "4 pods of big-run start on" in answer
    assert answer.count("the same") >= 4
    assert "Traceback" not in answer
    assert left_in(tmp_path) == []


def test_ended_in_the_middle_nothing_is_left(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if "sweep-3 starts" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    answer, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, answer
    assert "Traceback" not in answer
    assert left_in(tmp_path) == []
