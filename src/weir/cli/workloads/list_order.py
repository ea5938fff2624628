"""Order and summary of the list of workloads."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from weir.cli.output.formatting import counted, number

if TYPE_CHECKING:
    from weir.api.answers import WorkloadPage, WorkloadRow

Order = Literal["status", "age", "name", "gpus", "priority"]
STATUSES = ("running", "starting", "stopping", "pending", "failed", "stopped", "succeeded")
"""Statuses in the order of the list: running work comes first."""
_RANK = {status: rank for rank, status in enumerate(STATUSES)}
_KEYS: "dict[Order, Callable[[WorkloadRow], Any]]" = {
    "status": lambda row: (_RANK.get(row.status, len(_RANK)), -row.submitted_s),
    "age": lambda row: -row.submitted_s,
    "name": lambda row: row.name,
    "gpus": lambda row: (-row.devices, -row.submitted_s),
    "priority": lambda row: (-row.priority, -row.submitted_s),
}


def ordered(rows: "Sequence[WorkloadRow]", order: Order) -> "list[WorkloadRow]":
    """Return rows in an order; rows that are alike keep theirs."""
    return sorted(rows, key=_KEYS[order])


def summary(rows: "Sequence[WorkloadRow]", total: int, page: "WorkloadPage | None" = None) -> str:
    """Return the numbers of workloads by status, and how many GPUs of the pool are in use.

    For a part of the list it is only the number of workloads.
    """
    numbers: Counter[str] = Counter(row.status for row in rows)
    newer = sorted(numbers.keys() - set(STATUSES))
    parts = [f"{numbers[status]:,} {status}" for status in (*STATUSES, *newer) if numbers[status]]
    if len(rows) < total:
        parts = [counted(total, "workload")]
    if page is not None and page.gpus and page.gpus_in_use is not None:
        parts.append(f"{number(page.gpus_in_use)} of {counted(page.gpus, 'GPU')} in use")
    return ", ".join(parts)
