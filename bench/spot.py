"""High priority and spot: 30 % of the jobs are declared to be spot, which the others may evict.

    python -m bench.spot [--mapping projects ...] [--preset balanced ...] [--replays 3] [--output json]

How the two classes become projects and priorities is a choice:

    projects        two projects: high's quota is the cluster, spot has none
    projects-fixed  the same, high jobs not preemptible: never moved either
    priorities      one project whose quota is the cluster: high 100 and not preemptible, spot 50
    priorities-pre  the same, high preemptible
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench.itp import NODES, Job, pool, queue, read_jobs
from bench.replays import Row, Said, arguments, figures, mean, run_all
from bench.tables import show
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.simulation.job_trace import JobTrace
from weir.simulation.metrics import delays_s
from weir.simulation.replay import replay

_COLUMNS = ("policy", "high_delay_mean_s", "spot_delay_mean_s", "evictions_per_spot_run")
_README = "traces/README.md C"
REFERENCES: list[tuple[object, ...]] = [
    ("reference", 27.0, 2_074.0, 0.269),
    ("prototype, least lost work", 27.1, 1_189.0, 0.198),
    ("prototype, + learned order", 25.5, 1_054.0, 0.183),
    ("prototype, + headroom 4", None, 1_089.0, 0.133),
    ("prototype, + size credit", None, 867.0, 0.090),
]


@dataclass(frozen=True)
class Mapping:
    """Mapping of the two classes to projects, priorities and preemptibility."""

    queues: tuple[Queue, ...]
    job_trace: Callable[[Job], JobTrace]


def _in_projects(*, fixed: bool) -> Mapping:
    def job_trace(job: Job) -> JobTrace:
        return job.job_trace("spot") if job.is_spot else job.job_trace("high", preemptible=not fixed)

    return Mapping((queue("high", NODES), queue("spot", 0, 1)), job_trace)


def _by_priority(*, fixed: bool) -> Mapping:
    def job_trace(job: Job) -> JobTrace:
        return (
            job.job_trace("all") if job.is_spot else job.job_trace("all", priority=100, preemptible=not fixed)
        )

    return Mapping((queue("all", NODES),), job_trace)


MAPPINGS: dict[str, Callable[[], Mapping]] = {
    "projects": lambda: _in_projects(fixed=False),
    "projects-fixed": lambda: _in_projects(fixed=True),
    "priorities": lambda: _by_priority(fixed=True),
    "priorities-pre": lambda: _by_priority(fixed=False),
}


@dataclass(frozen=True)
class Run:
    """Replay of one mapping under one preset."""

    traces: Path
    jobs: int | None
    mapping: str
    preset: str
    settings: str
    seed: int

    @property
    def name(self) -> str:
        """As it is called while it runs."""
        return f"spot, {self.mapping}, {self.preset}, replay {self.seed + 1}"


def run(task: Run) -> Row:
    """The figures of one replay. A run of a spot job is a start of it; evictions leave moves out."""
    jobs = read_jobs(task.traces, task.jobs)
    mapping = MAPPINGS[task.mapping]()
    spot = {job.name for job in jobs if job.is_spot}
    policy = Policy.model_validate({"preset": task.preset, **json.loads(task.settings)})
    scenario = pool("high and spot", mapping.queues)
    job_traces = [mapping.job_trace(job) for job in jobs]
    replayed = replay(scenario, job_traces, policy, seed=task.seed, progress=Said(task.name))
    lines = replayed.recorder.lines.values()
    classes = [
        [line for line in lines if (line.workload.name in spot) is is_spot] for is_spot in (False, True)
    ]
    high_stops, spot_stops = (sum(line.stops for line in some) for some in classes)
    return {
        "high_delay_mean_s": round(fmean(delays_s(classes[0])), 1),
        "spot_delay_mean_s": round(fmean(delays_s(classes[1])), 1),
        "evictions_per_spot_job": spot_stops / len(spot),
        "evictions_per_spot_run": spot_stops / (spot_stops + len(spot)),
        "high_evictions": high_stops,
        **figures(replayed),
    }


def main() -> None:
    """Run from the command line."""
    parser = arguments("bench.spot", __doc__)
    parser.add_argument("--mapping", nargs="+", default=["projects"], choices=list(MAPPINGS))
    args = parser.parse_args()
    read_jobs(args.traces, 1)
    cells = [(mapping, preset) for mapping in args.mapping for preset in args.preset]
    tasks = [
        Run(args.traces, args.jobs, mapping, preset, args.set, seed)
        for mapping, preset in cells
        for seed in range(args.replays)
    ]
    results = iter(run_all(run, tasks, args.processes))
    rows: list[Row] = []
    for figures_ in REFERENCES if args.jobs is None else []:
        shown_figures = {
            name: value for name, value in zip(_COLUMNS, figures_, strict=True) if value is not None
        }
        rows.append({"event": "spot", "nodes": NODES, **shown_figures, "source": _README})
    for mapping, preset in cells:
        means = mean([next(results) for _ in range(args.replays)])
        rows.append(
            {"event": "spot", "nodes": NODES, "policy": f"weir-{preset}", "mapping": mapping, **means}
        )
    show(
        "High priority and spot, on the jobs of ITP (our labels)",
        rows,
        args.output,
        hide=("event", "evictions_by_rule", "unfinished"),
    )


if __name__ == "__main__":
    main()
