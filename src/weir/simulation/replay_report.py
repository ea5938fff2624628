"""A replay as its report shows it."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from weir.model.resources import GPU
from weir.model.scenario import Scenario
from weir.model.workloads import WHOLE_MILLI
from weir.reports.charts import Span
from weir.reports.replays import Run, Subject, replays_page
from weir.simulation.interval_means import INTERVALS
from weir.simulation.job_recorder import JobRecorder
from weir.simulation.metrics import delays_s
from weir.simulation.replay import ReplayResult

INTERVALS_MAX = INTERVALS + INTERVALS // 8
"""Intervals shown: the submission window, and an eighth more if work is left."""


def report(
    scenario: Scenario, runs: Sequence[Run], *, title: str, about: str, notes: Sequence[str] = ()
) -> str:
    """Return the page on some replays of one trace."""
    quotas = {
        queue.name: queue.quota[GPU] / WHOLE_MILLI
        for queue in scenario.queues
        if queue.is_project and GPU in queue.quota
    }
    capacity = float(sum(node.gpus for node in scenario.nodes))
    intervals = max(run.span.intervals for run in runs)
    alike = [_cut(run, intervals) for run in runs]
    return replays_page(Subject(title, about, quotas, capacity, notes), alike)


def view(name: str, replayed: ReplayResult) -> Run:
    """Return the data that a report needs of one replay."""
    recorder = replayed.recorder
    teams = sorted({line.workload.project for line in recorder.lines.values()})
    return Run(
        name=name,
        numbers=replayed.numbers,
        span=Span(0.0, recorder.width_s, _intervals(recorder)),
        allocated={team: recorder.allocated[team].means(INTERVALS_MAX) for team in teams},
        waiting={team: recorder.waiting[team].means(INTERVALS_MAX) for team in teams},
        delays_s=delays_s(list(recorder.lines.values())),
    )


def _intervals(recorder: JobRecorder) -> int:
    """Return the number of intervals to draw, within bounds."""
    ended_s = [line.ended_s for line in recorder.lines.values() if line.ended_s is not None]
    needed = ceil((max(ended_s, default=recorder.last_s) - recorder.first_s) / recorder.width_s)
    return min(INTERVALS_MAX, max(INTERVALS, needed))


def _cut(run: Run, intervals: int) -> Run:
    return replace(
        run,
        span=replace(run.span, intervals=intervals),
        allocated={team: values[:intervals] for team, values in run.allocated.items()},
        waiting={team: values[:intervals] for team, values in run.waiting.items()},
    )
