"""`weir project members` and `weir department members`: roles of users and Unix groups."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from weir.cli.output.columns import Column
from weir.cli.output.outputs import DocumentedOutput, show
from weir.cli.pool.connect import connect

if TYPE_CHECKING:
    from weir.api.answers import MemberRow

Kind = Literal["project", "department"]
QueueName = Annotated[str, Parameter(help="The project or department.")]
Kinds = Literal["projects", "departments"]
RoleOption = Annotated[Literal["viewer", "member", "lead"], Parameter(name=("--role", "-r"))]
COLUMNS: "tuple[Column[MemberRow], ...]" = (
    Column("MEMBER", lambda row: row.member, least=12),
    Column("ROLE", lambda row: row.role),
    Column("GIVEN IN", lambda row: row.scope, least=10),
)


def members_app(kind: Kind) -> App:
    """Return the command that lists and changes the members of a kind of queue."""
    app = App(name="members", help=f"List, add and remove the members of a {kind}.")
    kinds: Kinds = "projects" if kind == "project" else "departments"
    app.default(_list_command(kind, kinds))
    app.command(_add_command(kinds), name="add")
    app.command(_remove_command(kinds), name="remove")
    return app


def _list_command(kind: Kind, kinds: Kinds) -> Callable[..., int]:
    def list_members(name: QueueName, /, *, output: DocumentedOutput = "table") -> int:
        """List members, with those of the departments above.

        Parameters
        ----------
        output
            table, wide, json or yaml.
        """
        with connect() as pool:
            page = pool.members_page(name, kind=kinds)
        how = page.note or f"`weir {kind} members add {name} USER` adds one."
        joint = "." if page.note else ":"
        show(page.items, COLUMNS, output, none=f"{name} has no members yet{joint} {how}")
        return 0

    return list_members


def _add_command(kinds: Kinds) -> Callable[..., int]:
    def add(name: QueueName, member: str, /, *, role: RoleOption = "member") -> int:
        """Give a user, a Unix group or everyone a role; it replaces the one they had here.

        Parameters
        ----------
        member
            A user, such as mia; a Unix group, such as @vision; or @everyone.
        role
            viewer (sees details), member (submits) or lead (manages members and all work). The role
            holds for everything below a department.
        """
        with connect() as pool:
            row = pool.set_member(name, member, role=role, kind=kinds)
        print(f"{row.member} is a {row.role} of {row.scope}.")
        return 0

    return add


def _remove_command(kinds: Kinds) -> Callable[..., int]:
    def remove(name: QueueName, member: str, /) -> int:
        """Take a role away. Work that was submitted goes on.

        Parameters
        ----------
        member
            A user, a Unix group such as @vision, or @everyone.
        """
        with connect() as pool:
            pool.remove_member(name, member, kind=kinds)
        print(f"{member} is no member of {name} any more.")
        return 0

    return remove
