"""`weir top --since`: GPUs allocated over a time."""

from typing import Any

import pytest

from weir.api.answers import UsageReport, UsageRow
from weir.cli.nodes.commands import top
from weir.cli.options.mistakes import WrongOption
from weir.cli.output.formatting import clock
from weir.cli.output.terminal import Screen
from weir.cli.reports.period_usage import ROWS_MAX, notes, period_lines, period_usage

HOUR_S = 3600.0
PLAIN = Screen(width=None, height=None, colour=False)


def row(key: str, hours: float, used: float | None = None) -> UsageRow:
    counts: dict[str, Any] = {"over_quota_gpu_s": 0.0, "waiting_s": 0.0, "workloads": 1, "ended": 0}
    idle_s = None if used is None else (hours - used) * HOUR_S
    used_s = None if used is None else used * HOUR_S
    return UsageRow(
        key=key, allocated_gpu_s=hours * HOUR_S, used_gpu_s=used_s, idle_gpu_s=idle_s, preempted=0, **counts
    )


class Pool:
    """Answers reports of two hours."""

    def __init__(self, rows: list[UsageRow]) -> None:
        self.rows = rows
        self.asked: list[str] = []

    def usage(self, *, since_s: float, by: Any) -> UsageReport:
        self.asked.append(by)
        note = "The history by user goes back 6 hours." if by == "user" else "It has just begun."
        return UsageReport(since_s=since_s, until_s=since_s + 2 * HOUR_S, by=by, rows=self.rows, note=note)


def test_the_time_is_shown_by_project_user_and_node_with_the_part_that_was_used() -> None:
    pool = Pool([row("vision", 6.0, 3.0), row("speech", 2.0)])
    reports = period_usage(pool, 0.0)  # type: ignore[arg-type]
    lines = period_lines(reports, PLAIN)
    assert lines[0] == f"4.0 GPUs allocated on average since {clock(0.0)}, 50 % used"
    heads = [line.split()[0] for line in lines if "GPU HOURS" in line]
    assert heads == ["PROJECT", "USER", "NODE"]
    (vision, *_) = [line.split() for line in lines if line.startswith("vision")]
    assert vision[:5] == ["vision", "6.0", "50", "%", "3.0"]
    assert notes(reports) == ["It has just begun.", "The history by user goes back 6 hours."]


def test_the_tables_are_short_and_name_the_command_for_the_rest() -> None:
    rows = [row(f"p{at}", 50.0 - at) for at in range(ROWS_MAX + 3)] + [row("quiet", 0.0)]
    lines = period_lines(period_usage(Pool(rows), 0.0), PLAIN)  # type: ignore[arg-type]
    assert "and 3 more: weir report usage --by project" in lines
    assert not [line for line in lines if line.startswith("quiet")]


def test_a_time_without_any_use_has_no_tables() -> None:
    assert period_lines(period_usage(Pool([]), 0.0), PLAIN) == [  # type: ignore[arg-type]
        f"0.0 GPUs allocated on average since {clock(0.0)}"
    ]


def test_a_time_that_cant_be_read_is_refused_before_the_pool_is_asked() -> None:
    with pytest.raises(WrongOption, match="--since"):
        top(since="yesterday-ish")
