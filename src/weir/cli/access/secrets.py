"""`weir secret`: values for workloads. Nothing shows them again."""

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from weir.cli.access.secret_input import read_secret
from weir.cli.options.mistakes import option_mistakes
from weir.cli.options.refusals import named
from weir.cli.output.columns import Column
from weir.cli.output.formatting import moment
from weir.cli.output.outputs import OutputOption, OwnerOption, show
from weir.cli.pool.connect import connect, refuse_on_cluster
from weir.cli.pool.default_project import default_project

if TYPE_CHECKING:
    from weir.api.answers import SecretRow

app = App(name="secret", help="Set, list and delete secrets of a project, for `weir submit --secret`.")

COLUMNS: "tuple[Column[SecretRow], ...]" = (
    Column("NAME", lambda row: row.name, least=8),
    Column("SET BY", lambda row: row.user or "-", least=6),
    Column("SET", lambda row: "-" if row.set_s is None else moment(row.set_s), drop=2),
)


@app.command(name="set")
def set_(name: str, /, *, project: OwnerOption = None, file: Path | None = None) -> int:
    """Set a secret. Its value is read from the input or from a file, and never shown.

    Workloads that name it get the value when they start; running ones keep the old value.

    Parameters
    ----------
    name
        Name of the secret, such as WANDB_API_KEY.
    file
        File with the value; by default it is typed without echo, or read from the input. A last newline is
        removed.
    """
    refuse_on_cluster("projects", project or "", "secrets", name)
    with connect() as pool, named(name="NAME"):
        chosen = default_project(pool, project, is_shown=True)
        with option_mistakes():
            value = read_secret(f"value of {name}", file)
        pool.set_secret(chosen, name, value)
    print(f"Secret {name} of project {chosen} is set.")
    return 0


@app.command(name="list")
def list_(*, project: OwnerOption = None, output: OutputOption = "table") -> int:
    """List the secrets of a project, without their values."""
    with connect() as pool:
        chosen = default_project(pool, project)
        rows = pool.secrets(chosen)
    show(rows, COLUMNS, output, none=f"Project {chosen} has no secrets.")
    return 0


@app.command
def delete(name: str, /, *, project: OwnerOption = None) -> int:
    """Delete a secret. Pending workloads that name it are suspended until it is set again.

    Parameters
    ----------
    name
        The secret.
    """
    with connect() as pool:
        chosen = default_project(pool, project, is_shown=True)
        pool.delete_secret(chosen, name)
    print(f"Secret {name} of project {chosen} is deleted.")
    return 0
