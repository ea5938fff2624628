"""Columns of lists of workloads."""

import time
from typing import TYPE_CHECKING

from weir.cli.output.columns import Column
from weir.cli.output.formatting import lasting, number, percent, since
from weir.cli.output.outputs import Output
from weir.cli.output.terminal import Tone
from weir.cli.workloads.activity import activity_word, why_of
from weir.cli.workloads.short_reasons import short_reason

if TYPE_CHECKING:
    from weir.api.answers import PodRow, WorkloadRow
    from weir.api.workload_list import ArrayIndexRow

BAR_CELLS = 10
TONES: dict[str, Tone] = {
    "running": "good",
    "pending": "busy",
    "starting": "busy",
    "stopping": "busy",
    "failed": "bad",
    "stopped": "quiet",
}


def tone_of(row: "WorkloadRow | PodRow | ArrayIndexRow") -> Tone:
    """Return the tone of a status."""
    return TONES.get(row.status, "plain")


def time_of(row: "WorkloadRow", now_s: float | None = None) -> str:
    """Return the wall time of all runs, or a dash if it never ran."""
    ran_s = row.ran_s
    if row.started_s is not None and row.ended_s is None:
        now = time.time() if now_s is None else now_s
        ran_s = max(ran_s, row.ran_before_s + now - row.started_s)
    return lasting(ran_s) if ran_s or row.started_s is not None else "-"


def _short_why(row: "WorkloadRow") -> str:
    """Return an array's numbers of indices, and its reason in a few words."""
    if row.array is not None and row.ended_s is not None:
        return row.array.sentence
    indices = "" if row.array is None else row.array.sentence
    return "; ".join(part for part in (indices, short_reason(row)) if part)


COLUMNS: "tuple[Column[WorkloadRow], ...]" = (
    Column("NAME", lambda row: row.name, least=16),
    Column("PROJECT", lambda row: row.project, least=8, drop=3),
    Column("USER", lambda row: row.user or "-", least=6, drop=4),
    Column("TYPE", lambda row: row.type, drop=8),
    Column("UID", lambda row: str(row.uid), right=True, drop=9, wide=True),
    Column("PRIORITY", lambda row: f"{row.priority:,}", right=True, drop=9, wide=True),
    Column("PREEMPTIBLE", lambda row: "yes" if row.preemptible else "no", drop=9, wide=True),
    Column("STATUS", lambda row: row.status, least=9, tone=tone_of),
    Column("GPUS", lambda row: number(row.devices), right=True),
    Column("PODS", lambda row: f"{row.pods_running}/{row.pods}", right=True, drop=7),
    Column("AGE", lambda row: since(row.submitted_s), right=True, drop=5),
    Column("RAN", time_of, right=True, drop=6),
    Column("ACTIVITY", lambda row: activity_word(row.activity), drop=9, wide=True),
    Column("RESTARTS", lambda row: number(row.restarts), right=True, drop=9, wide=True),
    Column("NODES", lambda row: ",".join(row.nodes), least=6, drop=9, wide=True),
    Column("WHY", _short_why, least=12, drop=2, sentence=True, tone=lambda _row: "quiet"),
)
_WIDE: "tuple[Column[WorkloadRow], ...]" = (
    *COLUMNS[:-1],
    Column("PROGRESS", lambda row: "-" if row.progress is None else progress_bar(row.progress), drop=9),
    Column("WHY", why_of, least=24, drop=2, sentence=True, tone=lambda _row: "quiet"),
)


def columns_of(output: Output) -> "tuple[Column[WorkloadRow], ...]":
    """Return the columns of an output; a wide one has progress, and reasons as sentences."""
    return _WIDE if output == "wide" else COLUMNS


def progress_bar(part: float) -> str:
    """Return the progress that a job reported as a bar with a percentage."""
    full = min(BAR_CELLS, int(BAR_CELLS * part))
    return f"{'█' * full}{'·' * (BAR_CELLS - full)} {percent(part)}"
