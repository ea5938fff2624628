"""Costs and delays of Weir on a real GPU of this machine: python -m bench.gpu [--repeats 5].

    look          one reading of all GPUs by Weir, with 8 processes on them
    bare          start of a program until its first computation is done, without Weir
    free          the same from `submit` on a free GPU
    handover      the same from `submit` on a GPU whose borrower has filled its memory, and is evicted
    step          a step of training alone (PyTorch), and beside a neighbour on the other half of the GPU

Goal: free at most 1 s over bare, handover at most 2 s over bare.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.pool import Client
from bench.tables import show
from weir.local.machine.devices import nvml_driver

Row = dict[str, object]
PROGRAM = str(Path(__file__).parents[1] / "tools" / "cuda_program.py")
WAIT_S = 120.0
STEPS = """
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
until = time.monotonic() + float(sys.argv[1])
steps = []
while time.monotonic() < until:
    begun = time.perf_counter()
    for _ in range(10):
        a @ a
    torch.cuda.synchronize()
    steps.append(time.perf_counter() - begun)
steps.sort()
print("step", steps[len(steps) // 2], steps[int(len(steps) * 0.99)], flush=True)
"""


class Pool:
    """A pool of `weir up` on the first GPU."""

    def __init__(self, home: Path) -> None:
        self.home = home
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
        environment |= {"WEIR_HOME": str(home), "CUDA_VISIBLE_DEVICES": "0"}
        command = [sys.executable, "-m", "weir", "up", "--port", "0"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        wait((home / "server.json").exists)
        port = int(json.loads((home / "server.json").read_text())["url"].rsplit(":", 1)[1])
        self.client = Client(port, (home / "token").read_text().strip())
        for name, quota in (("default", 0), ("owner", 1)):
            self.client.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})

    def submit(self, name: str, project: str, command: list[str], gpus: float = 1) -> Path:
        """Submit a job; return the directory of its outputs."""
        pods = [{"gpus": gpus, "cpu": "1", "memory": "8Gi"}]
        body = {"name": name, "project": project, "command": command, "pods": pods}
        return self.home / "jobs" / str(self.client.ask("POST", "/api/v1/workloads", body)["uid"])

    def stop(self, name: str) -> None:
        """Stop a job, and wait until it is gone."""
        self.client.ask("POST", f"/api/v1/workloads/{name}/stop")
        wait(lambda: self.client.ask("GET", f"/api/v1/workloads/{name}")["ended_s"] is not None)


@contextmanager
def pool() -> Iterator[Pool]:
    """Serve the first GPU for the length of a block."""
    with tempfile.TemporaryDirectory() as directory:
        made = Pool(Path(directory) / "home")
        try:
            yield made
        finally:
            made.process.terminate()
            made.process.wait(30)


def wait(holds: Callable[[], object]) -> None:
    """Wait until something is so.

    Raises:
        SystemExit: it isn't within two minutes.
    """
    until_s = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > until_s:
            raise SystemExit(f"it hasn't happened within {WAIT_S:.0f} s")
        time.sleep(0.01)


def output(job: Path, word: str) -> list[str]:
    """Wait for a line of a job that begins with a word; return its words."""
    lines: list[list[str]] = []

    def is_there() -> bool:
        text = "\n".join(path.read_text() for path in job.glob("*/log"))
        lines[:] = [line.split() for line in text.splitlines() if line.startswith(word)]
        return bool(lines)

    wait(is_there)
    return lines[-1]


def look(repeats: int) -> Row:
    """Measure a reading of all GPUs."""
    driver = nvml_driver()
    if driver is None or not driver.devices():
        raise SystemExit("this machine has no GPU of NVIDIA")
    programs = [
        subprocess.Popen([sys.executable, PROGRAM, "hold:64", "sleep:600"], stdout=subprocess.DEVNULL)
        for _ in range(8)
    ]
    wait(lambda: len(driver.doing()[0].memory_of) >= len(programs))
    took_ms = []
    for _ in range(10 * repeats):
        begun = time.perf_counter()
        driver.doing()
        driver.faults()
        took_ms.append(1e3 * (time.perf_counter() - begun))
    for program in programs:
        program.terminate()
        program.wait()
    return {"what": "look (ms)", "p50": round(median(took_ms), 2), "max": round(max(took_ms), 2)}


def starts(repeats: int, made: Pool) -> list[Row]:
    """Measure the time until a first computation: without Weir, on a free GPU, and on a borrowed one."""
    bare, free, handover = [], [], []
    for index in range(repeats):
        begun_s = time.time()
        done = subprocess.run([sys.executable, PROGRAM, "spin:0"], capture_output=True, check=True)
        bare.append(float(done.stdout.split()[-1]) - begun_s)
        for times, borrows in ((free, False), (handover, True)):
            name = f"{'handover' if borrows else 'free'}{index}"
            if borrows:
                output(
                    made.submit(f"loan{index}", "default", [sys.executable, PROGRAM, "fill", "sleep:600"]),
                    "fill",
                )
            begun_s = time.time()
            job = made.submit(name, "owner", [sys.executable, PROGRAM, "spin:0", "sleep:600"])
            times.append(float(output(job, "spin")[-1]) - begun_s)
            if borrows:
                made.client.ask("POST", f"/api/v1/workloads/loan{index}/stop")
            made.stop(name)
    return [
        {"what": f"{name} (s)", "p50": round(median(times), 3), "max": round(max(times), 3)}
        for name, times in (("bare", bare), ("free", free), ("handover", handover))
    ]


def steps(made: Pool) -> list[Row]:
    """Measure a step of training alone, beside a neighbour that waits, and beside one that computes."""
    rows = []
    for kind, words in (
        ("alone", ()),
        ("beside one that waits", ("hold:512", "sleep:60")),
        ("beside one that computes", None),
    ):
        train = [sys.executable, "-c", STEPS]
        neighbour = [*train, "12"] if words is None else [sys.executable, PROGRAM, *words]
        names = ["train"]
        if words != ():
            made.submit("neighbour", "default", neighbour, gpus=0.5)
            names.append("neighbour")
        job = made.submit("train", "owner", [*train, "8"], gpus=0.5)
        _, p50, p99 = output(job, "step")
        rows.append(
            {
                "what": f"step {kind} (ms)",
                "p50": round(100 * float(p50), 3),
                "max": round(100 * float(p99), 3),
            }
        )
        for name in names:
            made.client.ask("POST", f"/api/v1/workloads/{name}/stop")
            wait(lambda name=name: made.client.ask("GET", f"/api/v1/workloads/{name}")["ended_s"] is not None)
    return rows


def main() -> None:
    """Measure all of it, and print a table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--repeats", type=int, default=5)
    asked.add_argument("--output", choices=["table", "json"], default="table")
    options = asked.parse_args()
    rows = [look(options.repeats)]
    with pool() as made:
        rows += starts(options.repeats, made)
        rows += steps(made)
    show("A real GPU", rows, options.output)


if __name__ == "__main__":
    main()
