"""The start of Weir in front of a cluster, by default one of 5,000 nodes of 8 devices and 50,000 pods.

    python -m bench.kube_size [--size 5000:50000 ...] [--output json]

A server of generated lists (kube_lists.py) stands in for the cluster, so that only Weir is measured: a
process of its own, as people run it. Nine tenths of the devices are in use. With the goals of the design in
brackets:

    listed_s   from its start until it has read all there is
    first_s    from its start until its first binding arrives (10 s)
    bound_s    until the last of as many pods as fit
    cpu_s      processor time until then
    mib        memory then, everything included (500)
    peak_mib   the most memory until then

and until nothing more is written:

    pages      requests for a page of a list
    watches    watches that were opened
    writes     all others: bindings, Workloads, conditions of pods and events
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tools.controlplane.weir import log_lines

from bench.kube_lists import GANG, GPUS, Lists, Size
from bench.processes import cpu_s, memory_mib
from bench.tables import show

Row = dict[str, object]
USED = 0.9
STALLED_S = 300.0
QUIET_S = 10.0


def measure(nodes: int, pods: int) -> Row:
    """Measure one start."""
    devices = nodes * GPUS
    size = Size(nodes, pods, running=min(pods, int(devices * USED)) // GANG * GANG)
    fits = (min(pods, devices) - size.running) // GANG * GANG
    with Lists(size) as lists, tempfile.TemporaryDirectory() as made, Path(made, "log").open("w+") as log:
        began_s, began = time.time(), time.perf_counter()
        weir = start(Path(made), lists.port, log.fileno())
        try:
            bound = lists.written.bound_at_s
            _until(lambda: len(bound) >= fits, weir, lambda: f"{len(bound)} of {fits} pods bound")
            took_s = [round(bound_s - began, 2) for bound_s in (bound[0], bound[fits - 1])]
            held = {name: round(memory_mib(weir.pid, name)) for name in ("VmRSS", "VmHWM")}
            used_s = round(cpu_s(weir.pid), 1)
            _until_quiet(lists.written.count)
        finally:
            weir.terminate()
            weir.wait(30)
        log.seek(0)
        reported = log.read()
        (synced,), (started,) = log_lines(reported, "synced"), log_lines(reported, "started")
        return {
            "nodes": nodes,
            "pods": pods,
            "running": size.running,
            "listed_s": round(datetime.fromisoformat(synced["timestamp"]).timestamp() - began_s, 2),
            "first_s": took_s[0],
            "bound_s": took_s[1],
            "bound": fits,
            "cpu_s": used_s,
            "mib": held["VmRSS"],
            "peak_mib": held["VmHWM"],
            "pages": lists.written.read["list"],
            "watches": lists.written.read["watch"],
            "writes": sum(lists.written.count.values()),
            "engine": started["engine"],
            "written": dict(lists.written.count),
        }


def start(
    home: Path, port: int, log: int, own_port: int = 0, namespace: str = "default"
) -> "subprocess.Popen[bytes]":
    """Start Weir against an API server at a port; 0: it serves at no port itself."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lists", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "weir", "user": {"token": "any"}}],
        "contexts": [{"name": "lists", "context": {"cluster": "lists", "user": "weir"}}],
        "current-context": "lists",
    }
    path = home / "kubeconfig"
    path.write_text(json.dumps(config))
    words = ["up", "--on", "kubernetes", "--port", str(own_port), "--no-leader-election"]
    words += ["--service", "weir", "--host", "127.0.0.1", "--namespace", namespace] if own_port else []
    variables = {"KUBECONFIG": str(path), "WEIR_HOME": str(home / "home")}
    command = [sys.executable, "-m", "weir", *words]
    return subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)


def _until(true: Callable[[], bool], weir: "subprocess.Popen[bytes]", so_far: Callable[[], str]) -> None:
    end = time.monotonic() + STALLED_S
    while not true():
        assert weir.poll() is None, f"Weir ended with {weir.returncode}"
        assert time.monotonic() < end, f"{so_far()} after {STALLED_S:g} s"
        time.sleep(0.01)


def _until_quiet(count: Counter[str]) -> None:
    """Wait until nothing was written for some seconds."""
    before = -1
    while before != (before := sum(count.values())):
        time.sleep(QUIET_S)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.kube_size", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--size", nargs="+", default=["5000:50000"], metavar="NODES:PODS", help="nodes and pods of a cluster"
    )
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    sizes = [tuple(map(int, size.split(":"))) for size in args.size]
    rows = [measure(nodes, pods) for nodes, pods in sizes]
    show("Start in a cluster", rows, args.output, hide=("written",), measured=str(rows[0]["engine"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
