"""Packing: how much of a real cluster's devices can be given out before nothing fits any more.

    python -m bench.packing NODES.csv PODS.csv[.gz]... [--seeds 42-51] [--moves M] [--output json]

Pods arrive one by one and never leave; what fits nowhere on arrival is lost. Measured is the part of the
devices given out when the demand arrived so far is 100 % and 130 % of them.

With --moves M the lost are then tried again. `alloc_moved_mean` is what is given out once up to M running
pods have changed their place (`moved_mean` of them did): all that ran still run. `alloc_filled_mean` goes on
from there and is another thing: with what is left of M, running pods are stopped (`stopped_mean` of them) for
lost ones that hold more of the devices, and are themselves lost.
"""

import argparse
import csv
import time
from pathlib import Path
from statistics import fmean, stdev

from bench.openb import PROJECT, gpu_milli, read_nodes, read_pods, stream, workload
from bench.tables import show
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Eviction, NominatedPods, Plan
from weir.model.nodes import Node
from weir.model.policy import DEFAULT_PRESET, PRESETS, Policy
from weir.model.queues import Queue
from weir.model.workloads import WHOLE_MILLI, Request
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Nominated,
    PodAssigned,
    PodStopped,
    PodStopping,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce
from weir.state.shapes import GPU_ROW

FREE = 1e12
"""Device seconds the moves for one pod may cost: what is counted here is pods."""


class Pool:
    """A cluster that pods arrive at."""

    def __init__(self, nodes: list[Node], policy: Policy) -> None:
        self.cluster = Cluster()
        self.cache = EngineCache()
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
        plan = decide(self.cluster, self.policy, now_s, self.cache)
        for place in plan.binds:
            reduce(self.cluster, PodAssigned(place, now_s))
        if not plan.binds:
            reduce(self.cluster, WorkloadEnded(spec.name, WorkloadOutcome.STOPPED, now_s))
        return bool(plan.binds)

    def wait_again(self, lost: list[Request]) -> None:
        """Queue lost pods from now on."""
        for number, request in enumerate(lost, start=int(self.cluster.now_s) + 1):
            reduce(self.cluster, WorkloadSubmitted(workload(number, request), float(number)))

    def free_capacity(self, policy: Policy, changes_max: int) -> tuple[int, int]:
        """Run cycles until they change nothing; return the numbers of moved and of stopped pods."""
        moved, stopped, before = 0, 0, -1
        while before < self.cluster.changes:
            before = self.cluster.changes
            left = changes_max - moved - stopped
            moving = {"enabled": policy.consolidation.enabled and left > 0, "max_moves": left}
            allowed = policy.model_copy(
                update={
                    "consolidation": policy.consolidation.model_copy(update=moving),
                    "repack": policy.repack.model_copy(update={"max_stops": left}),
                }
            )
            plan = decide(self.cluster, allowed, self.cluster.now_s, self.cache)
            done = self._carry_out(plan, left)
            moved += sum(eviction.moves for eviction in done)
            stopped += sum(not eviction.moves for eviction in done)
        return moved, stopped

    def _carry_out(self, plan: Plan, changes_max: int) -> list[Eviction]:
        """Let a plan come true, of what it takes as much as may be, in its order; who had to go."""
        now_s = self.cluster.now_s
        for place in plan.binds:
            reduce(self.cluster, PodAssigned(place, now_s))
        evictions = {eviction.pod.workload: eviction for eviction in plan.evictions}
        done: list[Eviction] = []
        take: list[NominatedPods] = []
        for nominated in plan.nominations:
            take.append(nominated)
            going = [evictions.pop(name) for name in nominated.freed_by if name in evictions]
            if len(done) + len(going) > changes_max:
                break
            if not nominated.freed_by:
                continue  # of one that moves; whom it moves for comes after
            for eviction in going:
                reduce(self.cluster, PodStopping(eviction.pod, now_s, eviction.cause))
            for part in take:
                reduce(self.cluster, Nominated(part.workload, part.places, now_s, part.freed_by))
            for eviction in going:
                reduce(self.cluster, PodStopped(eviction.pod, now_s))
            done += going
            take = []
        return done

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


def measure(nodes: list[Node], path: Path, seeds: list[int], policy: Policy, moves: int) -> dict[str, object]:
    """Measure one list over all seeds."""
    pods = read_pods(path)
    gpus = sum(node.gpus for node in nodes)
    runs: list[dict[str, float]] = []
    for seed in seeds:
        began = time.perf_counter()
        arriving = stream(pods, gpus, seed)
        full, over, pool, lost = replay(nodes, arriving, policy)
        seconds = time.perf_counter() - began
        run = {
            "seed": seed,
            "alloc_100": round(full, 3),
            "alloc_130": round(over, 3),
            "lost": len(lost),
            "pods_per_s": round(len(arriving) / seconds),
        }
        runs.append(run | (retried(pool, policy, lost, moves) if moves else {}))
    row: dict[str, object] = {"list": path.name.split(".")[0], "seeds": len(seeds)}
    for figure in ("alloc_100", "alloc_130"):
        row[f"{figure}_mean"] = mean_of(runs, figure)
        row[f"{figure}_sd"] = round(stdev(run[figure] for run in runs), 3) if len(seeds) > 1 else 0.0
    if moves:
        row["moves"] = moves
        for figure in ("alloc_moved", "moved", "alloc_filled", "stopped"):
            row[f"{figure}_mean"] = mean_of(runs, figure)
    return row | {"pods_per_s": round(mean_of(runs, "pods_per_s")), "by_seed": runs}


def mean_of(runs: list[dict[str, float]], figure: str) -> float:
    """Mean of a figure over all runs."""
    return round(fmean(run[figure] for run in runs), 3)


def retried(pool: Pool, policy: Policy, lost: list[Request], changes_max: int) -> dict[str, float]:
    """The lost once more: with moves alone, and then also by stopping running pods that hold less."""
    pool.wait_again(lost)
    free = {"enabled": True, "budget": FREE}
    moving = Policy.model_validate({"preset": policy.preset, "consolidation": free})
    moved, stopped = pool.free_capacity(moving, changes_max)
    assert not stopped, "a running pod was stopped where all were to go on running"
    figures = {"alloc_moved": round(pool.allocated, 3), "moved": moved}
    filling = Policy.model_validate(
        {"preset": policy.preset, "consolidation": free, "repack": {"enabled": True, "gain": 0}}
    )
    moved, stopped = pool.free_capacity(filling, changes_max - moved)
    return figures | {"alloc_filled": round(pool.allocated, 3), "moved_later": moved, "stopped": stopped}


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
    parser.add_argument("--preset", default=DEFAULT_PRESET, choices=tuple(PRESETS))
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    nodes, fgd = read_nodes(args.nodes), published(args.nodes)
    policy = Policy.model_validate({"preset": args.preset, "consolidation": {"enabled": False}})
    rows = []
    for path in args.pods:
        row = measure(nodes, path, seeds, policy, args.moves)
        known_figures = next(
            (figures for name, figures in fgd.items() if str(row["list"]).endswith(name)), None
        )
        if known_figures:
            row["fgd_100"], row["fgd_130"] = known_figures
        rows.append(row)
    title = "Packing: % of devices given out"
    if args.moves:
        title += "; moved: all that ran still run; filled: some are stopped for lost ones that hold more"
    show(title, rows, args.output, hide=("by_seed",))


if __name__ == "__main__":
    main()
