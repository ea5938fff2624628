"""Rules of templates: their parameters, their placeholders, and the values at a use."""

from collections.abc import Mapping, Sequence
from typing import Any

from weir.api.field_errors import FieldErrorList, field_name
from weir.api.placeholders import NAME, placeholders
from weir.api.templates import ParameterRow, TemplateParameter
from weir.scenario_io.error_messages import suggest


def check_template(
    project: str, workload: Mapping[str, Any], parameters: Sequence[TemplateParameter], fields: FieldErrorList
) -> None:
    """Add the mistakes in the parameters of a template and its placeholders."""
    if workload["project"] != project:
        fields.add(
            ("workload", "project"), f"workload.project: is another one; write {project}, or leave it out"
        )
    if "workloads" in workload:
        fields.add(("workload",), "workloads: a template has one workload; write its fields at the top")
    unused = _check_parameters(parameters, fields)
    names = tuple(unused)
    for path, name in placeholders(workload):
        where = field_name(("workload", *path))
        if name in names:
            unused.pop(name, None)
        elif NAME.fullmatch(name) is None:
            text = f"{where}: {name!r} is no parameter; write ${{{{ NAME }}}}, in a value and not in a key"
            fields.add(("workload", *path), text)
        else:
            has = suggest(name, names, fields) if names else "list it under parameters"
            fields.add(("workload", *path), f"{where}: there is no parameter {name}; {has}")
        if path == ("run",):
            right = f"write NAME: ${{{{ {name} }}}} under env, and $NAME in the script"
            fields.add(
                ("workload", "run"), f"workload.run: a value could change the meaning of the script; {right}"
            )
    for name, position in unused.items():
        text = f"{name}: is never used; write ${{{{ {name} }}}} somewhere, or leave it out"
        fields.add(("parameters", position), text)


def _check_parameters(parameters: Sequence[TemplateParameter], fields: FieldErrorList) -> dict[str, int]:
    """Check the names and meanings of parameters; return the names with their positions."""
    positions: dict[str, int] = {}
    for position, parameter in enumerate(parameters):
        if NAME.fullmatch(parameter.name) is None:
            text = f"name: {parameter.name[:80]!r} can't be one; write letters, digits and _, no digit first"
            fields.add(("parameters", position, "name"), text)
        elif parameter.name in positions:
            fields.add(("parameters", position, "name"), f"name: {parameter.name} is there twice; keep one")
        if not parameter.meaning.isprintable():
            fields.add(("parameters", position, "meaning"), "meaning: is more than one line; write one")
        positions.setdefault(parameter.name, position)
    return positions


def defaults_of(parameters: Sequence[TemplateParameter | ParameterRow]) -> tuple[dict[str, str], list[str]]:
    """Return the defaults of parameters, and the names of parameters without a default."""
    defaults = {
        parameter.name: parameter.default for parameter in parameters if parameter.default is not None
    }
    return defaults, [parameter.name for parameter in parameters if parameter.default is None]


def values_of(
    parameters: Sequence[TemplateParameter | ParameterRow],
    values: Mapping[str, str],
    fields: FieldErrorList,
) -> dict[str, str]:
    """Return the values of all parameters; add those that are unknown or missing to the errors."""
    defaults, required = defaults_of(parameters)
    names = [parameter.name for parameter in parameters]
    for key in values:
        if key not in names:
            has = suggest(key, names, fields) if names else "it has none"
            fields.add(("values", key), f"values.{key[:80]}: the template has no such parameter; {has}")
    for name in required:
        if name not in values:
            fields.add(("values", name), f"values.{name}: has no default; write a value")
    return {**defaults, **values}
