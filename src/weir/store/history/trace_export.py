"""Export of the pool's own history as a trace that `weir simulate` replays."""

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Row, select

from weir.model.workloads import WHOLE_MILLI, Workload
from weir.store.database.codec import WORKLOAD
from weir.store.database.database import Database
from weir.store.tables import LIVE, submissions, workloads

JOBS_MAX: Final = 100_000
"""Jobs of one trace, the newest ones."""
SAVES_EVERY_S: Final = 3600
"""Assumed distance of the checkpoints of a workload that has saved one: the pool keeps only the last."""
COLUMNS = (
    *(
        "name",
        "project",
        "submitted",
        "duration",
        "type",
        "pods",
        "min_pods",
        "gpus",
        "gpu_memory",
        "devices",
    ),
    *("gpu_models", "cpu", "memory", "priority", "preemptible", "max_runtime", "checkpoint_interval", "user"),
)
_C = workloads.c
_QUERY = select(
    *(_C[name] for name in ("uid", "project", "user", "submitted_s", "ran_s", "saved_s", "ended_s")),
    submissions.c.spec,
).join(submissions, submissions.c.uid == _C.uid)


def export_trace(
    database: Database,
    since_s: float,
    until_s: float,
    *,
    projects: Mapping[str, float],
    models: Collection[str],
) -> str:
    """Return the workloads that were submitted in a period, and are over, as CSV.

    `projects`: those to export, each from the moment on at which it was made. `models`: GPU models of the
    pool; requests for others lose that wish. Times count from the first submission.
    """
    query = (
        _QUERY.where(_C.state != LIVE, _C.submitted_s >= since_s, _C.submitted_s < until_s, _C.ran_s > 0)
        .where(_C.project.in_(list(projects)))
        .order_by(_C.uid.desc())
        .limit(JOBS_MAX)
    )
    rows = database.rows(query)
    exported = [row for row in reversed(rows) if row.submitted_s >= projects[row.project]]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    start_s = min((row.submitted_s for row in exported), default=0.0)
    writer.writerows(_line(row, start_s, models) for row in exported)
    return text.getvalue()


def _line(row: Row[Any], start_s: float, models: Collection[str]) -> Iterable[object]:
    workload = WORKLOAD.validate_json(row.spec)
    request = workload.groups[0].request
    shared = request.is_shared
    by_memory = request.gpu_memory > 0
    gpus: object = "" if by_memory else request.share_milli / WHOLE_MILLI if shared else request.devices
    listed = [model for model in request.gpu_models if model in models]
    return (
        f"{row.uid}",
        row.project,
        round(row.submitted_s - start_s, 1),
        round(row.ran_s, 1),
        workload.type.value,
        workload.pods,
        min(workload.min_pods, workload.pods),
        gpus,
        request.gpu_memory or "",
        request.devices if shared and request.devices > 1 else "",
        "|".join(listed),
        f"{_cpu(workload)}m",
        request.memory or 0,
        workload.priority,
        "true" if workload.preemptible else "false",
        "" if workload.max_runtime_s is None else workload.max_runtime_s,
        "" if row.saved_s is None else SAVES_EVERY_S,
        row.user,
    )


def _cpu(workload: Workload) -> int:
    return workload.groups[0].request.cpu_milli
