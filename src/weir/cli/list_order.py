"""Order and summary of the list of workloads."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from weir.cli.formatting import counted, resource
from weir.model.resources import GPU

if TYPE_CHECKING:
    from weir.api.answers import WorkloadRow

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


def summary(rows: "Sequence[WorkloadRow]", total: int) -> str:
    """Return the numbers of workloads and their GPUs by status; the number alone if not all are there."""
    if len(rows) < total:
        return counted(total, "workload")
    numbers: Counter[str] = Counter()
    devices: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        numbers[row.status] += 1
        devices[row.status] += row.devices
    return ", ".join(
        f"{numbers[status]:,} {status}" + (f" ({resource(GPU, devices[status])})" if devices[status] else "")
        for status in STATUSES
        if numbers[status]
    )


def since_s(written: str | None) -> float | None:
    """Return the time before now that a span such as 2h names; None if there is none.

    Raises:
        ValueError: it is no span.
    """
    from weir.model.resources import seconds

    return None if written is None else time.time() - abs(seconds(written))
