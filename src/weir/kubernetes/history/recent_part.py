"""The last minutes of a report, which are in memory only."""

from typing import TypeVar

from weir.api.answers import UsageReport, UsageRow
from weir.api.history import HistoryReport, HistoryRow

Row = TypeVar("Row", bound=UsageRow)
Report = TypeVar("Report", UsageReport, HistoryReport)
NO_KEY = "-"
"""Key for work without a department or known user. The database stores an empty text."""
_ADDED = ("allocated_gpu_s", "over_quota_gpu_s", "waiting_s")
_MEASURED = ("used_gpu_s", "idle_gpu_s")


def usage_with_recent(stored: UsageReport, recent: UsageReport, until_s: float) -> UsageReport:
    """Return a stored report with the GPU time of the last minutes. Workloads are counted by the database."""
    rows = _joined(stored, recent, UsageRow)
    rows.sort(key=lambda row: (-row.allocated_gpu_s, -row.waiting_s, row.key))
    return stored.model_copy(update={"rows": rows, "until_s": until_s})


def history_with_recent(stored: HistoryReport, recent: HistoryReport, until_s: float) -> HistoryReport:
    """Return a stored report with the GPU time of the last minutes."""
    rows = _joined(stored, recent, HistoryRow)
    rows.sort(key=lambda row: (-row.allocated_gpu_s, -row.waiting_s, row.key))
    changed = {
        "rows": rows,
        "total": _sum(stored.total, recent.total),
        "points": [*stored.points, *recent.points],
        "until_s": until_s,
    }
    return stored.model_copy(update=changed)


def _joined(
    stored: UsageReport | HistoryReport, recent: UsageReport | HistoryReport, row_type: type[Row]
) -> list[Row]:
    rows: dict[str, Row] = {
        row.key: row_type.model_validate(row, from_attributes=True) for row in stored.rows
    }
    for row in recent.rows:
        rows[row.key] = _sum(rows.get(row.key) or row_type.model_validate(_none(row.key)), row)
    return list(rows.values())


def named(report: Report) -> Report:
    """Return a stored report whose rows have the keys of answers."""
    rows = [row if row.key else row.model_copy(update={"key": NO_KEY}) for row in report.rows]
    return report.model_copy(update={"rows": rows})


def _none(key: str) -> dict[str, object]:
    counts: dict[str, object] = dict.fromkeys((*_ADDED, "workloads", "ended", "preempted"), 0)
    return {**counts, **dict.fromkeys(_MEASURED), "key": key}


def _sum(row: Row, other: UsageRow) -> Row:
    sums: dict[str, float | None] = {name: getattr(row, name) + getattr(other, name) for name in _ADDED}
    for name in _MEASURED:
        values = [value for value in (getattr(row, name), getattr(other, name)) if value is not None]
        sums[name] = sum(values) if values else None
    return row.model_copy(update=sums)
