"""The indices of an array: `weir list NAME --indices`."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from weir.cli.options.mistakes import WrongOption
from weir.cli.output.columns import Column
from weir.cli.output.formatting import lasting, number, sentence, since
from weir.cli.output.outputs import Output, show
from weir.cli.output.terminal import plain
from weir.cli.pool.connect import connect
from weir.cli.workloads.list_columns import tone_of

if TYPE_CHECKING:
    from weir.api.workload_list import ArrayIndexRow


def list_indices(
    name: str | None, status: Sequence[str], limit: int, output: Output, *, indices: bool
) -> int:
    """List the indices of an array."""
    if name is None or not indices:
        right = "weir list NAME --indices for an array, weir describe NAME for any workload"
        raise WrongOption(f"a name and --indices belong together; write {right}")
    with connect() as pool:
        matching = (row for row in pool.indices(name) if not status or row.status in status)
        rows = list(islice(matching, limit) if limit else matching)
    note = f"The first {limit:,}: --limit 0 shows all." if limit and len(rows) == limit else ""
    none = (
        f"No index of {plain(name)} has the status {' or '.join(status)}." if status else "It has no indices."
    )
    show(rows, _COLUMNS, output, none=none, note=note)
    return 0


def _why(row: "ArrayIndexRow") -> str:
    quiet = row.reason is None or row.status == "succeeded"
    return "" if quiet or row.reason is None else sentence(row.reason.sentence, row.name)


_COLUMNS: "tuple[Column[ArrayIndexRow], ...]" = (
    Column("INDEX", lambda row: str(row.index), right=True),
    Column("STATUS", lambda row: row.status, least=9, tone=tone_of),
    Column("UID", lambda row: "-" if row.uid is None else str(row.uid), right=True, drop=4),
    Column("STARTED", lambda row: since(row.first_started_s), right=True, drop=3),
    Column("RAN", lambda row: lasting(row.ran_s) if row.ran_s else "-", right=True, drop=5),
    Column("EXIT", lambda row: "-" if row.exit_code is None else str(row.exit_code), right=True, drop=6),
    Column("RESTARTS", lambda row: number(row.restarts), right=True, drop=7),
    Column("WHY", _why, least=24, drop=2, sentence=True),
)
