"""The time from `weir shell` to its prompt on a real node, part by part; as root, where a kubelet can run.

    python -m bench.session_prompt [--sessions 20] [--other SRC] [--output json]

A GPU is free, and the image is on the node. `--other` names the `src` of another checkout: its command line
takes turns with this one, in front of the scheduler of this one. With the goal in brackets, in seconds:

    prompt_p50, prompt_max    from the command to the prompt (1.0)
    pod                       from the command to the pod: imports and requests of the command line
    bound                     from the pod to its binding: Weir's scheduler
    kubelet                   from the binding to the running container: the floor, which Weir can't change
    entered                   from there to the prompt: the stream and the shell
    again_p50                 from the command to the prompt of a second terminal

The parts are medians.
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import count, pairwise
from pathlib import Path
from statistics import median

from tests.e2e.ssh_session import ended, read_until
from tests.kubernetes.node_session import MOUNTS, SMALL, ClusterPerson
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.node.machine import obstacle
from tools.node.node import RealNode
from tools.node.programs import find

from bench.kube_made import Count
from bench.tables import show

Row = dict[str, object]
PROJECT = "vision"
OWN = Path(__file__).resolve().parent.parent / "src"
WAIT_S, REST_S = 120.0, 1.0
_JOBS = f"/apis/batch/v1/namespaces/{PROJECT}/jobs"


class Terminals:
    """A person whose sessions run on the node, one after another."""

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        self._plane = plane
        self._cluster = Cluster(plane)
        self._person = ClusterPerson(home, plane.kubeconfig_for("weir"), PROJECT)
        self._own = dict(self._person.environment)
        self._names = (f"dev-{number}" for number in count())  # Weir knows an ended one for a while

    def session(self, source: Path) -> dict[str, float]:
        """Start a session, enter it twice and stop it; return the duration of each part."""
        self._person.environment = {**self._own, "PYTHONPATH": str(source)}
        name = next(self._names)
        selectors = (f"metadata.namespace={PROJECT}", "spec.nodeName!=", "status.phase=Running")
        with ExitStack() as stack:
            watches = [
                stack.enter_context(Count(self._plane, selector, "batch.kubernetes.io/job-name"))
                for selector in selectors
            ]
            began_s = time.perf_counter()
            prompt_s = self._prompt("shell", name, "--gpus", "1", *SMALL)
            for watch in watches:
                watch.until(1, WAIT_S)
            times_s = [began_s, *(watch.at_s[0] for watch in watches), prompt_s]
        again_s = time.perf_counter()
        again_s = self._prompt("shell", name) - again_s
        self._plane.api.delete(_JOBS, grace_s=0)
        self._cluster.until(lambda: not self._cluster.pods(PROJECT), "the pod to be gone")
        time.sleep(REST_S)
        parts = [later - earlier for earlier, later in pairwise(times_s)]
        names = ("pod", "bound", "kubelet", "entered")
        return {"prompt": prompt_s - began_s, "again": again_s, **dict(zip(names, parts, strict=True))}

    def _prompt(self, *words: str) -> float:
        """Run a command on a terminal until its prompt comes; return that time."""
        process, terminal = self._person.on_terminal(sys.executable, "-P", "-m", "weir", *words)
        with ended(process):
            read_until(terminal, b"# ")
            come_s = time.perf_counter()
        os.close(terminal)
        return come_s


def measure(sessions: int, other: Path | None) -> list[Row]:
    """Start sessions one after another; return a row for each command line."""
    sources = [OWN] if other is None else [OWN, other.resolve()]
    samples: dict[Path, list[dict[str, float]]] = {source: [] for source in sources}
    with (
        tempfile.TemporaryDirectory() as home,
        ControlPlane() as plane,
        RealNode(plane, find(), name="localhost", gpus=1, mounts=MOUNTS) as node,
        Installed(plane) as weir,
    ):
        plane.grant_all("weir")
        weir.wait_ready()
        terminals = Terminals(plane, Path(home))
        Cluster(plane).namespace(PROJECT)
        weir.create_queues(project(PROJECT, 1, [PROJECT]))
        for source in sources:
            terminals.session(source)  # compiles the modules
        for index in range(sessions):
            for source in sources if index % 2 else sources[::-1]:
                samples[source].append(terminals.session(source))
        node.check()
    return [_row(source, samples[source]) for source in sources]


def _row(source: Path, times: list[dict[str, float]]) -> Row:
    parts = {part: round(median(sample[part] for sample in times), 2) for part in times[0]}
    ordered = ("pod", "bound", "kubelet", "entered")
    return {
        "command_line": str(source),
        "sessions": len(times),
        "prompt_p50": parts["prompt"],
        "prompt_max": round(max(sample["prompt"] for sample in times), 2),
        **{part: parts[part] for part in ordered},
        "again_p50": parts["again"],
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.session_prompt", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--other", type=Path, metavar="SRC")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    if why := obstacle():
        parser.error(why)
    show("Prompts of sessions on a real node", measure(args.sessions, args.other), args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
