"""Gangs and topology: over how many racks jobs of several nodes spread, and what keeping them together costs.

    python -m bench.topology [--mapping one ...] [--preset balanced ...] [--replays 3] [--output json]

The jobs of ITP on nodes in the racks of Lingjun; a gang prefers one rack. Whose the jobs are is a choice:

    one     one project without a quota
    ten     a project for each tenant, without a quota
    quotas  a project for each tenant, with its quota of 1.25 times its mean demand
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.itp import NETWORK, NODES, RACK, Job, pool, queue, read_jobs, read_racks
from bench.replays import Row, Said, arguments, figures, mean, run_all
from bench.tables import show
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import TopologyRequest
from weir.simulation.job_trace import JobTrace
from weir.simulation.replay import replay
from weir.simulation.traces.tenants import NODE_GPUS, quota_nodes
from weir.state.cluster import Cluster

_COLUMNS = ("policy", "one_domain_percent", "domains_mean", "delay_mean_s", "moves", "lost_gpu_hours")
_README = "traces/README.md D"
REFERENCES: list[tuple[object, ...]] = [
    ("best fit without topology", 18.6, 2.41, 499, None, None),
    ("greedy smallest rack that fits", 72.6, 1.54, 499, None, None),
    ("prototype, small jobs into broken racks, patience 1,800 s", 81.5, None, 483, None, None),
    ("prototype, patience 7,200 s, learned order", 88.1, None, 404, None, None),
    ("prototype, cheapest rack cleared, budget 3,000", 93.8, None, 395, 274, 42),
    ("prototype, cheapest rack cleared, budget 30,000", 98.7, None, 399, 629, None),
]
_K = 1.25


def _queues_one(jobs: Sequence[Job]) -> list[Queue]:
    del jobs
    return [queue("all", 0)]


def _queues_ten(jobs: Sequence[Job]) -> list[Queue]:
    return [queue(name, 0, index) for index, name in enumerate(sorted({job.cluster for job in jobs}))]


def _queues_quotas(jobs: Sequence[Job]) -> list[Queue]:
    quotas = quota_nodes([job.job_trace(job.cluster) for job in jobs], _K)
    return [queue(name, nodes, index) for index, (name, nodes) in enumerate(quotas.items())]


MAPPINGS: dict[str, Callable[[Sequence[Job]], list[Queue]]] = {
    "one": _queues_one,
    "ten": _queues_ten,
    "quotas": _queues_quotas,
}


def job_trace(job: Job, mapping: str) -> JobTrace:
    """A job; more than one node prefers one rack."""
    prefers = TopologyRequest(NETWORK, preferred=RACK) if job.gpus > NODE_GPUS else None
    return job.job_trace("all" if mapping == "one" else job.cluster, topology=prefers)


@dataclass(slots=True)
class Watched:
    """The engine, and how many gangs it started without all of their pods."""

    in_part: int = 0

    def __call__(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        """Decide as ever."""
        plan = decide(cluster, policy, now_s, cache)
        bound = Counter(place.pod.workload for place in plan.binds)
        for name, count in bound.items():
            job = cluster.jobs[name]  # of a gang that runs, a pod may just have been moved
            self.in_part += len(job.running_pods()) + count < job.spec.min_pods
        return plan


@dataclass(frozen=True)
class Run:
    """Replay of one placement rule."""

    traces: Path
    jobs: int | None
    mapping: str
    preset: str
    settings: str
    seed: int

    @property
    def name(self) -> str:
        """As it is called while it runs."""
        return f"topology, {self.mapping}, {self.preset}, replay {self.seed + 1}"


def run(task: Run) -> Row:
    """The figures of one replay."""
    jobs = read_jobs(task.traces)
    scenario = pool("racks", MAPPINGS[task.mapping](jobs), racks=read_racks(task.traces))
    policy = Policy.model_validate({"preset": task.preset, **json.loads(task.settings)})
    job_traces = [job_trace(job, task.mapping) for job in jobs[: task.jobs]]
    watched = Watched()
    replayed = replay(scenario, job_traces, policy, seed=task.seed, progress=Said(task.name), decide=watched)
    topology = replayed.numbers["topology"]
    assert isinstance(topology, dict)
    return {
        "gangs": topology["gangs"],
        "one_domain_percent": round(100 * topology["one_domain"] / max(1, topology["gangs"]), 2),
        "domains_mean": topology["domains_mean"],
        "started_in_part": watched.in_part,
        **figures(replayed),
    }


def main() -> None:
    """Run from the command line."""
    parser = arguments("bench.topology", __doc__)
    parser.add_argument("--mapping", nargs="+", default=["one"], choices=list(MAPPINGS))
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
        rows.append({"event": "topology", "nodes": NODES, **shown_figures, "source": _README})
    for mapping, preset in cells:
        means = mean([next(results) for _ in range(args.replays)])
        rows.append(
            {"event": "topology", "nodes": NODES, "policy": f"weir-{preset}", "mapping": mapping, **means}
        )
    show(
        "Gangs of ITP in the racks of Lingjun (our construction)",
        rows,
        args.output,
        hide=("event", "evictions_by_rule", "unfinished"),
    )


if __name__ == "__main__":
    main()
