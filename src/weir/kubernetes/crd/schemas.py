"""The shape of Weir's own objects: `Department`, `Project`, `Topology` and `Workload`.

The specs that people write are those of scenario files, in the case of Kubernetes (`maxRuntime`). The name
and the time of creation are in the object's metadata instead. Their statuses are stated here, the shape of a
`Workload` in `objects`. `definitions` makes the schemas of these; the readers below hold an object against
them once more, because not every object has been through today's schema.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError

from weir.scenario_io.error_messages import add_errors
from weir.scenario_io.source_map import Mistakes
from weir.scenario_io.specs import (
    DepartmentEntry,
    Entry,
    ProjectEntry,
    TopologyEntry,
)

GROUP, VERSION = "weir.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

QueuePhase = Literal["Ready", "Refused", "Leaving"]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in the form of the API, such as 2026-01-31T12:00:00Z."""
Namespace = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
OF_METADATA = ("name", "created")
"""Keys of scenario files that an object has in its `metadata` and not in its `spec`."""

Form = TypeVar("Form", bound=BaseModel)


# Queues


class ClusterProject(Entry):
    """Project with the fields that scenario files don't have."""

    namespaces: Annotated[list[Namespace], Field(max_length=1024)] = Field(default=[])


class QueueStatus(Entry):
    """Amounts of a department or a project, as people write them."""

    phase: QueuePhase
    message: str = ""  # problem of the object, or an effect of it
    # Quota in effect: a department without a gpu quota has its children's sum
    quota: dict[str, str] = Field(default={})
    demand: dict[str, str] = Field(default={})
    share: dict[str, str] = Field(default={})
    allocated: dict[str, str] = Field(default={})
    running: int = 0  # workloads
    pending: int = 0
    unschedulable: int = 0
    observed_generation: int = 0


class StatusCondition(Entry):
    """A condition of an object, as the field has them."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: Annotated[str, Field(max_length=32768)] = ""
    last_transition_time: Moment
    observed_generation: int = 0


class SchedulerConfigStatus(Entry):
    """State of the settings. `in_force` are the last valid ones, as JSON."""

    phase: QueuePhase
    message: Annotated[str, Field(max_length=32768)] = ""
    observed_generation: int = 0
    in_force: Annotated[str, Field(max_length=1 << 20)] = ""
    conditions: Annotated[list[StatusCondition], Field(max_length=8)] = Field(default=[])


class TopologyStatus(Entry):
    """State of a topology."""

    phase: QueuePhase
    message: str = ""
    observed_generation: int = 0


# Conversion of shapes


def camel(word: str) -> str:
    """Return a key of scenario files in the case of Kubernetes: `max_runtime` becomes `maxRuntime`."""
    head, *tail = word.split("_")
    return head + "".join(part.capitalize() for part in tail)


def plain(shape: BaseModel) -> dict[str, Any]:
    """Return a model as an object states it, without absent fields."""
    words = {camel(name): _plain(getattr(shape, name)) for name in type(shape).model_fields}
    return {word: value for word, value in words.items() if value is not None}


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one mapping to another: the differences, and null for removed keys."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = change(old, value)
            if inner:
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return plain(value)
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


class InvalidObject(ValueError):
    """An object can't be used; its text lists all mistakes with valid values."""


def department_of(name: str, spec: Mapping[str, Any], created_s: float) -> DepartmentEntry:
    """Return a Department as a scenario file states it; its creation is in seconds since the epoch.

    Raises:
        InvalidObject: it can't be used.
    """
    return _read(DepartmentEntry, spec, {"name": name, "created": created_s})


def project_of(name: str, spec: Mapping[str, Any], created_s: float) -> tuple[ProjectEntry, tuple[str, ...]]:
    """Return a Project as a scenario file states it, and the namespaces that may use it.

    Raises:
        InvalidObject: it can't be used.
    """
    rest = {key: value for key, value in spec.items() if key != "namespaces"}
    written = _read(ProjectEntry, rest, {"name": name, "created": created_s})
    beyond = _read(ClusterProject, {"namespaces": spec.get("namespaces") or []}, {})
    return written, tuple(beyond.namespaces)


def topology_of(name: str, spec: Mapping[str, Any]) -> TopologyEntry:
    """Return a Topology as a scenario file states it.

    Raises:
        InvalidObject: it can't be used.
    """
    return _read(TopologyEntry, spec, {"name": name})


def read_spec(form: type[Form], spec: Mapping[str, Any]) -> Form:
    """Return a spec in the form of it.

    Raises:
        InvalidObject: it can't be used.
    """
    return _read(form, spec, {})


def _read(form: type[Form], spec: Mapping[str, Any], given: Mapping[str, Any]) -> Form:
    written = {key: value for key, value in dict(snaked(form, spec)).items() if key not in given}
    fields = _FieldMistakes(form)
    for key in spec:
        if key in OF_METADATA and key in form.model_fields:
            fields.add((key,), f"unknown key {key}; leave it out, because the object's metadata has it")
    try:
        parsed = form.model_validate({**written, **given})
    except ValidationError as error:
        add_errors(error, form, fields)
        parsed = None
    if fields.texts:
        raise InvalidObject("; ".join(fields.texts))
    assert parsed is not None
    return parsed


class _FieldMistakes(Mistakes):
    """Mistakes of an object, with its keys in camel case."""

    def __init__(self, form: type[BaseModel]) -> None:
        super().__init__("")
        self.texts: dict[str, None] = {}
        self._words = {name: camel(name) for name in _names(form) if camel(name) != name}

    def add(self, path: Any, text: str) -> None:  # noqa: ARG002 - an object has no lines
        """Add a mistake."""
        for word, called in self._words.items():
            text = text.replace(word, called)
        self.texts.setdefault(text)


def _names(form: type[BaseModel]) -> Iterator[str]:
    for name, field in form.model_fields.items():
        yield name
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from _names(inner)


def snaked(form: type[BaseModel], spec: Any) -> Any:
    """Return an object's spec with the keys of scenario files; unknown keys stay as they are.

    Only where a model names the keys: those of a mapping such as a quota are names people chose.
    """
    if isinstance(spec, list):
        return [snaked(form, part) for part in spec]
    if not isinstance(spec, Mapping):
        return spec
    names = {camel(name): name for name in form.model_fields}
    renamed = {}
    for key, value in spec.items():
        name = names.get(key, key)
        inner = _model_in(form.model_fields[name].annotation) if name in form.model_fields else None
        if value is not None:
            renamed[name] = value if inner is None else snaked(inner, value)
    return renamed


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model of an annotation, if its value is a model or a list of one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if getattr(annotation, "__origin__", None) is dict:
        return None
    return next(
        (model for argument in get_args(annotation) if (model := _model_in(argument)) is not None), None
    )
