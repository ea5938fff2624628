"""Quotas: ten tenants share one pool, each with a guarantee, on the record of ten clusters of Microsoft.

    python -m bench.quotas [--k 1.0 1.1 1.25] [--preset balanced ...] [--replays 3] [--output json]

A tenant's quota is k times its mean demand in whole nodes, or what its largest job needs; the pool has as
many nodes as all quotas together. No run time is known in advance. A stopped job goes back to
its last full hour of run. Entitled is a job that fits, with all its tenant has, into the quota when it comes.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from bench.itp import read_jobs
from bench.replays import Row, Said, arguments, figures, mean, run_all
from bench.static import partitions
from bench.tables import show
from weir.model.policy import Policy
from weir.simulation.replay import jittered, replay
from weir.simulation.traces.tenants import quota_nodes, tenants

STATIC = "static"
ROUNDING_S = 0.1
_COLUMNS = (
    "policy",
    "jct_mean_s",
    "delay_mean_s",
    "delay_p99_s",
    "entitled_wait_mean_s",
    "preemptions",
    "lost_gpu_hours",
)
_README = "traces/README.md B"
REFERENCES: dict[float, list[tuple[object, ...]]] = {
    1.25: [
        ("static partitions, backfill", 80_305, 61_583, 565_006, None, 0, 0),
        ("one pool, no quotas", 19_233, 511, 11_254, 197.7, 0, 0),
        ("quota order, no reclaim", 19_162, 440, 13_022, 74.0, 0, 0),
        ("quota order, reclaim", 19_329, 606, 13_570, 0.4, 3_878, 2_847),
        ("prototype", 19_047, None, None, 0.1, 1_858, 699),
    ],
    1.0: [
        ("static partitions, backfill", 142_565, 123_843, 1_020_667, None, 0, 0),
        ("one pool, no quotas", 27_935, 9_213, 82_800, 1_436, 0, 0),
        ("quota order, no reclaim", 26_317, 7_595, 140_461, 319, 0, 0),
        ("quota order, reclaim", 31_783, 13_061, 254_704, 5.4, 11_072, 8_021),
        ("prototype", 22_393, None, None, 1.9, 7_407, 2_288),
    ],
}


@dataclass(frozen=True)
class Run:
    """Replay of a preset, or of the static partitions."""

    traces: Path
    jobs: int | None
    k: float
    preset: str
    settings: str
    seed: int

    @property
    def name(self) -> str:
        """As it is called while it runs."""
        return f"quotas, k = {self.k}, {self.preset}, replay {self.seed + 1}"


def run(task: Run) -> Row:
    """The figures of one replay."""
    job_traces = [job.job_trace(job.cluster) for job in read_jobs(task.traces)]
    scenario, quotas = tenants(job_traces, task.k), quota_nodes(job_traces, task.k)
    job_traces = job_traces[: task.jobs]
    if task.preset == STATIC:
        return partitions(jittered(job_traces, task.seed), quotas)
    policy = Policy.model_validate({"preset": task.preset, **json.loads(task.settings)})
    replayed = replay(scenario, job_traces, policy, seed=task.seed, progress=Said(task.name))
    by_project = replayed.numbers["by_project"]
    assert isinstance(by_project, dict)
    return {
        **figures(replayed),
        "by_tenant": {name: part["jct_mean_s"] for name, part in by_project.items()},
    }


def row_of(k: float, preset: str, runs: list[Row], static: Row) -> Row:
    """The means of one policy, and which tenants would have been better off alone."""
    means = mean(runs)
    alone, together = static["by_tenant"], means["by_tenant"]
    assert isinstance(alone, dict)
    assert isinstance(together, dict)
    if preset == STATIC:
        means["source"] = "simulated here"
    else:
        means["worse_than_static"] = [
            name for name, jct in together.items() if jct > alone[name] + ROUNDING_S
        ]
    policy = "static partitions, backfill" if preset == STATIC else f"weir-{preset}"
    return {"event": "quotas", "k": k, "policy": policy, **means}


def main() -> None:
    """Run from the command line."""
    parser = arguments("bench.quotas", __doc__)
    parser.add_argument("--k", type=float, nargs="+", default=[1.0, 1.1, 1.25])
    args = parser.parse_args()
    read_jobs(args.traces, 1)
    cells = [(k, preset) for k in args.k for preset in (STATIC, *args.preset)]
    tasks = [
        Run(args.traces, args.jobs, k, preset, args.set, seed)
        for k, preset in cells
        for seed in range(args.replays)
    ]
    results = iter(run_all(run, tasks, args.processes))
    runs = {cell: [next(results) for _ in range(args.replays)] for cell in cells}
    rows: list[Row] = []
    for k in args.k:
        for figures_ in REFERENCES.get(k, []) if args.jobs is None else []:
            shown_figures = {
                name: value for name, value in zip(_COLUMNS, figures_, strict=True) if value is not None
            }
            rows.append({"event": "quotas", "k": k, **shown_figures, "source": _README})
        static = mean(runs[k, STATIC])
        rows += [row_of(k, preset, runs[k, preset], static) for preset in (STATIC, *args.preset)]
    show(
        "Ten tenants of ITP, quotas of k times their mean demand (our construction)",
        rows,
        args.output,
        hide=("by_tenant", "event", "evictions_by_rule", "unfinished"),
    )


if __name__ == "__main__":
    main()
