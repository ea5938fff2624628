"""Packing: how much of a real cluster's devices can be given out before nothing fits any more.

    python -m bench.packing NODES.csv PODS.csv[.gz]... [--seeds 42-51] [--moves M] [--output json]

Pods arrive one by one and never leave; what fits nowhere on arrival is lost. Measured is the part of the
devices given out when the demand arrived so far is 100 % and 130 % of them. With --moves, so many running
pods may then be moved, and the lost are tried again.
"""

import argparse
import csv
import time
from pathlib import Path
from statistics import fmean, stdev

from bench.openb import PROJECT, gpu_milli, read_nodes, read_pods, stream, workload
from bench.tables import show
from weir.cluster.events import End, NodeSet, PodAssigned, QueuesSet, WorkloadEnded, WorkloadSubmitted
from weir.cluster.reduce import reduce
from weir.cluster.shapes import GPU_ROW
from weir.cluster.state import Cluster
from weir.decide.cycle import decide
from weir.decide.memo import Memo
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import WHOLE_MILLI, Request


class Pool:
    """A cluster that pods arrive at."""

    def __init__(self, nodes: list[Node], policy: Policy) -> None:
        self.cluster = Cluster()
        self.memo = Memo()
        self.policy = policy
        for node in nodes:
            reduce(self.cluster, NodeSet(node))
        reduce(self.cluster, QueuesSet((Queue(PROJECT),)))
        self.milli = sum(node.gpus for node in nodes) * WHOLE_MILLI

    def arrives(self, number: int, request: Request) -> bool:
        """A pod arrives; whether it was placed. If not, it is lost."""
        spec = workload(number, request)
        now_s = spec.submitted_s
        reduce(self.cluster, WorkloadSubmitted(spec, now_s))
        plan = decide(self.cluster, self.policy, now_s, self.memo)
        for place in plan.binds:
            reduce(self.cluster, PodAssigned(place, now_s))
        if not plan.binds:
            reduce(self.cluster, WorkloadEnded(spec.name, End.STOPPED, now_s))
        return bool(plan.binds)

    @property
    def allocated(self) -> float:
        """Devices given out, in % of all."""
        return 100.0 * self.cluster.ledger.allocated[0][GPU_ROW] / self.milli


def replay(
    nodes: list[Node], arriving: list[Request], policy: Policy
) -> tuple[float, float, Pool, list[Request]]:
    """Allocation at 100 % and 130 % arrived, the pool at the end, and what was lost."""
    pool = Pool(nodes, policy)
    arrived, at_full, lost = 0, [], []
    for number, request in enumerate(arriving):
        if not pool.arrives(number, request):
            lost.append(request)
        arrived += gpu_milli(request)
        if round(100.0 * arrived / pool.milli) == 100:
            at_full.append(pool.allocated)
    return fmean(at_full), pool.allocated, pool, lost


def measure(nodes: list[Node], path: Path, seeds: list[int], policy: Policy) -> dict[str, object]:
    """One list over all seeds."""
    pods = read_pods(path)
    gpus = sum(node.gpus for node in nodes)
    runs = []
    for seed in seeds:
        began = time.perf_counter()
        arriving = stream(pods, gpus, seed)
        full, over, _, lost = replay(nodes, arriving, policy)
        seconds = time.perf_counter() - began
        runs.append(
            {
                "seed": seed,
                "alloc_100": round(full, 3),
                "alloc_130": round(over, 3),
                "lost": len(lost),
                "pods_per_s": round(len(arriving) / seconds),
            }
        )
    full_all, over_all = [run["alloc_100"] for run in runs], [run["alloc_130"] for run in runs]
    return {
        "list": path.name.split(".")[0],
        "seeds": len(seeds),
        "alloc_100_mean": round(fmean(full_all), 3),
        "alloc_100_sd": round(stdev(full_all), 3) if len(seeds) > 1 else 0.0,
        "alloc_130_mean": round(fmean(over_all), 3),
        "alloc_130_sd": round(stdev(over_all), 3) if len(seeds) > 1 else 0.0,
        "pods_per_s": round(fmean(run["pods_per_s"] for run in runs)),
        "by_seed": runs,
    }


def published(nodes_path: Path) -> dict[str, tuple[float, float]]:
    """FGD's published figures by list, where they lie beside the record."""
    path = nodes_path.parent / "fgd_published.csv"
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            row["trace"]: (float(row["alloc100_mean"]), float(row["alloc130_mean"]))
            for row in csv.DictReader(file)
            if row["policy"] == "FGD"
        }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.packing", description=__doc__.split("\n", 1)[0])
    parser.add_argument("nodes", type=Path)
    parser.add_argument("pods", type=Path, nargs="+")
    parser.add_argument("--seeds", default="42-51")
    parser.add_argument("--moves", type=int, default=0)
    parser.add_argument("--preset", default="throughput", choices=("throughput", "fair"))
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    nodes, fgd = read_nodes(args.nodes), published(args.nodes)
    policy = Policy.model_validate({"preset": args.preset, "consolidation": {"enabled": False}})
    rows = []
    for path in args.pods:
        row = measure(nodes, path, seeds, policy)
        known = next((figures for name, figures in fgd.items() if str(row["list"]).endswith(name)), None)
        if known:
            row["fgd_100"], row["fgd_130"] = known
        rows.append(row)
    show("Packing: % of devices given out", rows, args.output, hide=("by_seed",))


if __name__ == "__main__":
    main()
