"""`make kubernetes`: a control plane with simulated nodes, and Weir running against it, until Ctrl-C.

The control plane has the stock kube-scheduler too, and Weir is installed as in production, webhooks included.

python -m tools.controlplane [--nodes 4] [--gpus 8] [--bare]
"""

import argparse
import shutil
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from tools.controlplane.binaries import NoBinaries, find
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.processes import Ended
from tools.controlplane.weir import ROOT

STORY = (
    ("apply -f teams.yaml", "two teams, 16 of 32 GPUs guaranteed to each"),
    ("create -n team-a -f train-on-two.yaml", "team A takes 16 GPUs"),
    ("create -n team-a -f train-on-one.yaml", "and borrows 8"),
    ("create -n team-b -f train-on-one.yaml", "team B takes 8: all are in use"),
    ("create -n team-b -f train-on-one.yaml", "and asks for its other 8"),
    ("get workloads.weir.dev -A", "what team A borrowed went back"),
    ("describe workloads.weir.dev -n team-a", "and why"),
    ("delete jobs -n team-b --all", "now its capacity is free again"),
)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="make kubernetes", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=8, help="of each node")
    parser.add_argument("--bare", action="store_true", help="without Weir")
    args = parser.parse_args()
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        with ControlPlane(find()) as plane:
            if not stopped.is_set():
                _run(plane, stopped, args)
    except (NoBinaries, Ended, TimeoutError) as why:
        print(why, file=sys.stderr)
        return 1
    print("Everything is stopped and removed.", flush=True)
    return 0


def show(plane: ControlPlane, *, nodes: int, gpus: int) -> None:
    """Print the lines for a second terminal."""
    print(
        f"Kubernetes is up at {plane.url} with {nodes} nodes of {gpus} simulated GPUs and kube-scheduler.\n"
        "In another terminal:\n"
    )
    print(f"    cd {ROOT / 'examples' / 'kubernetes'}")
    print(f"    export KUBECONFIG={plane.kubeconfig} WEIR_URL=kube:")
    programs = {"kubectl": plane.binaries["kubectl"], "weir": sys.executable}
    for name, neighbour in programs.items():
        if shutil.which(name) is None:
            print(f'    export PATH="$PATH:{Path(neighbour).parent}"')
    print("\nA first story, for 4 nodes of 8 GPUs:\n")
    for words, why in STORY:
        print(f"    kubectl {words:40} # {why}")
    print("\nCtrl-C removes all of it.\n", flush=True)


def _run(plane: ControlPlane, stopped: threading.Event, args: argparse.Namespace) -> None:
    Cluster(plane).add_nodes(args.nodes, gpus=args.gpus)
    plane.start_scheduler()
    with ExitStack() as stack:
        if not args.bare:
            weir = stack.enter_context(Installed(plane, aloud=True, extra=["--log-format", "text"]))
            weir.wait_ready()
        show(plane, nodes=args.nodes, gpus=args.gpus)
        while not stopped.wait(0.5):
            plane.check()


if __name__ == "__main__":
    sys.exit(main())
