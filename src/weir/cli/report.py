"""`weir report`: usage over time."""

import csv
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from weir.cli.columns import Column, table
from weir.cli.formatting import hours, lasting, moment, number, percent
from weir.cli.outputs import as_json
from weir.cli.terminal import screen

if TYPE_CHECKING:
    from weir.api.answers import UsageReport, UsageRow

app = App(name="report", help="Report who used what over a time.")

By = Literal["project", "department", "user", "type", "node"]


def _of_held(part: float | None, row: "UsageRow") -> str:
    if part is None or not row.allocated_gpu_s:
        return "-"
    return percent(part / row.allocated_gpu_s)


def columns(by: str) -> "tuple[Column[UsageRow], ...]":
    """Return the columns; the head of the first one is the kind of the rows."""
    return (
        Column(by.upper(), lambda row: row.key or "-", least=10),
        Column("GPU HOURS", lambda row: hours(row.allocated_gpu_s), right=True),
        Column("USED", lambda row: _of_held(row.used_gpu_s, row), right=True, drop=1),
        Column("IDLE HOURS", lambda row: hours(row.idle_gpu_s), right=True, drop=2),
        Column("OVER QUOTA", lambda row: _of_held(row.over_quota_gpu_s, row), right=True, drop=3),
        Column("WAITED", lambda row: lasting(row.waiting_s), right=True, drop=4),
        Column("WORKLOADS", lambda row: number(row.workloads), right=True, drop=5),
        Column("ENDED", lambda row: number(row.ended), right=True, drop=7),
        Column("PREEMPTED", lambda row: number(row.preempted), right=True, drop=6),
    )


@app.command
def usage(
    *,
    since: str = "7d",
    until: str | None = None,
    by: By = "project",
    output: Annotated[Literal["table", "csv", "json"], Parameter(name=("--output", "-o"))] = "table",
) -> int:
    """Report allocated, used and idle device time, and waiting times.

    Parameters
    ----------
    since
        Start: an age such as 7d or 12h, or a date such as 2026-11-01.
    until
        End, in the same form; now by default.
    by
        Kind of the rows: project, department, user, type or node.
    output
        table (hours and percent), csv or json (seconds).
    """
    from weir.cli.connect import connect

    try:
        since_s = at("--since", since)
        until_s = None if until is None else at("--until", until)
    except ValueError as error:
        print(f"weir: {error}.", file=sys.stderr)
        return 2
    with connect() as pool:
        report = pool.usage(since_s=since_s, until_s=until_s, by=by)
    if output == "json":
        print(as_json(report.model_dump(mode="json"), indent=2))
    elif output == "csv":
        _csv(report)
    else:
        print("\n".join(_table(report)))
    return 0


def at(option: str, written: str) -> float:
    """Return a time as seconds since the epoch.

    Raises:
        ValueError: the text isn't a time; the message says what to write.
    """
    from weir.model.resources import seconds

    try:
        return time.time() - abs(seconds(written))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(written).astimezone().timestamp()
    except ValueError:
        right = "how long ago, such as 7d or 12h, or a date such as 2026-11-01"
        raise ValueError(f"{option} {written!r} is no time: write {right}") from None


def _csv(report: "UsageReport") -> None:
    from weir.api.answers import UsageRow

    names = [name for name in UsageRow.model_fields if name != "key"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([report.by, *names])
    for row in report.rows:
        writer.writerow([row.key, *(getattr(row, name) for name in names)])


def _table(report: "UsageReport") -> list[str]:
    here = screen()
    head = f"{moment(report.since_s)} to {moment(report.until_s)}"
    if not report.rows:
        return [here.paint(head, "quiet"), "", "Nothing was used."]
    rows = sorted(report.rows, key=lambda row: (-row.allocated_gpu_s, row.key))
    return [here.paint(head, "quiet"), "", *table(rows, columns(report.by), here)]
