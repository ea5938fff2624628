"""`weir priorities`: the priority classes of the pool."""

from typing import TYPE_CHECKING

from weir.cli.output.columns import Column
from weir.cli.output.outputs import OutputOption, show
from weir.cli.pool.connect import connect

if TYPE_CHECKING:
    from weir.api.priorities import PriorityRow

COLUMNS: "tuple[Column[PriorityRow], ...]" = (
    Column("NAME", lambda row: row.name, least=8),
    Column("PRIORITY", lambda row: str(row.priority), right=True),
    Column("PREEMPTIBLE", lambda row: "yes" if row.preemptible else "no"),
)


def priorities(*, output: OutputOption = "table") -> int:
    """List the priority classes: names for numbers, accepted wherever a priority is written."""
    with connect() as pool:
        rows = list(pool.priorities())
    show(rows, list(COLUMNS), output, none="The pool has no priority classes.")
    return 0
