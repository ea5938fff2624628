"""`weir report`: usage over time."""

import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import App, Parameter

from weir.cli.options.mistakes import option_mistakes
from weir.cli.options.past_time import past_time, since_time
from weir.cli.options.refusals import named
from weir.cli.output.columns import Column, table
from weir.cli.output.formatting import NOTHING, counted, hours, lasting, moment, number, percent, resource
from weir.cli.output.outputs import ProjectOption, as_json
from weir.cli.output.terminal import screen
from weir.cli.pool.connect import connect
from weir.cli.workloads.list_filter import check_projects
from weir.cli.workloads.short_reasons import short_reason
from weir.model.reasons import rule_phrase
from weir.model.resources import GPU

if TYPE_CHECKING:
    from weir.api.answers import UsageReport, UsageRow
    from weir.api.history import HistoryReport, HistoryRow
    from weir.client.api import Pool

app = App(name="report", help="Report usage by project, person, type or node.")

Report = TypeVar("Report", bound="UsageReport | HistoryReport")
_IDLE_MAX = 10
"""Idle workloads that a report names."""
By = Literal["project", "department", "user", "type", "node", "gpu_model"]


def _of_held(part: float | None, row: "UsageRow") -> str:
    if part is None or not row.allocated_gpu_s:
        return NOTHING
    return percent(part / row.allocated_gpu_s)


def _key_column(by: str) -> "Column[Any]":
    """Return the first column; its head is the kind of the rows."""
    return Column(by.upper().replace("_", " "), lambda row: row.key or NOTHING, least=10)


def columns(by: str) -> "tuple[Column[UsageRow], ...]":
    """Return the columns of usage."""
    return (
        _key_column(by),
        Column("GPU HOURS", lambda row: hours(row.allocated_gpu_s), right=True),
        Column("USED", lambda row: _of_held(row.used_gpu_s, row), right=True, drop=1),
        Column("IDLE HOURS", lambda row: hours(row.idle_gpu_s), right=True, drop=2),
        Column("OVER QUOTA", lambda row: _of_held(row.over_quota_gpu_s, row), right=True, drop=3),
        Column("WAITED", lambda row: lasting(row.waiting_s), right=True, drop=4),
        Column("WORKLOADS", lambda row: number(row.workloads), right=True, drop=5),
        Column("ENDED", lambda row: number(row.ended), right=True, drop=7),
        Column("PREEMPTED", lambda row: number(row.preempted), right=True, drop=6),
        Column("WORKING", lambda row: _of_held(row.working_gpu_s, row), right=True, drop=9),
        Column("STARVED", lambda row: _of_held(row.starved_gpu_s, row), right=True, drop=11),
        Column("PARKED", lambda row: _of_held(row.parked_gpu_s, row), right=True, drop=8),
        Column("LEFT", lambda row: _of_held(row.left_gpu_s, row), right=True, drop=10),
    )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Time, rows and form of a report."""

    since: str = "7d"
    """Start: an age such as 7d or 12h, or a date such as 2026-11-01."""
    until: str | None = None
    """End, in the same form; now by default."""
    by: By = "project"
    """Kind of the rows: project, department, user, type, node or gpu_model."""
    project: ProjectOption = None
    """Only the work of this project, or of several between commas."""
    output: Annotated[Literal["table", "csv", "json"], Parameter(name=("--output", "-o"))] = "table"
    """table (hours and percent), csv or json (seconds)."""


@app.command
def usage(*, options: ReportOptions = ReportOptions()) -> int:
    """Report allocated, used and idle device time, waiting times, and the work that is idle now."""
    return _report(options, lambda pool, filters: pool.usage(**filters), _csv, _table, _idle_now)


@app.command
def history(*, options: ReportOptions = ReportOptions()) -> int:
    """Report waits for GPUs, time to quota, evictions by rule, lost GPU hours and cost."""
    return _report(options, lambda pool, filters: pool.history(**filters), _history_csv, _history_table)


def _report(
    options: ReportOptions,
    get: "Callable[[Pool, Any], Report]",
    to_csv: "Callable[[Report], None]",
    to_table: "Callable[[Report], list[str]]",
    present: "Callable[[Pool, str | None], list[str]] | None" = None,
) -> int:
    with option_mistakes():
        since_s = since_time(options.since)
        until_s = None if options.until is None else past_time("--until", options.until)
    with connect() as pool, named(since="--since", until="--until"):
        project = options.project
        filters = {"since_s": since_s, "until_s": until_s, "by": options.by, "project": project}
        report = get(pool, filters)
        if project is not None:
            of_projects = report if options.by == "project" else get(pool, {**filters, "by": "project"})
            check_projects(pool, project, {row.key for row in of_projects.rows})
        is_now = present is not None and options.output == "table" and until_s is None
        now = present(pool, project) if present is not None and is_now else []
    if options.output == "json":
        print(as_json(report.model_dump(mode="json"), indent=2))
    elif options.output == "csv":
        to_csv(report)
    else:
        print("\n".join([*to_table(report), *now]))
    if report.note is not None:
        print(report.note, file=sys.stderr)
    return 0


def _idle_now(pool: "Pool", project: str | None) -> list[str]:
    """Return the workloads that hold GPUs and are idle now, with their states, the most GPUs first."""
    rows = [row for row in pool.list(status=["running"], project=project) if row.activity is not None]
    idle = [row for row in rows if row.activity is not None and row.activity.state in ("parked", "left")]
    idle.sort(key=lambda row: (-row.devices, row.uid))
    if not idle:
        return []
    lines = [
        f"  {row.name} of {row.user or 'a person'} in {row.project}: {short_reason(row)}, "
        f"{resource(GPU, row.devices)}"
        for row in idle[:_IDLE_MAX]
    ]
    remainder = [f"  and {len(idle) - _IDLE_MAX:,} more"] if len(idle) > _IDLE_MAX else []
    gpus = resource(GPU, sum(row.devices for row in idle))
    return ["", f"Idle now, with {gpus}:", *lines, *remainder]


@app.command
def jobs(
    *,
    since: str = "30d",
    until: str | None = None,
    output: Annotated[Literal["trace"], Parameter(name=("--output", "-o"))] = "trace",  # noqa: ARG001
) -> int:
    """Print the ended workloads of a period as a trace: `weir report jobs --output trace > jobs.csv`.

    Parameters
    ----------
    since
        Start: an age such as 30d, or a date such as 2026-11-01.
    until
        End, in the same form; now by default.
    output
        trace, the format that `weir simulate --trace` reads.
    """
    with option_mistakes():
        since_s = since_time(since)
        until_s = None if until is None else past_time("--until", until)
    with connect() as pool, named(since="--since"):
        sys.stdout.write(pool.trace(since_s=since_s, until_s=until_s))
    return 0


HISTORY: "tuple[Column[HistoryRow], ...]" = (
    Column("GPU HOURS", lambda row: hours(row.allocated_gpu_s), right=True),
    Column("USED", lambda row: _of_held(row.used_gpu_s, row), right=True, drop=4),
    Column("IDLE HOURS", lambda row: hours(row.idle_gpu_s), right=True, drop=3),
    Column("WAIT P50", lambda row: lasting(row.waits.p50_s), right=True, drop=2),
    Column("WAIT P90", lambda row: lasting(row.waits.p90_s), right=True),
    Column("WAIT P95", lambda row: lasting(row.waits.p95_s), right=True, drop=7),
    Column("TO QUOTA P50", lambda row: lasting(row.to_quota.p50_s), right=True, drop=6),
    Column("TO QUOTA P90", lambda row: lasting(row.to_quota.p90_s), right=True, drop=1),
    Column("EVICTED", lambda row: number(row.evicted), right=True),
    Column("LOST HOURS", lambda row: hours(row.lost_gpu_s), right=True, drop=5),
    Column("COST", lambda row: NOTHING if row.cost is None else f"{row.cost:,.2f}", right=True),
)


def _history_csv(report: "HistoryReport") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    names = ["allocated_gpu_s", "used_gpu_s", "idle_gpu_s", "evicted", "lost_gpu_s", "cost"]
    times = ["waits", "to_quota"]
    heads = [f"{name}_{part}" for name in times for part in ("count", "p50_s", "p90_s", "p95_s")]
    writer.writerow([report.by, *names, *heads])
    for row in report.rows:
        waits = (getattr(row, name) for name in times)
        parts = [value for wait in waits for value in (wait.count, wait.p50_s, wait.p90_s, wait.p95_s)]
        writer.writerow([row.key, *(getattr(row, name) for name in names), *parts])


def _history_table(report: "HistoryReport") -> list[str]:
    display = screen()
    lines = [display.paint(f"{moment(report.since_s)} to {moment(report.until_s)}", "quiet"), ""]
    if not report.rows:
        return [*lines, "Nothing was used."]
    shown = [column for column in HISTORY if column.head != "COST" or report.currency is not None]
    rows = [*report.rows, report.total]
    lines += table(rows, (_key_column(report.by), *shown), display)
    quota = report.total.to_quota
    if quota.count:
        times = f"{lasting(quota.p50_s)} (P50) and {lasting(quota.p90_s)} (P90)"
        lines += ["", f"Reclaimed GPUs of a quota after {times} of waiting, {counted(quota.count, 'time')}."]
    if report.total.waits.rounded or quota.rounded:
        lines += ["", "P50 and P90 of more than 10,000 times are rounded to 2.5 %."]
    for rule in report.rules:
        lines.append(
            f"Evicted by {rule_phrase(rule.rule)}: {rule.count}, {hours(rule.lost_gpu_s)} GPU hours lost."
        )
    if report.currency is not None:
        lines.append(f"Cost in {report.currency}: {report.total.cost or 0.0:,.2f}.")
    return lines


def _csv(report: "UsageReport") -> None:
    from weir.api.answers import UsageRow

    names = [name for name in UsageRow.model_fields if name != "key"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([report.by, *names])
    for row in report.rows:
        writer.writerow([row.key, *(getattr(row, name) for name in names)])


def _table(report: "UsageReport") -> list[str]:
    display = screen()
    head = f"{moment(report.since_s)} to {moment(report.until_s)}"
    if not report.rows:
        return [display.paint(head, "quiet"), "", "Nothing was used."]
    rows = sorted(report.rows, key=lambda row: (-row.allocated_gpu_s, row.key))
    return [display.paint(head, "quiet"), "", *table(rows, columns(report.by), display)]
