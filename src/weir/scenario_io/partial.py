"""The valid parts of a file, so that one mistake doesn't hide the next."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from weir.scenario_io.error_messages import add_errors
from weir.scenario_io.references import entries
from weir.scenario_io.source_map import Mistakes
from weir.scenario_io.specs import (
    DepartmentEntry,
    Entry,
    GroupEntry,
    NodeEntry,
    ProjectEntry,
    ScenarioEntry,
    WorkloadEntry,
)

Part = TypeVar("Part", bound=Entry)


@dataclass(slots=True)
class PartialScenario:
    """The valid parts of a file by position; `whole` is None if any is invalid."""

    whole: ScenarioEntry | None = None
    nodes: dict[int, NodeEntry] = field(default_factory=dict)
    departments: dict[int, DepartmentEntry] = field(default_factory=dict)
    projects: dict[int, ProjectEntry] = field(default_factory=dict)
    workloads: dict[int, WorkloadEntry] = field(default_factory=dict)
    groups: dict[tuple[int, int], GroupEntry] = field(default_factory=dict)


def read_partial(raw: Any, mistakes: Mistakes) -> PartialScenario:
    """Check a document against the format, and report all mistakes."""
    try:
        whole = ScenarioEntry.model_validate(raw)
    except ValidationError as error:
        add_errors(error, ScenarioEntry, mistakes)
        return _sound(raw)
    return PartialScenario(
        whole=whole,
        nodes=dict(enumerate(whole.cluster.nodes)),
        departments=dict(enumerate(whole.departments)),
        projects=dict(enumerate(whole.projects)),
        workloads=dict(enumerate(whole.workloads)),
        groups={
            (index, position): group
            for index, load in enumerate(whole.workloads)
            for position, group in enumerate(load.pods)
        },
    )


def _sound(raw: Any) -> PartialScenario:
    """Return the valid parts; the mistakes of the others are already reported."""
    parts = PartialScenario()
    for path, node in entries(raw, "cluster", "nodes"):
        _keep(parts.nodes, path[-1], NodeEntry, node)
    for path, department in entries(raw, "departments"):
        _keep(parts.departments, path[-1], DepartmentEntry, department)
    for path, project in entries(raw, "projects"):
        _keep(parts.projects, path[-1], ProjectEntry, project)
    for path, workload in entries(raw, "workloads"):
        _keep(parts.workloads, path[-1], WorkloadEntry, workload)
        for (_, position), group in entries(workload, "pods"):
            _keep(parts.groups, (path[-1], position), GroupEntry, group)
    return parts


def _keep(sound: dict[Any, Part], key: Any, shape: type[Part], raw: dict[str, Any]) -> None:
    try:
        sound[key] = shape.model_validate(raw)
    except ValidationError:
        return
