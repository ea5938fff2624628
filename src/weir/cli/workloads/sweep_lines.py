"""Parked trials of a sweep as one line of the list of workloads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.cli.workloads.short_reasons import IN_SWEEP

if TYPE_CHECKING:
    from weir.api.answers import WorkloadRow

SUSPENDED = "suspended"
"""Reason of parked trials."""


def with_parked_together(rows: "Sequence[WorkloadRow]") -> "list[WorkloadRow]":
    """Return rows with all parked trials of a sweep merged into one row."""
    parked: dict[str, list[WorkloadRow]] = {}
    for row in rows:
        if row.sweep is not None and _is_parked(row):
            parked.setdefault(row.sweep, []).append(row)
    shown = []
    for row in rows:
        together = parked.get(row.sweep or "", [])
        if len(together) < 2 or not _is_parked(row):
            shown.append(row)
        elif row is together[0]:
            shown.append(_one_row(row.sweep or "", together))
    return shown


def _is_parked(row: "WorkloadRow") -> bool:
    if row.status != "pending" or row.reason is None or row.reason.why != SUSPENDED:
        return False
    return IN_SWEEP in str(row.reason.numbers.get("suspended", ""))  # a person suspends trials, too


def _one_row(sweep: str, rows: "Sequence[WorkloadRow]") -> "WorkloadRow":
    """Return the merged row of a sweep's parked trials."""
    from weir.api.answers import Explanation

    sentence = f"{len(rows):,} trials are parked: weir sweep show {sweep}"
    numbers: dict[str, object] = {"suspended": f"{len(rows):,} trials parked{IN_SWEEP}{sweep}"}
    return rows[0].model_copy(
        update={
            "name": f"{sweep}-*",
            "devices": sum(row.devices for row in rows),
            "pods": sum(row.pods for row in rows),
            "ran_s": sum(row.ran_s for row in rows),
            "reason": Explanation(why=SUSPENDED, sentence=sentence, numbers=numbers),
        }
    )
