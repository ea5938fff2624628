"""Cycles while owners are pending for whom no work may be evicted, on full nodes of 8 devices.

    python -m bench.hopeless_owners [--nodes 250] [--owners 200] [--protection budgets ...]
        [--preset balanced] [--output json]

Each owner is a project in quota with a pending workload. The running work is protected by one means:

    budgets      a borrower's work, each pod in a disruption budget that allows nothing
    min_runtime  a borrower's work, all in its minimum run time
    quotas       the projects' own work within their quotas, which together exceed the cluster

`ms_p50` and `ms_max` are of cycles after an event other than a checkpoint: a node is reported, or an owner
withdraws and another one comes. `checkpoint_ms` is the median of cycles after a checkpoint. The ratio is to
the same cluster on which the same requests are over quota, so that they may evict nothing. Cycles of both
are measured in turn. Times are processor times, and each protection has a process of its own.
"""

import argparse
import multiprocessing
import os

import numpy as np

from bench.busy import frozen
from bench.engine import ONE_CORE
from bench.hard_preemptions import protect
from bench.hard_state_parts import LATER_S
from bench.made import NODE_GPUS, Made, node, project, work
from bench.tables import show
from weir.model.policy import PRESETS, Policy
from weir.state.events import Checkpointed, NodeSet
from weir.state.reduce import reduce

Row = dict[str, object]
PROTECTIONS = ("budgets", "min_runtime", "quotas")
BORROWER = "borrower"
CYCLES = 10


class Pending:
    """A full cluster with as many pending workloads as there are owners, in quota or not."""

    def __init__(self, protection: str, nodes: int, owners: int, preset: str, *, in_quota: bool) -> None:
        gpus = nodes * NODE_GPUS
        own = gpus // owners if protection == "quotas" else 0  # devices that each owner runs on
        quota = own + (2 if in_quota else 0)
        runs = {"min_runtime": {"train": "10h"}} if protection == "min_runtime" else {}
        policy = Policy.model_validate({"preset": preset, **runs})
        self.owners = owners
        self.made = Made(nodes, {BORROWER: 0, **{project(owner): quota for owner in range(owners)}}, policy)
        for gpu in range(gpus):
            runs_in = project(gpu % owners) if gpu < own * owners else BORROWER
            self.made.run(work(f"job-{gpu:06d}", runs_in, gpu / gpus), (gpu,))
        if protection == "budgets":
            protect(self.made, range(gpus), allowed=0)
        self.made.now_s = LATER_S
        self._count = 0
        for _ in range(owners):
            self._submit()
        self.cycle()

    def _submit(self) -> None:
        number = self._count
        made = self.made
        made.submit(
            work(f"late-{number:06d}", project(number % self.owners), made.now_s, gpus=1 + number % 2)
        )
        self._count += 1

    def cycle(self) -> float:
        """Return the milliseconds of a cycle, which can't do anything."""
        plan, seconds = self.made.decide()
        assert not plan.acts, f"{len(plan.binds)} binds, {len(plan.evictions)} evictions"
        self.made.now_s += 60.0
        return seconds * 1e3

    def after_event(self, turn: int) -> float:
        """Return the milliseconds of a cycle after an event that could help a request."""
        if turn % 2:
            self.made.end(f"late-{self._count - self.owners:06d}")
            self._submit()
        else:
            reduce(self.made.cluster, NodeSet(node(turn % len(self.made.nodes))))
        return self.cycle()

    def after_checkpoint(self, turn: int) -> float:
        """Return the milliseconds of a cycle after a checkpoint."""
        reduce(self.made.cluster, Checkpointed(f"job-{turn:06d}", self.made.now_s))
        return self.cycle()


def measure(protection: str, nodes: int, owners: int, preset: str) -> Row:
    """Measure one protection."""
    hopeless, over_quota = (
        Pending(protection, nodes, owners, preset, in_quota=in_quota) for in_quota in (True, False)
    )
    frozen()
    took = np.array([(hopeless.after_event(cycle), over_quota.after_event(cycle)) for cycle in range(CYCLES)])
    saved = np.array(
        [(hopeless.after_checkpoint(cycle), over_quota.after_checkpoint(cycle)) for cycle in range(CYCLES)]
    )
    (ms, without_ms), checkpoint_ms = np.median(took, axis=0), np.median(saved[:, 0])
    return {
        "protection": protection,
        "preset": preset,
        "nodes": nodes,
        "owners": owners,
        "ms_p50": round(float(ms), 2),
        "ms_max": round(float(took[:, 0].max()), 2),
        "checkpoint_ms": round(float(checkpoint_ms), 2),
        "over_quota_ms_p50": round(float(without_ms), 2),
        "ratio": round(float(ms / without_ms), 2),
    }


def main() -> None:
    """Run from the command line."""
    doc = (__doc__ or "").split("\n", 1)[0]
    parser = argparse.ArgumentParser(prog="bench.hopeless_owners", description=doc)
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--owners", type=int, default=200)
    parser.add_argument("--protection", nargs="+", default=PROTECTIONS, choices=PROTECTIONS)
    parser.add_argument("--preset", default="balanced", choices=tuple(PRESETS))
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    os.environ.update(dict.fromkeys(ONE_CORE, "1"))
    rows = []
    for protection in args.protection:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            rows.append(alone.apply(measure, (protection, args.nodes, args.owners, args.preset)))
    show("Cycles with owners that nothing can help", rows, args.output)


if __name__ == "__main__":
    main()
