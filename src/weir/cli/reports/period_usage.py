"""`weir top --since`: holders of GPUs over a time, and their use of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from weir.cli.output.columns import table
from weir.cli.output.formatting import clock, percent
from weir.cli.output.terminal import Screen
from weir.cli.reports.commands import columns

if TYPE_CHECKING:
    from weir.api.answers import UsageReport
    from weir.client.api import Pool

KEYS: tuple[Literal["project", "user", "node"], ...] = ("project", "user", "node")
ROWS_MAX = 10
"""Rows of each table: the keys that held the most GPU time."""
_HEADS = 7
"""Columns that every row has; the states of idle work are those of `weir report usage`."""


def period_usage(pool: "Pool", since_s: float) -> "list[UsageReport]":
    """Return the reports of a time up to now, one for each kind of key."""
    return [pool.usage(since_s=since_s, by=by) for by in KEYS]


def period_lines(reports: "Sequence[UsageReport]", display: Screen) -> list[str]:
    """Return the lines of the reports."""
    first = reports[0]
    held_s, long_s = sum(row.allocated_gpu_s for row in first.rows), first.until_s - first.since_s
    used = [row for row in first.rows if row.used_gpu_s is not None]
    known_s = sum(row.used_gpu_s or 0.0 for row in used)
    of_held_s = sum(row.allocated_gpu_s for row in used)
    part = f", {percent(known_s / of_held_s)} used" if of_held_s else ""
    mean = held_s / long_s if long_s > 0 else 0.0
    allocated = display.paint(f"{mean:.1f} GPUs allocated", "strong")
    lines = [f"{allocated} on average since {clock(first.since_s)}{part}"]
    for report in reports:
        rows = [row for row in report.rows if row.allocated_gpu_s or row.waiting_s]
        if not rows:
            continue
        lines += ["", *table(rows[:ROWS_MAX], columns(report.by)[:_HEADS], display)]
        if len(rows) > ROWS_MAX:
            lines.append(f"and {len(rows) - ROWS_MAX:,} more: weir report usage --by {report.by}")
    return lines


def notes(reports: "Sequence[UsageReport]") -> list[str]:
    """Return the omissions of the reports, each sentence once."""
    return list(dict.fromkeys(report.note for report in reports if report.note))
