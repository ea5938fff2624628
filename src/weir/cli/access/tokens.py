"""`weir token`: access tokens of people."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from weir.cli.options.mistakes import WrongOption
from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Switch
from weir.cli.options.refusals import named
from weir.cli.output.columns import Column
from weir.cli.output.formatting import moment
from weir.cli.output.outputs import OutputOption, print_made, show
from weir.cli.output.terminal import plain
from weir.cli.pool.connect import connect

if TYPE_CHECKING:
    from weir.api.answers import TokenMade, TokenRow

MadeOutput = Annotated[
    Literal["token", "json", "yaml"],
    Parameter(name=("--output", "-o"), help="token (its text alone), json or yaml."),
]
app = App(name="token", help="Create, list, rotate and revoke tokens.")

COLUMNS: "tuple[Column[TokenRow], ...]" = (
    Column("ID", lambda row: str(row.id), right=True),
    Column("USER", lambda row: row.user, least=8),
    Column("ROLE", lambda row: row.role),
    Column(
        "PROJECTS",
        lambda row: ", ".join(row.projects) or ("all" if row.role == "admin" else "none"),
        least=10,
        drop=2,
    ),
    Column("LABEL", lambda row: row.label or "-", least=6, drop=4),
    Column("MADE", lambda row: moment(row.created_s), drop=3),
    Column("EXPIRES", lambda row: "never" if row.expires_s is None else moment(row.expires_s), drop=5),
    Column("USED", lambda row: "never" if row.used_s is None else moment(row.used_s), drop=6),
)


@app.command
def create(
    user: str | None = None,
    /,
    *,
    admin: Switch = False,
    role: Annotated[Literal["viewer", "member", "lead"], Parameter(name=("--role", "-r"))] = "member",
    project: Annotated[Sequence[str], Parameter(name=("--project", "-p"), negative=())] = (),
    label: str = "",
    expires: str | None = None,
    output: MadeOutput = "token",
) -> int:
    """Create a token for a person, and print it. It is never shown again.

    Parameters
    ----------
    user
        The person; yourself by default.
    admin
        Make the person an administrator, who may do everything in every project.
    role
        viewer (sees details), member (submits) or lead (manages all work) of the projects.
    project
        A project of the person. Repeat it for more projects.
    label
        Label, such as laptop, to distinguish several tokens of a person.
    expires
        Lifetime, such as 90d; unlimited by default.
    """
    if not admin and not project:
        raise WrongOption("no project is named: write -p PROJECT, or --admin for all of them")
    with connect() as pool, named(user="USER"):
        made = pool.make_token(
            user, role="admin" if admin else role, projects=project, label=label, expires=expires
        )
    return _print(made, output)


def _print(made: "TokenMade", output: str) -> int:
    """Print a token's text, and its rights on the error output."""
    if not print_made(made, output, f"token {made.id} of {plain(made.user)} exists", made.token):
        return 0
    projects = ", ".join(made.projects) or "no project"
    role = "administrator" if made.role == "admin" else f"{made.role} of {projects}"
    until = "" if made.expires_s is None else f" It expires {moment(made.expires_s)}."
    ends = f"It isn't shown again; `weir token revoke {made.id}` ends it."
    print(f"for {made.user}, {role}. {ends}{until}", file=sys.stderr)
    return 0


@app.command
def rotate(
    number: Annotated[int | None, whole_number(1)] = None,
    /,
    *,
    expires: str | None = None,
    output: MadeOutput = "token",
) -> int:
    """Replace the text of a token, and print it. The old text becomes invalid.

    Parameters
    ----------
    number
        Id of the token from `weir token list`; the token of this command by default.
    expires
        Lifetime of the new text, such as 90d; that of the old one by default.
    """
    with connect() as pool:
        made = pool.rotate_token(number, expires=expires)
    return _print(made, output)


@app.command(name="list")
def list_(*, output: OutputOption = "table") -> int:
    """List tokens, without their secrets."""
    with connect() as pool:
        rows = pool.tokens()
    show(rows, COLUMNS, output, none="There is no token besides this machine's own.")
    return 0


@app.command
def revoke(number: Annotated[int, whole_number(1)], /) -> int:
    """Revoke a token: it becomes invalid at once.

    Parameters
    ----------
    number
        Id of the token from `weir token list`.
    """
    with connect() as pool:
        pool.revoke_token(number)
    print(f"Token {number} is revoked.")
    return 0
