"""`weir template`: submissions with parameters, kept for the people of a project."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from weir.cli.options.mistakes import option_mistakes
from weir.cli.output.columns import Column
from weir.cli.output.formatting import moment, sentence
from weir.cli.output.outputs import (
    NamespaceOption,
    OutputOption,
    OwnerOption,
    print_plain,
    show,
)
from weir.cli.pool.connect import connect
from weir.cli.pool.default_project import default_project
from weir.cli.submissions.submit_options import TemplateOptions

if TYPE_CHECKING:
    from weir.api.templates import TemplateRow

app = App(name="template", help="Keep submissions with parameters, for `weir submit --template`.")
TemplateName = Annotated[str, Parameter(help="The template.")]


@app.command
def save(
    name: str,
    /,
    *,
    file: Annotated[Path, Parameter(name=("--file", "-f"), allow_leading_hyphen=True)],
    project: OwnerOption = None,
    namespace: NamespaceOption = None,
) -> int:
    """Save a template of a project, or change it. Only its leads and administrators may do so.

    Parameters
    ----------
    name
        Name of the template.
    file
        Submission as YAML or JSON, - for the standard input. In its texts, the parameter lr replaces ${{ lr
        }}. The list parameters: has the name, default and meaning of each.
    """
    with option_mistakes():
        workload, parameters = _read(file)
    with connect(namespace=namespace) as pool:
        chosen = default_project(pool, project, is_shown=True)
        row = pool.save_template(chosen, name, workload, parameters)
    print(f"Template {row.name} of project {row.project} is saved.")
    return 0


@app.command(name="list")
def list_(
    *, project: OwnerOption = None, namespace: NamespaceOption = None, output: OutputOption = "table"
) -> int:
    """List the templates of a project."""
    with connect(namespace=namespace) as pool:
        chosen = default_project(pool, project)
        rows = pool.templates(chosen)
    show(rows, _COLUMNS, output, none=f"Project {chosen} has no templates; `weir template save` makes one.")
    return 0


@app.command(name="show")
def show_(
    name: TemplateName,
    /,
    *,
    project: OwnerOption = None,
    namespace: NamespaceOption = None,
    output: Annotated[Literal["yaml", "json"], Parameter(name=("--output", "-o"))] = "yaml",
) -> int:
    """Print a template as `weir template save` reads it.

    Parameters
    ----------
    output
        yaml or json.
    """
    with connect(namespace=namespace) as pool:
        chosen = default_project(pool, project)
        row = pool.template(chosen, name)
    parameters = [parameter.model_dump(exclude_defaults=True) for parameter in row.parameters]
    print_plain({"parameters": parameters, **row.workload}, output)
    return 0


@app.command
def delete(name: TemplateName, /, *, project: OwnerOption = None, namespace: NamespaceOption = None) -> int:
    """Delete a template of a project; its workloads stay. Only its leads and administrators may do so."""
    with connect(namespace=namespace) as pool:
        chosen = default_project(pool, project, is_shown=True)
        pool.delete_template(chosen, name)
    print(f"Template {name} of project {chosen} is deleted.")
    return 0


def filled_template(
    options: TemplateOptions, project: str | None, namespace: str | None = None
) -> dict[str, Any]:
    """Return the submission of a template with the values of --set; an empty one if no template is named.

    `namespace` is for clusters.

    Raises:
        ValueError: no project or no template is named, or a value can't be read.
        Refused: there is no such template, or a value is unknown or missing.
    """
    if options.template is None:
        if options.set_:
            raise ValueError("--set: there is no template to set it in; write --template NAME")
        return {}
    values = _values(options.set_)
    with connect(namespace=namespace) as pool:
        chosen = default_project(pool, project)
        return {"project": chosen, **pool.fill_template(chosen, options.template, values).workload}


def _values(settings: Sequence[str]) -> dict[str, str]:
    """Return the values of --set by parameter.

    Raises:
        ValueError: one has another form, or a parameter has two.
    """
    values: dict[str, str] = {}
    for setting in settings:
        name, parted, value = setting.partition("=")
        if not parted or not name:
            raise ValueError(f"--set {setting}: has no name and value; write NAME=VALUE, such as lr=0.1")
        if name in values:
            raise ValueError(f"--set {name}: gets two values; write one")
        values[name] = value
    return values


def _read(file: Path) -> tuple[dict[str, Any], Any]:
    """Return the submission of a file, and its parameters.

    Raises:
        scenario.InvalidFile: the file can't be read, or is no mapping.
    """
    from weir.cli.submissions.job_script import is_script
    from weir.scenario_io.document import input_name, input_text, read_document
    from weir.scenario_io.source_map import Mistakes

    mistakes = Mistakes(input_name(file))
    text = input_text(file, mistakes)
    if is_script(text):
        mistakes.on(1, "is a job script; write the submission as YAML, with the script under run")
        mistakes.refuse_if_any()
    body = read_document(text, mistakes)
    if not isinstance(body, dict):
        mistakes.on(1, "is no mapping; write keys and values such as command: python train.py")
    mistakes.refuse_if_any()
    parameters = body.get("parameters", [])
    if not isinstance(parameters, list) or not all(isinstance(parameter, dict) for parameter in parameters):
        mistakes.add(
            ("parameters",), "parameters: is no list of mappings; write - name: lr on a line below it"
        )
    mistakes.refuse_if_any()
    return {key: value for key, value in body.items() if key != "parameters"}, parameters


def _parameters(row: "TemplateRow") -> str:
    return " ".join(
        parameter.name if parameter.default is None else f"{parameter.name}={parameter.default}"
        for parameter in row.parameters
    )


_COLUMNS: "tuple[Column[TemplateRow], ...]" = (
    Column("NAME", lambda row: row.name, least=10),
    Column("PARAMETERS", _parameters, least=16),
    Column("SAVED BY", lambda row: row.user, least=6, drop=3),
    Column("SAVED", lambda row: moment(row.saved_s), drop=2),
    Column("", lambda row: sentence(row.problem), least=24, wraps=True, sentence=True),
)
