"""`weir audit`: changes, refused requests, and reads of confidential data."""

from typing import TYPE_CHECKING, Annotated, Literal

from weir.cli.options.numbers import whole_number
from weir.cli.output.columns import Column
from weir.cli.output.outputs import DocumentedOutput, show
from weir.cli.pool.connect import connect

if TYPE_CHECKING:
    from weir.api.answers import AuditRow


def request_of(row: "AuditRow") -> str:
    """Return the request as text, or the action of the server itself."""
    return f"{row.method} {row.path}" if row.method else str(row.details.get("act", "-"))


COLUMNS: "tuple[Column[AuditRow], ...]" = (
    Column("TIME (UTC)", lambda row: row.at[:19].replace("T", " ")),
    Column("USER", lambda row: row.user or "-", least=6),
    Column("TOKEN", lambda row: row.label or ("-" if row.token is None else str(row.token)), drop=4),
    Column("FROM", lambda row: row.source, drop=3),
    Column("OUTCOME", lambda row: row.outcome),
    Column("STATUS", lambda row: "-" if row.status is None else str(row.status), right=True, drop=5),
    Column("REQUEST", request_of, least=16, sentence=True),
)


def audit(
    *,
    user: str | None = None,
    outcome: Literal["allowed", "refused", "failed"] | None = None,
    path: str | None = None,
    limit: Annotated[int, whole_number(1, 1000)] = 50,
    output: DocumentedOutput = "table",
) -> int:
    """Show changes and refused requests, newest first; for administrators.

    Parameters
    ----------
    user
        Only requests of this person.
    outcome
        Only requests that were allowed, refused (unknown person, or no right), or failed otherwise.
    path
        Only requests with this text in their path, such as tokens.
    limit
        Maximum number of requests.
    output
        table, wide, json (with the details of each) or yaml.
    """
    with connect() as pool:
        rows = pool.audit(limit=limit, user=user, outcome=outcome, path=path)
    show(rows, COLUMNS, output, none="The audit log has no such request.")
    return 0
