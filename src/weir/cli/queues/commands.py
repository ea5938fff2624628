"""`weir project` and `weir department`: the quota tree."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from weir.cli.output.columns import Column, table
from weir.cli.output.formatting import amount, gpus_of, lasting, number
from weir.cli.output.outputs import Output, OutputOption, WatchOption, show, show_one
from weir.cli.pool.connect import connect
from weir.cli.pool.watch import changed, repaint_or_append
from weir.cli.queues.details import queue_lines
from weir.cli.queues.members import members_app
from weir.cli.queues.options import LimitOptions, QuotaOptions
from weir.cli.queues.quotas import Kind, put

if TYPE_CHECKING:
    from weir.api.answers import QueueRow
    from weir.client.api import Pool

Name = Annotated[str, Parameter(help="Name of the new project or department.")]
ProjectName = Annotated[str, Parameter(help="The project.")]
DepartmentName = Annotated[str, Parameter(help="The department.")]
ListOutput = Annotated[
    Output,
    Parameter(name=("--output", "-o"), help="table, wide (further resources), json or yaml."),
]
ListWatch = Annotated[WatchOption, Parameter(help="Go on, and show them again as they change.")]

project = App(name="project", help="Create, set, show and delete projects, which hold quotas.")
department = App(name="department", help="Create, set, show and delete departments, which hold projects.")

project.command(members_app("project"))
department.command(members_app("department"))


def _further(amounts: dict[str, float]) -> str:
    """Return the amounts of resources other than GPUs, in words."""
    return (
        ",".join(f"{name}={amount(name, value)}" for name, value in amounts.items() if name != "gpu") or "-"
    )


def _rules(row: "QueueRow") -> str:
    return (
        ",".join(f"{word}={lasting(value) if value else 'none'}" for word, value in row.times.items()) or "-"
    )


_NUMBERS: "tuple[Column[QueueRow], ...]" = (
    Column("QUOTA", lambda row: gpus_of(row.quota, "none"), right=True),
    Column("ALLOCATED", lambda row: gpus_of(row.allocated, "0"), right=True),
    Column("SHARE", lambda row: gpus_of(row.share, "0"), right=True, drop=3),
    Column("LIMIT", lambda row: gpus_of(row.limit, "none"), right=True, drop=5),
    Column("WEIGHT", lambda row: gpus_of(row.weight, "1"), right=True, drop=6),
    Column("PRIORITY", lambda row: number(row.priority), right=True, drop=7),
    Column("RUNNING", lambda row: number(row.running), right=True, drop=2),
    Column(
        "PENDING",
        lambda row: number(row.pending),
        right=True,
        drop=1,
        tone=lambda row: "busy" if row.pending else "plain",
    ),
    Column("TIME RULES", _rules, least=8, drop=9, wide=True),
    Column("FURTHER QUOTA", lambda row: _further(row.quota), least=8, drop=9, wide=True),
    Column("FURTHER ALLOCATED", lambda row: _further(row.allocated), least=8, drop=9, wide=True),
)
PROJECTS: "tuple[Column[QueueRow], ...]" = (
    Column("PROJECT", lambda row: row.name, least=10),
    Column("DEPARTMENT", lambda row: row.parent or "-", least=8, drop=4),
    *_NUMBERS,
)
DEPARTMENTS: "tuple[Column[QueueRow], ...]" = (
    Column("DEPARTMENT", lambda row: row.name, least=10),
    Column("IN", lambda row: row.parent or "-", least=4, drop=4),
    *_NUMBERS,
)


@project.command(name="create")
def create_project(
    name: Name,
    /,
    *,
    department: Annotated[str | None, Parameter(name=("--department", "-d"))] = None,
    quota: QuotaOptions = QuotaOptions(),
    limits: LimitOptions = LimitOptions(),
) -> int:
    """Create a project.

    Parameters
    ----------
    department
        Parent department.
    """
    return put("project", name, department, quota, limits, new=True)


@project.command(name="set")
def set_project(
    name: ProjectName,
    /,
    *,
    department: Annotated[str | None, Parameter(name=("--department", "-d"))] = None,
    quota: QuotaOptions = QuotaOptions(),
    limits: LimitOptions = LimitOptions(),
) -> int:
    """Change a project. Options that are left out change nothing.

    Parameters
    ----------
    department
        Parent department; an empty string for none.
    """
    return put("project", name, department, quota, limits, new=False)


@department.command(name="create")
def create_department(
    name: Name, /, *, parent: str | None = None, quota: QuotaOptions = QuotaOptions()
) -> int:
    """Create a department. Without --gpus its quota is the sum of its projects' quotas.

    Parameters
    ----------
    parent
        Parent department.
    """
    return put("department", name, parent, quota, new=True)


@department.command(name="set")
def set_department(
    name: DepartmentName, /, *, parent: str | None = None, quota: QuotaOptions = QuotaOptions()
) -> int:
    """Change a department. Options that are left out change nothing.

    Parameters
    ----------
    parent
        Parent department; an empty string for none.
    """
    return put("department", name, parent, quota, new=False)


@project.command(name="list")
def list_projects(*, watch: ListWatch = False, output: ListOutput = "table") -> int:
    """List projects with their quota, their allocation and their present fair share."""
    return _list(lambda pool: pool.projects(), PROJECTS, "project", output, watch=watch)


@department.command(name="list")
def list_departments(*, watch: ListWatch = False, output: ListOutput = "table") -> int:
    """List departments with their quota, their allocation and their present fair share."""
    return _list(lambda pool: pool.departments(), DEPARTMENTS, "department", output, watch=watch)


def _list(
    look: "Callable[[Pool], Sequence[QueueRow]]",
    columns: "Sequence[Column[QueueRow]]",
    kind: Kind,
    output: Output,
    *,
    watch: bool,
) -> int:
    with connect() as pool:
        if watch:
            return repaint_or_append(
                lambda display: table(look(pool), columns, display, wide=output == "wide"),
                changed(lambda: look(pool), lambda row: row.name),
                columns,
                output,
            )
        rows = look(pool)
    warnings = dict.fromkeys(warning for row in rows for warning in row.warnings)
    none = f"There is no {kind} yet: `weir {kind} create NAME --gpus 4` makes one."
    show(rows, columns, output, none=none, note="\n".join(warnings))
    return 0


@project.command(name="show")
def show_project(name: ProjectName, /, *, output: OutputOption = "table") -> int:
    """Show all settings of a project, its allocation and its present fair share."""
    return _show(lambda pool: pool.project(name), output)


@department.command(name="show")
def show_department(name: DepartmentName, /, *, output: OutputOption = "table") -> int:
    """Show all settings of a department, its allocation and its present fair share."""
    return _show(lambda pool: pool.department(name), output)


def _show(look: "Callable[[Pool], QueueRow]", output: Output) -> int:
    with connect() as pool:
        row = look(pool)
    show_one(row, output, lambda display: queue_lines(row, display))
    return 0


@project.command(name="delete")
def delete_project(name: ProjectName, /) -> int:
    """Delete a project. It must have no pending or running workloads."""
    with connect() as pool:
        deleted = pool.delete_project(name)
    print(f"Project {name} is deleted.")
    if deleted.tokens:
        whose = ", ".join(f"{row.id} ({row.user})" for row in deleted.tokens)
        print(f"These tokens are no longer valid for it: {whose}.")
    if deleted.secrets:
        print(f"Its secrets are deleted: {', '.join(deleted.secrets)}.")
    return 0


@department.command(name="delete")
def delete_department(name: DepartmentName, /) -> int:
    """Delete a department. It must be empty."""
    with connect() as pool:
        pool.delete_department(name)
    print(f"Department {name} is deleted.")
    return 0
