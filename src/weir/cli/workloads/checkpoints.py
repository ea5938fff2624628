"""`weir checkpoints`: saved states of workloads, with their directories."""

from typing import TYPE_CHECKING

from weir.cli.output.columns import Column
from weir.cli.output.formatting import number, since, size
from weir.cli.output.outputs import OutputOption, ProjectOption, show
from weir.cli.pool.connect import connect
from weir.cli.workloads.list_filter import check_projects, chosen

if TYPE_CHECKING:
    from weir.api.answers import CheckpointRow

COLUMNS: "tuple[Column[CheckpointRow], ...]" = (
    Column("UID", lambda row: str(row.uid), right=True),
    Column("NAME", lambda row: row.name or "-", least=12),
    Column("PROJECT", lambda row: row.project or "-", least=8, drop=5),
    Column("USER", lambda row: row.user or "-", least=6, drop=7),
    Column("STATUS", lambda row: row.status or "forgotten", drop=6),
    Column("SIZE", lambda row: f"{'' if row.whole else '>'}{size(row.bytes)}", right=True),
    Column("FILES", lambda row: number(row.files), right=True, drop=8),
    Column("SAVED", lambda row: since(row.saved_s), right=True, drop=4),
    Column("PATH", lambda row: row.path),
)


def checkpoints(*, project: ProjectOption = None, output: OutputOption = "table") -> int:
    """List the directories in which workloads saved their state, newest workload first.

    Weir deletes none of them by itself. Remove what isn't needed any more with rm -r; for all trials of a
    sweep, `weir sweep delete NAME --checkpoints` does so.

    Parameters
    ----------
    project
        Only those of this project, or of several between commas.
    """
    with connect() as pool:
        rows = [row for row in pool.checkpoints() if chosen(project, row.project)]
        check_projects(pool, project, {row.project for row in rows})
    show(rows, COLUMNS, output, none="No workload saved anything.")
    return 0
