"""`weir simulate`: replay of a trace on a cluster, under one policy or several.

The simulation and numpy are imported when the command runs.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Names, Repeated
from weir.cli.output.tables import table, terminal_width
from weir.cli.simulation.replay_progress import progress_bar
from weir.cli.simulation.simulate_alternatives import compare_alternatives
from weir.model.resources import span

if TYPE_CHECKING:
    from weir.model.policy import Policy
    from weir.model.scenario import Scenario
    from weir.simulation.job_trace import JobTrace
    from weir.simulation.replay import ReplayResult

DONE, FAILED = 0, 1


def simulate(
    *,
    cluster: Path,
    trace: Path,
    format_: Annotated[Literal["weir", "openb", "itp", "philly"], Parameter(name="--format")] = "weir",
    policy: str | None = None,
    compare: Names = (),
    add_nodes: Repeated = (),
    what_if: Repeated = (),
    seeds: Annotated[int, whole_number(1, 20)] = 3,
    report: Path | None = None,
    output: Literal["text", "json", "progress"] = "text",
) -> int:
    """Replay a trace of jobs on a cluster, and print the result for each policy.

    Parameters
    ----------
    cluster
        A scenario file without workloads: nodes, quotas and, optionally, a policy.
    trace
        The jobs, as CSV, plain or gzipped.
    format_
        Format of the trace: weir, or one of the public traces openb, itp and philly.
    policy
        A policy file, or the name of a preset (balanced, throughput, fair), instead of the cluster file's.
    compare
        Further policies for the same jobs.
    add_nodes
        Compare with more nodes, such as 2x8xH100: two nodes with eight GPUs each.
    what_if
        Compare with an alternative, such as add-nodes=2x8xH100,quota.vision=8,policy=throughput.
        Repeat it for more alternatives.
    seeds
        Replays of each alternative, each with the jobs of a second in another order.
    report
        Write a page with charts to this HTML file.
    output
        text for people, json for programs; json of several runs is an object by policy. progress prints a
        line of JSON for each step of the work, and the result as the last one.
    """
    scenario, job_traces = _read(cluster, trace, format_)
    policies = _policies(scenario.policy, policy, compare)
    _check_report(report)
    if add_nodes or what_if:
        texts = [*(f"add-nodes={text}" for text in add_nodes), *what_if]
        own = next(iter(policies.values()))
        return compare_alternatives(replace(scenario, policy=own), job_traces, texts, seeds, output)
    runs = _replay_all(scenario, job_traces, policies)
    _print_numbers(runs, output, several=bool(compare))
    return DONE if report is None else _write_report(report, scenario, trace, runs)


def _replay_all(
    scenario: "Scenario", job_traces: "Sequence[JobTrace]", policies: "Mapping[str, Policy]"
) -> "dict[str, ReplayResult]":
    from weir.simulation.replay import replay

    runs = {}
    for name, settings in policies.items():
        with progress_bar(name) as progress:
            runs[name] = replay(scenario, job_traces, settings, progress=progress)
    return runs


def _print_numbers(runs: "Mapping[str, ReplayResult]", output: str, *, several: bool) -> None:
    numbers = {name: run.numbers for name, run in runs.items()}
    if output == "text":
        print_runs(numbers)
    else:
        print(json.dumps(numbers if several else next(iter(numbers.values())), indent=2))


def _read(cluster: Path, trace: Path, format_: str) -> "tuple[Scenario, list[JobTrace]]":
    """Return the cluster and the jobs.

    Raises:
        InvalidFile: a file can't be read, or a replay can't use it.
    """
    from weir.model.scenario import InvalidFile, Mistake
    from weir.scenario_io.reading import read_scenario
    from weir.simulation.traces.formats import read_trace

    scenario = read_scenario(cluster)
    if scenario.workloads:
        raise InvalidFile(
            [Mistake(str(cluster), 0, "has workloads: a replay starts from a cluster without any")]
        )
    job_traces = read_trace(trace, scenario, format_)
    if not job_traces:
        raise InvalidFile([Mistake(str(trace), 0, "has no jobs")])
    return scenario, job_traces


def _check_report(report: Path | None) -> None:
    """Check that the report can be written, before minutes of work.

    Raises:
        InvalidFile: it can't be written there.
    """
    from weir.model.scenario import InvalidFile, Mistake

    if report is not None and not report.parent.is_dir():
        raise InvalidFile([Mistake(str(report), 0, "can't be written: its folder isn't there")])


def _write_report(report: Path, scenario: "Scenario", trace: Path, runs: "Mapping[str, ReplayResult]") -> int:
    from weir.simulation.replay_report import report as page
    from weir.simulation.replay_report import view

    jobs = len(next(iter(runs.values())).recorder.lines)
    gpus = sum(node.gpus for node in scenario.nodes)
    about = f"{jobs:,} jobs of {trace.name} on {len(scenario.nodes):,} nodes with {gpus:,} GPUs."
    drawn = page(scenario, [view(name, run) for name, run in runs.items()], title=scenario.name, about=about)
    try:
        report.write_text(drawn, "utf-8")
    except OSError as error:
        print(f"weir: {report} can't be written: {error.strerror}.", file=sys.stderr)
        return FAILED
    print(f"Report: {report}", file=sys.stderr)
    return DONE


def _policies(own: "Policy", named: str | None, compared: Sequence[str]) -> dict[str, "Policy"]:
    """Return the policies of the replay by name.

    Raises:
        InvalidFile: one can't be read.
    """
    from weir.scenario_io.policies import named_policy

    policies = {}
    for index, name in enumerate([named, *compared]):
        short = own.preset if name is None else Path(name).stem
        policies[short if short not in policies else f"{short} ({index + 1})"] = (
            own if name is None else named_policy(name)
        )
    return policies


Line = tuple[str, Callable[[Mapping[str, Any]], str]]

LINES: tuple[Line, ...] = (
    ("jobs completed", lambda run: f"{run['completed']:,} of {run['jobs']:,}"),
    ("jobs failed", lambda run: f"{run['failed']:,}"),
    ("first start after, mean", lambda run: span(run["first_start_wait_mean_s"])),
    ("completed after, mean", lambda run: span(run["jct_mean_s"])),
    ("delay, mean", lambda run: span(run["delay_mean_s"])),
    ("delay, 99 %", lambda run: span(run["delay_p99_s"])),
    ("GPUs allocated", lambda run: f"{100 * run['allocation']:.1f} %"),
    ("wait for own quota, mean", lambda run: f"{run['entitled']['wait_mean_s']:.1f}s"),
    ("  longer than a minute", lambda run: f"{run['entitled']['over_60s']:,} of {run['entitled']['jobs']:,}"),
    ("preemptions", lambda run: f"{run['preemptions']:,}"),
    ("moves", lambda run: f"{run['moves']:,}"),
    ("GPU hours lost", lambda run: f"{run['lost_gpu_hours']:,.0f}"),
    ("decisions", lambda run: f"{run['cycles']:,}"),
    ("  each, 50 % and 99 %", lambda run: f"{run['cycle_ms_p50']:.2f} and {run['cycle_ms_p99']:.1f} ms"),
    ("took", lambda run: f"{run['wall_s']:.1f}s"),
)


def print_runs(runs: Mapping[str, Mapping[str, Any]], lines: Sequence[Line] = LINES) -> None:
    """Print the runs side by side."""
    names = list(runs)
    columns = [[name, *(written(runs[name]) for _, written in lines)] for name in names]
    widths = [max(map(len, column)) for column in columns]
    heads, *rows = [
        [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        for row in zip(*columns, strict=True)
    ]
    labelled = [[label, *row] for (label, _), row in zip(lines, rows, strict=True)]
    print(table(["", *heads], labelled, terminal_width()))
