"""What of a file could be read, part by part, so that one mistake doesn't hide the next."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from weir.scenario_io.complaints import complain
from weir.scenario_io.lines import Mistakes
from weir.scenario_io.names import entries
from weir.scenario_io.written import (
    Shape,
    WrittenDepartment,
    WrittenGroup,
    WrittenNode,
    WrittenProject,
    WrittenScenario,
    WrittenWorkload,
)

Part = TypeVar("Part", bound=Shape)


@dataclass(slots=True)
class Parts:
    """The sound parts of a file by their position; `whole` is None if any is broken."""

    whole: WrittenScenario | None = None
    nodes: dict[int, WrittenNode] = field(default_factory=dict)
    departments: dict[int, WrittenDepartment] = field(default_factory=dict)
    projects: dict[int, WrittenProject] = field(default_factory=dict)
    workloads: dict[int, WrittenWorkload] = field(default_factory=dict)
    groups: dict[tuple[int, int], WrittenGroup] = field(default_factory=dict)


def read_parts(raw: Any, mistakes: Mistakes) -> Parts:
    """Hold a document against the shape of the format, and tell whatever doesn't fit."""
    try:
        whole = WrittenScenario.model_validate(raw)
    except ValidationError as error:
        complain(error, WrittenScenario, (), mistakes)
        return _sound(raw)
    return Parts(
        whole=whole,
        nodes=dict(enumerate(whole.cluster.nodes)),
        departments=dict(enumerate(whole.departments)),
        projects=dict(enumerate(whole.projects)),
        workloads=dict(enumerate(whole.workloads)),
        groups={
            (at, position): group
            for at, load in enumerate(whole.workloads)
            for position, group in enumerate(load.pods)
        },
    )


def _sound(raw: Any) -> Parts:
    """The parts that are right by themselves; what is wrong with the others has been told."""
    parts = Parts()
    for path, node in entries(raw, "cluster", "nodes"):
        _keep(parts.nodes, path[-1], WrittenNode, node)
    for path, department in entries(raw, "departments"):
        _keep(parts.departments, path[-1], WrittenDepartment, department)
    for path, project in entries(raw, "projects"):
        _keep(parts.projects, path[-1], WrittenProject, project)
    for path, workload in entries(raw, "workloads"):
        _keep(parts.workloads, path[-1], WrittenWorkload, workload)
        for (_, position), group in entries(workload, "pods"):
            _keep(parts.groups, (path[-1], position), WrittenGroup, group)
    return parts


def _keep(sound: dict[Any, Part], key: Any, shape: type[Part], raw: dict[str, Any]) -> None:
    try:
        sound[key] = shape.model_validate(raw)
    except ValidationError:
        return
