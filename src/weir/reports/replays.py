"""The page about a replay: the results of the jobs by run and by team."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from weir.model.resources import span
from weir.reports.charts import Curve, Span, key, lines, share_points, stacked, steps_up
from weir.reports.page import page
from weir.reports.scale import number

WIDE = (1060, 230)
SMALL = (340, 136)
TEAM_COLOURS = 12
RUN_COLOURS = 6
TEAMS_APART = 24
"""Teams that get a chart of their own."""

_DELAY_MARKS_S = (0, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400)


@dataclass(frozen=True, slots=True)
class Run:
    """A replay: its results, and the allocation and demand in each interval."""

    name: str
    numbers: Mapping[str, Any]
    span: Span
    allocated: Mapping[str, Sequence[float]]  # devices by team
    waiting: Mapping[str, Sequence[float]]
    delays_s: Sequence[float]


@dataclass(frozen=True, slots=True)
class Subject:
    """Title and description of a replay, and the quotas of its teams."""

    title: str
    about: str
    quotas: Mapping[str, float]  # devices by team; without unlimited teams
    capacity: float
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of the comparison. `less` is True if less is better, None if neither is."""

    name: str
    value: Callable[[Mapping[str, Any]], float]
    written: Callable[[float], str]
    less: bool | None = True


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _time(value: float) -> str:
    return span(value) if value >= 1 else f"{value:.1f}s" if value > 0 else "0s"


COLUMNS = (
    Metric("first start after", lambda numbers: numbers["first_start_wait_mean_s"], _time),
    Metric("completed after", lambda numbers: numbers["jct_mean_s"], _time),
    Metric("delay", lambda numbers: numbers["delay_mean_s"], _time),
    Metric("delay, 99\u00a0%", lambda numbers: numbers["delay_p99_s"], _time),
    Metric("GPUs allocated", lambda numbers: numbers["allocation"], _percent, False),
    Metric("wait for own quota", lambda numbers: numbers["entitled"]["wait_mean_s"], _time),
    Metric("longer than a minute", lambda numbers: numbers["entitled"]["over_60s"], number),
    Metric("off fair shares, by hour", lambda numbers: numbers["fairness"]["deviation_by_hour"], _percent),
    Metric("preemptions", lambda numbers: numbers["preemptions"], number, None),
    Metric("GPU hours lost", lambda numbers: numbers["lost_gpu_hours"], number, None),
)
COMPARED = (
    "Means over jobs; the best of each in green. Delay is a job's time beyond its own run time. Wait for "
    "own quota: jobs whose team, with them and all it had queued, was within what it is guaranteed; and how "
    "many of these waited longer than a minute. Off fair "
    "shares: the part of the GPUs that went to other teams than those entitled to them, hour by hour."
)


def replays_page(subject: Subject, runs: Sequence[Run]) -> str:
    """Return the page."""
    teams = _teams(subject, runs)
    colours = {team: f"var(--team-{index % TEAM_COLOURS})" for index, team in enumerate(teams)}
    sections = [
        _section("The runs compared", _compared(runs), COMPARED),
        _section(
            "GPUs in use, by team",
            key(list(colours.items())) + _in_use(subject, runs, colours),
            "GPUs of each team's running jobs. The dashed line is the whole cluster.",
        ),
        _section(
            "Each team against its quota",
            _run_key(runs) + _by_team(subject, runs, teams),
            "GPUs allocated over time; the dashed line is the quota of the team. Above it, the team borrows "
            "unused GPUs.",
        ),
        _section(
            "Work waiting",
            _run_key(runs) + _waiting(runs),
            "GPUs asked for by jobs that wait, all teams together.",
        ),
        _section(
            "How long jobs are delayed",
            _run_key(runs) + _delays(runs),
            "Share of jobs with at most this delay. The delay is measured against a run that starts at once "
            "and isn't interrupted. Higher is better.",
        ),
        _section("Team by team", _teams_table(runs, teams), "Mean delay of each team's jobs."),
    ]
    return page(subject.title, subject.about, sections, subject.notes)


def _section(title: str, body: str, says: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="says">{escape(says)}</p>{body}</section>'


def _run_colour(index: int, runs: int) -> str:
    """Return the colour of a run: the last one has a colour, the others are grey."""
    return "var(--run-1)" if runs == 1 else f"var(--run-{index % RUN_COLOURS})"


def _run_key(runs: Sequence[Run]) -> str:
    return key([(run.name, _run_colour(index, len(runs))) for index, run in enumerate(runs)])


def _teams(subject: Subject, runs: Sequence[Run]) -> list[str]:
    """Return the teams by quota, largest first."""
    names = {team for run in runs for team in run.allocated}
    return sorted(names, key=lambda team: (-subject.quotas.get(team, 0.0), team))


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _compared(runs: Sequence[Run]) -> str:
    best = {column.name: _best(column, runs) for column in COLUMNS}
    rows = []
    for index, run in enumerate(runs):
        cells = "".join(
            _cell(column.written(column.value(run.numbers)), run in best[column.name]) for column in COLUMNS
        )
        dot = f'<i style="background:{_run_colour(index, len(runs))}"></i>'
        rows.append(f"<tr><th>{dot}{escape(run.name)}</th>{cells}</tr>")
    return _table(["", *(column.name for column in COLUMNS)], rows)


def _best(column: Metric, runs: Sequence[Run]) -> list[Run]:
    """Return the runs with the best value, or none if all are equal."""
    if column.less is None or len({column.written(column.value(run.numbers)) for run in runs}) == 1:
        return []
    values = [column.value(run.numbers) for run in runs]
    best = min(values) if column.less else max(values)
    return [run for run, value in zip(runs, values, strict=True) if value == best]


def _cell(written: str, best: bool) -> str:
    return f'<td class="best"><span>{escape(written)}</span></td>' if best else f"<td>{escape(written)}</td>"


def _in_use(subject: Subject, runs: Sequence[Run], colours: Mapping[str, str]) -> str:
    figures = []
    for run in runs:
        curves = [
            Curve(team, colour, run.allocated[team])
            for team, colour in colours.items()
            if team in run.allocated
        ]
        drawn = stacked(
            curves,
            run.span,
            capacity=subject.capacity,
            size=WIDE,
            label=f"GPUs in use, {run.name}",
            unit="GPUs",
        )
        figures.append(f'<figure class="wide"><figcaption>{escape(run.name)}</figcaption>{drawn}</figure>')
    return "".join(figures)


def _by_team(subject: Subject, runs: Sequence[Run], teams: Sequence[str]) -> str:
    figures = []
    for team in teams[:TEAMS_APART]:
        quota = subject.quotas.get(team)
        curves = [
            Curve(run.name, _run_colour(index, len(runs)), run.allocated[team])
            for index, run in enumerate(runs)
            if team in run.allocated
        ]
        drawn = lines(
            curves,
            runs[0].span,
            size=SMALL,
            label=f"GPUs allocated to {team}",
            unit="GPUs",
            rule=(quota, "quota") if quota is not None else None,
            wash=True,
        )
        guaranteed = f"guaranteed {number(quota)}" if quota is not None else "no quota"
        figures.append(f"<figure><h3>{escape(team)}<small>{guaranteed}</small></h3>{drawn}</figure>")
    return f'<div class="small">{"".join(figures)}</div>'


def _waiting(runs: Sequence[Run]) -> str:
    curves = [
        Curve(run.name, _run_colour(index, len(runs)), _summed(run.waiting, run.span.intervals))
        for index, run in enumerate(runs)
    ]
    return _wide(lines(curves, runs[0].span, size=WIDE, label="GPUs waited for", unit="GPUs", wash=True))


def _summed(parts: Mapping[str, Sequence[float]], intervals: int) -> list[float]:
    return [sum(values[index] for values in parts.values()) for index in range(intervals)]


def _delays(runs: Sequence[Run]) -> str:
    """Return the chart of delays, on an axis with evenly spaced marks from seconds to days."""
    bounds: list[tuple[float, float]] = []
    for index, (low, high) in enumerate(pairwise(_DELAY_MARKS_S)):
        bounds += [(index + part / 12, low + (high - low) * part / 12) for part in range(12)]
    bounds.append((len(_DELAY_MARKS_S) - 1.0, float(_DELAY_MARKS_S[-1])))
    curves = []
    for index, run in enumerate(runs):
        shares = share_points(run.delays_s, [seconds + 0.5 for _, seconds in bounds])
        points = [(position, share) for (position, _), share in zip(bounds, shares, strict=True)]
        curves.append((run.name, _run_colour(index, len(runs)), points))
    names = ["none", *(span(seconds) for seconds in _DELAY_MARKS_S[1:])]
    marked = [(float(index), name) for index, name in enumerate(names)]
    return _wide(steps_up(curves, marked, size=WIDE, label="Share of jobs by delay"))


def _wide(drawn: str) -> str:
    return f'<figure class="wide">{drawn}</figure>'


def _teams_table(runs: Sequence[Run], teams: Sequence[str]) -> str:
    rows = []
    for team in teams:
        of_runs = [run.numbers["by_project"].get(team) for run in runs]
        jobs = next((numbers["jobs"] for numbers in of_runs if numbers), 0)
        delays = [numbers["delay_mean_s"] if numbers else None for numbers in of_runs]
        measured = [delay for delay in delays if delay is not None]
        apart = len({_time(delay) for delay in measured}) > 1
        cells = "".join(
            "<td></td>" if delay is None else _cell(_time(delay), apart and delay == min(measured))
            for delay in delays
        )
        rows.append(f"<tr><th>{escape(team)}</th><td>{number(jobs)}</td>{cells}</tr>")
    return _table(["", "jobs", *(run.name for run in runs)], rows)
