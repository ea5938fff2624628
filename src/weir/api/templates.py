"""Templates: submissions with parameters, kept for the people of a project."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from weir.api.workload_list import Answer, Page
from weir.scenario_io.specs import Entry

PARAMETERS_MAX = 64
VALUE_LENGTH_MAX = 32_768


def text_of_value(value: Any) -> Any:
    """Return a number, true or false as the text that replaces its placeholder; any other value unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Value = Annotated[str, Field(max_length=VALUE_LENGTH_MAX), BeforeValidator(text_of_value)]


class TemplateParameter(Entry):
    """A parameter of a template. One without a default needs a value at each use."""

    name: Annotated[str, Field(max_length=63)]
    default: Value | None = None
    meaning: Annotated[str, Field(max_length=200)] = ""


class TemplateAsked(Entry):
    """A submission with parameters: the value of a parameter replaces each `${{ NAME }}` in its texts."""

    parameters: list[TemplateParameter] = Field(default=[], max_length=PARAMETERS_MAX)
    workload: dict[str, Any]


class TemplateValues(Entry):
    """Values of the parameters of a template, by name; the others have their defaults."""

    values: dict[str, Value] = Field(default={}, max_length=PARAMETERS_MAX)


class ParameterRow(Answer):
    """A parameter of a template."""

    name: str
    default: str | None = None
    meaning: str = ""


class TemplateRow(Answer):
    """A template. Times are those of the wall clock."""

    name: str
    project: str
    user: str
    saved_s: float
    parameters: list[ParameterRow]
    workload: dict[str, Any]
    problem: str = ""  # cause why it can't be used


class TemplatePage(Page):
    """Page of the templates of a project."""

    items: list[TemplateRow]


class FilledTemplate(Answer):
    """The submission that a template gives with some values."""

    workload: dict[str, Any]
