"""`weir project` and `weir department`: the quota tree."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from weir.cli.columns import Column, table
from weir.cli.outputs import OutputOption, WatchOption, show
from weir.cli.watching import append, changed, is_terminal, repaint
from weir.cli.words import amount, number

if TYPE_CHECKING:
    from weir.client.api import Pool
    from weir.model.pool import QueueRow

Kind = Literal["project", "department"]
Amounts = Annotated[Sequence[str], Parameter(negative=())]

project = App(name="project", help="Make, set, list and delete projects: who has which quota.")
department = App(name="department", help="Make, set, list and delete departments, which hold projects.")


def _gpus(amounts: dict[str, float], missing: str) -> str:
    return number(amounts["gpu"]) if "gpu" in amounts else missing


def _further(amounts: dict[str, float]) -> str:
    """Amounts of what isn't GPUs."""
    return (
        ",".join(f"{name}={amount(name, value)}" for name, value in amounts.items() if name != "gpu") or "-"
    )


_NUMBERS: "tuple[Column[QueueRow], ...]" = (
    Column("QUOTA", lambda row: _gpus(row.quota, "none"), right=True),
    Column("ALLOCATED", lambda row: _gpus(row.allocated, "0"), right=True),
    Column("SHARE", lambda row: _gpus(row.share, "0"), right=True, drop=3),
    Column("LIMIT", lambda row: _gpus(row.limit, "none"), right=True, drop=5),
    Column("WEIGHT", lambda row: _gpus(row.weight, "1"), right=True, drop=6),
    Column("PRIORITY", lambda row: number(row.priority), right=True, drop=7),
    Column("RUNNING", lambda row: number(row.running), right=True, drop=2),
    Column(
        "PENDING",
        lambda row: number(row.pending),
        right=True,
        drop=1,
        tone=lambda row: "busy" if row.pending else "plain",
    ),
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


def _words(
    gpus: str | None,
    quota: Sequence[str],
    limit: Sequence[str],
    weight: Sequence[str],
    priority: int | None,
) -> dict[str, Any]:
    """What was written, in the words of a scenario.

    Raises:
        ValueError: an amount isn't written as one.
    """
    words: dict[str, Any] = {}
    for key, written in (("quota", quota), ("limit", limit), ("weight", weight)):
        amounts = dict(_amount(f"--{key}", each) for each in written)
        if amounts:
            words[key] = amounts
    if gpus is not None:
        words["quota"] = {**words.get("quota", {}), "gpu": gpus}
    if priority is not None:
        words["priority"] = priority
    return words


def _amount(option: str, written: str) -> tuple[str, str]:
    """`gpu=4`; a bare `4` is of GPUs."""
    name, parted, value = written.partition("=")
    if not parted:
        name, value = "gpu", written
    if not name or not value:
        raise ValueError(f"{option} {written!r} is no amount: write one such as gpu=4 or memory=256Gi")
    return name, value


def _merged(row: "QueueRow", words: dict[str, Any]) -> dict[str, Any]:
    """What it says now, with what is said anew."""
    before: dict[str, Any] = {
        key: {name: int(value) if value == int(value) else value for name, value in amounts.items()}
        for key, amounts in (("quota", row.quota), ("limit", row.limit), ("weight", row.weight))
    }
    after: dict[str, Any] = {**before, "priority": row.priority}
    if row.parent is not None:
        after["department" if row.kind == "project" else "parent"] = row.parent
    for key, value in words.items():
        after[key] = {**after[key], **value} if isinstance(value, dict) else value
    return {key: value for key, value in after.items() if value not in ({}, "")}


def _put(kind: Kind, name: str, above: str | None, words: Callable[[], dict[str, Any]], *, new: bool) -> int:
    """Make one that isn't there, or set one that is."""
    from weir.client.api import Pool
    from weir.client.errors import Refused

    try:
        said = words()
    except ValueError as error:
        print(f"weir: {error}.", file=sys.stderr)
        return 2
    if above is not None:
        said["department" if kind == "project" else "parent"] = above
    with Pool() as pool:
        get, put = (
            (pool.project, pool.set_project) if kind == "project" else (pool.department, pool.set_department)
        )
        try:
            row = get(name)
        except Refused as refused:
            if refused.status != 404:
                raise
            if not new:
                print(
                    f"weir: There is no {kind} {name}: `weir {kind} create {name}` makes it.", file=sys.stderr
                )
                return 2
            done = put(name, **{key: value for key, value in said.items() if value != ""})
        else:
            if new:
                print(
                    f"weir: There is a {kind} {name} already: `weir {kind} set {name}` changes it.",
                    file=sys.stderr,
                )
                return 2
            done = put(name, **_merged(row, said))
    print(f"{kind.capitalize()} {name} {'is made' if new else 'is set'}: {_said(done)}.")
    return 0


def _said(row: "QueueRow") -> str:
    gpus = row.quota.get("gpu")
    quota = "no quota of GPUs" if gpus is None else f"{number(gpus)} GPU{'' if gpus == 1 else 's'} guaranteed"
    limit = f", at most {number(row.limit['gpu'])}" if "gpu" in row.limit else ""
    return f"{quota}{limit}" + (f", in {row.parent}" if row.parent else "")


@project.command(name="create")
def create_project(
    name: str,
    /,
    *,
    department: Annotated[str | None, Parameter(name=("--department", "-d"))] = None,
    gpus: str | None = None,
    quota: Amounts = (),
    limit: Amounts = (),
    weight: Amounts = (),
    priority: int | None = None,
) -> int:
    """Make a project.

    Parameters
    ----------
    name
        What it is called.
    department
        The department it is in.
    gpus
        How many GPUs it is guaranteed: the same as --quota gpu=N.
    quota
        What it is guaranteed of a resource, such as gpu=4 or memory=256Gi; may be given several times.
    limit
        What it can never pass, written likewise.
    weight
        Its claim on what others don't use, beside its siblings; 0 for none.
    priority
        Among siblings, who gets surplus first.
    """
    return _put("project", name, department, lambda: _words(gpus, quota, limit, weight, priority), new=True)


@project.command(name="set")
def set_project(
    name: str,
    /,
    *,
    department: Annotated[str | None, Parameter(name=("--department", "-d"))] = None,
    gpus: str | None = None,
    quota: Amounts = (),
    limit: Amounts = (),
    weight: Amounts = (),
    priority: int | None = None,
) -> int:
    """Change a project. What isn't named stays as it is.

    Parameters
    ----------
    name
        The project.
    department
        The department it is in; an empty word for none.
    gpus
        How many GPUs it is guaranteed: the same as --quota gpu=N.
    quota
        What it is guaranteed of a resource, such as gpu=4 or memory=256Gi; may be given several times.
    limit
        What it can never pass, written likewise; gpu=unlimited takes a limit away.
    weight
        Its claim on what others don't use, beside its siblings; 0 for none.
    priority
        Among siblings, who gets surplus first.
    """
    return _put("project", name, department, lambda: _words(gpus, quota, limit, weight, priority), new=False)


@department.command(name="create")
def create_department(
    name: str,
    /,
    *,
    parent: str | None = None,
    gpus: str | None = None,
    quota: Amounts = (),
    limit: Amounts = (),
    weight: Amounts = (),
    priority: int | None = None,
) -> int:
    """Make a department.

    Parameters
    ----------
    name
        What it is called.
    parent
        The department it is in.
    gpus
        How many GPUs it is guaranteed; without, as many as its projects are.
    quota
        What it is guaranteed of a resource, such as gpu=4 or memory=256Gi; may be given several times.
    limit
        What it can never pass, written likewise.
    weight
        Its claim on what others don't use, beside its siblings; 0 for none.
    priority
        Among siblings, who gets surplus first.
    """
    return _put("department", name, parent, lambda: _words(gpus, quota, limit, weight, priority), new=True)


@department.command(name="set")
def set_department(
    name: str,
    /,
    *,
    parent: str | None = None,
    gpus: str | None = None,
    quota: Amounts = (),
    limit: Amounts = (),
    weight: Amounts = (),
    priority: int | None = None,
) -> int:
    """Change a department. What isn't named stays as it is.

    Parameters
    ----------
    name
        The department.
    parent
        The department it is in; an empty word for none.
    gpus
        How many GPUs it is guaranteed.
    quota
        What it is guaranteed of a resource, such as gpu=4 or memory=256Gi; may be given several times.
    limit
        What it can never pass, written likewise; gpu=unlimited takes a limit away.
    weight
        Its claim on what others don't use, beside its siblings; 0 for none.
    priority
        Among siblings, who gets surplus first.
    """
    return _put("department", name, parent, lambda: _words(gpus, quota, limit, weight, priority), new=False)


@project.command(name="list")
def list_projects(*, watch: WatchOption = False, output: OutputOption = "table") -> int:
    """List projects: what each is guaranteed, holds, and may hold as things stand.

    Parameters
    ----------
    watch
        Go on, and show them again as they change.
    output
        table, wide (further resources), json or yaml.
    """
    return _list(lambda pool: pool.projects(), PROJECTS, "project", output, watch=watch)


@department.command(name="list")
def list_departments(*, watch: WatchOption = False, output: OutputOption = "table") -> int:
    """List departments: what each is guaranteed, holds, and may hold as things stand.

    Parameters
    ----------
    watch
        Go on, and show them again as they change.
    output
        table, wide (further resources), json or yaml.
    """
    return _list(lambda pool: pool.departments(), DEPARTMENTS, "department", output, watch=watch)


def _list(
    look: "Callable[[Pool], Sequence[QueueRow]]",
    columns: "Sequence[Column[QueueRow]]",
    kind: Kind,
    output: Any,
    *,
    watch: bool,
) -> int:
    from weir.client.api import Pool

    with Pool() as pool:
        if watch and is_terminal() and output in ("table", "wide"):
            return repaint(lambda here: table(look(pool), columns, here, wide=output == "wide"))
        if watch:
            return append(changed(lambda: look(pool), lambda row: row.name), columns, output)
        rows = look(pool)
    show(rows, columns, output, none=f"There is no {kind} yet: `weir {kind} create NAME --gpus 4` makes one.")
    return 0


@project.command(name="delete")
def delete_project(name: str, /) -> int:
    """Delete a project. It must have no workloads that wait or run.

    Parameters
    ----------
    name
        The project.
    """
    from weir.client.api import Pool

    with Pool() as pool:
        pool.delete_project(name)
    print(f"Project {name} is deleted.")
    return 0


@department.command(name="delete")
def delete_department(name: str, /) -> int:
    """Delete a department. It must be empty.

    Parameters
    ----------
    name
        The department.
    """
    from weir.client.api import Pool

    with Pool() as pool:
        pool.delete_department(name)
    print(f"Department {name} is deleted.")
    return 0
