"""Reports by GPU model, from reports by node: each node has one model."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from weir.api.answers import UsageReport, UsageRow
from weir.api.history import HistoryReport, HistoryRow

Row = TypeVar("Row", bound=UsageRow)
_SUMS = ("allocated_gpu_s", "over_quota_gpu_s", "waiting_s", "workloads", "ended", "preempted")
_KNOWN_SUMS = (
    *("used_gpu_s", "idle_gpu_s"),
    *("working_gpu_s", "starved_gpu_s", "parked_gpu_s", "left_gpu_s"),
)
ModelOf = Callable[[str], str]
"""Returns the GPU model of a node by its name."""


def usage_by_model(report: UsageReport, model_of: ModelOf) -> UsageReport:
    """Return the rows of a report by node, added up by GPU model."""
    return report.model_copy(update={"by": "gpu_model", "rows": _merged(report.rows, model_of)})


def history_by_model(report: HistoryReport, model_of: ModelOf) -> HistoryReport:
    """Return the rows of a report by node, added up by GPU model."""
    return report.model_copy(update={"by": "gpu_model", "rows": _merged(report.rows, model_of)})


def _merged(rows: Iterable[Row], model_of: ModelOf) -> list[Row]:
    merged: dict[str, Row] = {}
    for row in rows:
        model = model_of(row.key)
        previous = merged.get(model)
        merged[model] = row.model_copy(update={"key": model}) if previous is None else _added(previous, row)
    return sorted(merged.values(), key=lambda row: (-row.allocated_gpu_s, -row.waiting_s, row.key))


def _added(first: Row, second: Row) -> Row:
    sums: dict[str, float | None] = {name: getattr(first, name) + getattr(second, name) for name in _SUMS}
    for name in _KNOWN_SUMS:
        sums[name] = _sum_known(getattr(first, name), getattr(second, name))
    if isinstance(first, HistoryRow) and isinstance(second, HistoryRow):
        sums["evicted"] = first.evicted + second.evicted
        sums["lost_gpu_s"] = first.lost_gpu_s + second.lost_gpu_s
        sums["cost"] = _sum_known(first.cost, second.cost)
    return first.model_copy(update=sums)


def _sum_known(first: float | None, second: float | None) -> float | None:
    return second if first is None else first if second is None else first + second
