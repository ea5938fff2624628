"""`make replay`: two weeks of ten teams, replayed twice on the same nodes.

Once each team has a fixed part of the nodes, once all share a pool with guaranteed quotas. The replay
needs no network and no GPU. Each replay has its own process, so that two cores need the time of one replay.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from weir.cli.simulation.replay_progress import bars
from weir.cli.simulation.simulate import LINES, print_runs
from weir.model.policy import Policy
from weir.model.resources import span
from weir.reports.replays import Run
from weir.simulation.replay import replay
from weir.simulation.replay_report import report, view
from weir.simulation.traces.public import read_itp
from weir.simulation.traces.tenants import projects, tenants

DATA = "itp-three-weeks.csv.gz"
WEEKS = 2
"""Weeks to replay of the three that are shipped. Two cores replay them twice in well under a minute."""
TEAMS = tuple(f"team {number}" for number in range(1, 11))
STATIC, GUARANTEED = "static partitions", "guaranteed quotas"
QUOTA_FACTOR = 1.0
TITLE = f"{WEEKS} weeks of ten teams, in two ways"
ABOUT_JOBS = (
    f"Jobs: {WEEKS} weeks of Microsoft's ITP record (microsoft/elasticflow-traces, MIT licence; Gu et al., "
    "ElasticFlow, ASPLOS 2023): real submission times, run times and sizes."
)
ABOUT_QUOTAS = (
    "The quotas are ours: what each team used on average, in whole nodes of 8 GPUs, and at least "
    "its largest job. A job saves its state every hour; one that is stopped goes back to that. The scheduler "
    "is never told how long a job will run."
)
SHOWN = (
    "jobs completed",
    "first start after, mean",
    "completed after, mean",
    "delay, 99 %",
    "GPUs allocated",
    "wait for own quota, mean",
    "preemptions",
)
REFRESH_S = 0.1


def main() -> int:
    """Replay both, then print the comparison."""
    started = time.perf_counter()
    print(f"{WEEKS} real weeks of ten teams' jobs, replayed twice on the same machines.\n")
    runs = _replayed((STATIC, GUARANTEED))
    scenario, about = _subject()
    path = Path(gettempdir()) / "weir-replay.html"
    path.write_text(
        report(scenario, runs, title=TITLE, about=about, notes=(ABOUT_JOBS, ABOUT_QUOTAS)), "utf-8"
    )
    print_runs({run.name: run.numbers for run in runs}, [line for line in LINES if line[0] in SHOWN])
    print(f"\n{_says(runs[0].numbers, runs[1].numbers)}")
    print(f"\nReport, with charts: {path}   ({time.perf_counter() - started:.0f}s)")
    return 0


def _says(static: Mapping[str, Any], guaranteed: Mapping[str, Any]) -> str:
    before, after = static["first_start_wait_mean_s"], guaranteed["first_start_wait_mean_s"]
    entitled = guaranteed["entitled"]
    on_time = 100 * (1 - entitled["over_60s"] / max(1, entitled["jobs"]))
    return (
        f"The same jobs on the same GPUs: a job waits {span(after)} instead of {span(before)} for its first\n"
        f"start, because teams borrow unused GPUs; and {on_time:.2f} % of the jobs within\n"
        "their team's quota started within a minute, because a borrower gives way."
    )


def _subject() -> tuple[Any, str]:
    job_traces = _fates()
    scenario = tenants(job_traces, QUOTA_FACTOR)
    gpus = sum(node.gpus for node in scenario.nodes)
    machines = f"{len(scenario.nodes)} nodes with {gpus:,} GPUs"
    about = f"{len(job_traces):,} jobs on {machines}: {STATIC} against {GUARANTEED}."
    return scenario, about


def _fates() -> list[Any]:
    with as_file(files("weir.data").joinpath(DATA)) as path:
        job_traces = read_itp(path, projects(TEAMS))
    return [job_trace for job_trace in job_traces if job_trace.workload.submitted_s < WEEKS * 7 * 86400]


def _replayed(names: Sequence[str]) -> list[Run]:
    """Run a process for each replay; read its progress and its result."""
    context = get_context("spawn")
    lines = {}
    for name in names:
        receiver, sender = context.Pipe(duplex=False)
        context.Process(target=_replay_in_process, args=(name, sender), daemon=True).start()
        sender.close()
        lines[receiver] = name
    done: dict[str, Run] = {}
    with _bars(names) as update:
        while len(done) < len(names):
            for line in wait([line for line, name in lines.items() if name not in done]):
                assert isinstance(line, Connection)
                message = line.recv()
                if isinstance(message, Run):
                    done[message.name] = message
                    update(message.name, 1.0)
                else:
                    update(lines[line], message)
    return [done[name] for name in names]


def _replay_in_process(name: str, line: Connection) -> None:
    job_traces = _fates()
    scenario = tenants(job_traces, QUOTA_FACTOR, static=name == STATIC)
    told_s = 0.0

    def progress(part: float) -> None:
        nonlocal told_s
        now_s = time.monotonic()
        if now_s - told_s > REFRESH_S:
            told_s = now_s
            line.send(part)

    policy = Policy.model_validate(
        {"preset": "fair", "consolidation": {"enabled": False}} if name == STATIC else {}
    )
    line.send(view(name, replay(scenario, job_traces, policy, progress=progress)))
    line.close()


@contextmanager
def _bars(names: Sequence[str]) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar for each replay if the output is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _name, _part: None
        return
    with bars() as shown:
        tasks = {name: shown.add_task(name, total=1.0) for name in names}
        yield lambda name, part: shown.update(tasks[name], completed=part)


if __name__ == "__main__":
    sys.exit(main())
