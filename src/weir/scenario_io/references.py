"""Names of a file: each must be unique, and each reference must name something.

The checks use the values as they were written, so that a mistake elsewhere in an entry hides none here. If a
name can't be read, references that may mean it aren't reported.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from weir.model.resources import CPU, GPU, GPU_MODEL_PREFIX, MEMORY, PODS
from weir.scenario_io.error_messages import nearest
from weir.scenario_io.source_map import Mistakes, Path, Step

NODES_MAX = 100_000
"""Largest number of nodes in a scenario, with ranges expanded."""

_RANGE = re.compile(r"\[([0-9]{1,9})-([0-9]{1,9})\]", re.ASCII)
_OWN_RESOURCES = (GPU, CPU, MEMORY, PODS)


@dataclass(slots=True)
class NameIndex:
    """The names of one kind with their paths, and if all could be read."""

    noun: str
    paths: dict[str, Path] = field(default_factory=dict)
    complete: bool = True

    def add(self, name: str, path: Path, mistakes: Mistakes) -> None:
        """Add a name; report it if it exists."""
        if name in self.paths:
            first = mistakes.line(self.paths[name])
            mistakes.add(path, f"{self.noun} {name} is there already, on line {first}; write another name")
        else:
            self.paths[name] = path

    def look_up(self, name: str | None, path: Path, mistakes: Mistakes) -> None:
        """Check a reference to a name."""
        if name is None or name in self.paths or not self.complete:
            return
        mistakes.add(path, f"there is no {self.noun} {name}; {nearest(name, self.paths)}")


def entries(raw: Any, *path: Step) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the mappings of a list with their paths."""
    for step in path:
        raw = raw.get(step) if isinstance(raw, dict) else None
    for index, entry in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(entry, dict):
            yield (*path, index), entry


def word(entry: Any, key: str) -> str | None:
    """Return a text of a mapping; None if there is none."""
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, str) and value else None


def words(entry: Any, key: str) -> list[tuple[int, str]]:
    """Return the texts of a list in a mapping with their positions."""
    value = entry.get(key) if isinstance(entry, dict) else None
    return (
        [(index, text) for index, text in enumerate(value) if isinstance(text, str)]
        if isinstance(value, list)
        else []
    )


def check_names(raw: Any, mistakes: Mistakes) -> None:
    """Report all duplicate names and all unknown ones."""
    nodes, topologies = _nodes(raw, mistakes), _named(raw, "topology", ("cluster", "topologies"), mistakes)
    queues = _queues(raw, mistakes)
    workloads = _named(raw, "workload", ("workloads",), mistakes)
    for path, topology in entries(raw, "cluster", "topologies"):
        levels = NameIndex("level")
        for index, level in words(topology, "levels"):
            levels.add(level, (*path, "levels", index), mistakes)
    levels_of = {
        name: {level for _, level in words(entry, "levels")}
        for _, entry in entries(raw, "cluster", "topologies")
        if (name := word(entry, "name")) is not None
    }
    budgets = _named(raw, "budget", ("budgets",), mistakes)
    for path, workload in entries(raw, "workloads"):
        _project_of(workload, path, queues, mistakes)
        _topology_of(workload, path, topologies, levels_of, mistakes)
        _nodes_of(workload, path, nodes, mistakes)
        _budgets_of(workload, path, budgets, mistakes)
    _check_resources(raw, mistakes)
    _check_expected(raw, nodes, workloads, mistakes)


def expanded(name: str) -> list[str]:
    """Return the node names of a range: `a-[0-2]` has three.

    Raises:
        ValueError: the range is invalid; the message says what to write.
    """
    match = _RANGE.search(name)
    if match is None:
        if "[" in name or "]" in name:
            raise ValueError(f"{name!r} has brackets that are no range; write one such as a100-[0-9]")
        return [name]
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise ValueError(f"{match[0]} counts down; write [{match[2]}-{match[1]}]")
    rest = expanded(name[match.end() :])
    if (last - first + 1) * len(rest) > NODES_MAX:
        raise ValueError(f"{name!r} makes more than {NODES_MAX} nodes; write a smaller range")
    width = len(match[1]) if match[1][0] == "0" else 0
    return [
        f"{name[: match.start()]}{number:0{width}d}{end}" for number in range(first, last + 1) for end in rest
    ]


def _nodes(raw: Any, mistakes: Mistakes) -> NameIndex:
    names = NameIndex("node")
    names.complete = _all_named(raw, ("cluster", "nodes"))
    total = 0
    for path, node in entries(raw, "cluster", "nodes"):
        name = word(node, "name")
        if name is None:
            continue
        try:
            node_names = expanded(name)
        except ValueError as error:
            names.complete = False
            mistakes.add((*path, "name"), f"name: {error}")
            continue
        total += len(node_names)
        if total > NODES_MAX:
            names.complete = False
            mistakes.add((*path, "name"), f"with this there are more than {NODES_MAX} nodes; write fewer")
            break
        for node_name in node_names:
            names.add(node_name, (*path, "name"), mistakes)
    return names


def _named(raw: Any, noun: str, path: Path, mistakes: Mistakes) -> NameIndex:
    names = NameIndex(noun)
    names.complete = _all_named(raw, path)
    for entry_path, entry in entries(raw, *path):
        name = word(entry, "name")
        if name is not None:
            names.add(name, (*entry_path, "name"), mistakes)
    return names


def _all_named(raw: Any, path: Path) -> bool:
    for step in path:
        raw = raw.get(step, []) if isinstance(raw, dict) else None
    return isinstance(raw, list) and all(word(entry, "name") is not None for entry in raw)


def _queues(raw: Any, mistakes: Mistakes) -> tuple[NameIndex, NameIndex]:
    """Return the names of departments and projects, which must differ; check their parents."""
    both = NameIndex("queue")
    departments, projects = NameIndex("department"), NameIndex("project")
    for key, names, noun in (("departments", departments, "department"), ("projects", projects, "project")):
        names.complete = _all_named(raw, (key,))
        for path, entry in entries(raw, key):
            name = word(entry, "name")
            if name is not None:
                both.noun = noun
                both.add(name, (*path, "name"), mistakes)
                names.paths.setdefault(name, (*path, "name"))
    for key, link in (("departments", "parent"), ("projects", "department")):
        for path, entry in entries(raw, key):
            above = word(entry, link)
            if above is not None and above in projects.paths and above not in departments.paths:
                correction = nearest(above, departments.paths)
                mistakes.add((*path, link), f"{link}: {above} is a project, not a department; {correction}")
            else:
                departments.look_up(above, (*path, link), mistakes)
    _check_circles(raw, mistakes)
    return departments, projects


def _check_circles(raw: Any, mistakes: Mistakes) -> None:
    above: dict[str, str] = {}
    paths: dict[str, Path] = {}
    for path, entry in entries(raw, "departments"):
        name, parent = word(entry, "name"), word(entry, "parent")
        if name is not None and parent is not None and name not in above:
            above[name], paths[name] = parent, (*path, "parent")
    clear: set[str] = set()
    for name in above:
        seen: list[str] = []
        current: str | None = name
        while current is not None and current not in clear and current not in seen:
            seen.append(current)
            current = above.get(current)
        if current in seen:
            circle = seen[seen.index(current) :]
            cycle = " in ".join([*circle, circle[0]])
            mistakes.add(
                paths[circle[0]], f"parent: {cycle} is a circle; leave out the parent of one of them"
            )
        clear.update(seen)


def _project_of(
    workload: dict[str, Any], path: Path, queues: tuple[NameIndex, NameIndex], mistakes: Mistakes
) -> None:
    departments, projects = queues
    name = word(workload, "project")
    if name is not None and name in departments.paths and name not in projects.paths:
        correction = nearest(name, projects.paths)
        mistakes.add((*path, "project"), f"project: {name} is a department, not a project; {correction}")
    else:
        projects.look_up(name, (*path, "project"), mistakes)


def _topology_of(
    workload: dict[str, Any],
    path: Path,
    topologies: NameIndex,
    levels_of: dict[str, set[str]],
    mistakes: Mistakes,
) -> None:
    asked = workload.get("topology")
    name = word(asked, "name")
    if name is None:
        return
    topologies.look_up(name, (*path, "topology", "name"), mistakes)
    for key in ("required", "preferred"):
        level = word(asked, key)
        if level is not None and name in levels_of and level not in levels_of[name]:
            correction = nearest(level, sorted(levels_of[name]))
            mistakes.add(
                (*path, "topology", key), f"{key}: topology {name} has no level {level}; {correction}"
            )


def _nodes_of(workload: dict[str, Any], path: Path, nodes: NameIndex, mistakes: Mistakes) -> None:
    groups = NameIndex("pod group")
    for (_, index), group in entries(workload, "pods"):
        group_path = (*path, "pods", index)
        groups.add(word(group, "name") or str(index), (*group_path, "name"), mistakes)
        for position, name in words(group, "nodes"):
            nodes.look_up(name, (*group_path, "nodes", position), mistakes)
        for (_, pod), place in entries(group, "placed"):
            nodes.look_up(word(place, "node"), (*group_path, "placed", pod, "node"), mistakes)


def _budgets_of(workload: dict[str, Any], path: Path, budgets: NameIndex, mistakes: Mistakes) -> None:
    for (_, index), group in entries(workload, "pods"):
        for position, name in words(group, "budgets"):
            budgets.look_up(name, (*path, "pods", index, "budgets", position), mistakes)


def _check_resources(raw: Any, mistakes: Mistakes) -> None:
    """Report quotas of resources that no node has, such as `gpus` for `gpu`."""
    resources = dict.fromkeys(_OWN_RESOURCES)
    for _, node in entries(raw, "cluster", "nodes"):
        resources.update(dict.fromkeys(_keys(node.get("resources"))))
    for _, workload in entries(raw, "workloads"):
        for _, group in entries(workload, "pods"):
            resources.update(dict.fromkeys(_keys(group.get("resources"))))
    for kind in ("departments", "projects"):
        for path, queue in entries(raw, kind):
            for key in ("quota", "limit", "weight"):
                for name in _keys(queue.get(key)):
                    if name not in resources and "/" not in name and not name.startswith(GPU_MODEL_PREFIX):
                        correction = nearest(name, resources)
                        mistakes.add(
                            (*path, key, name), f"{key}: nothing has a resource {name}; {correction}"
                        )


def _keys(value: Any) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _check_expected(raw: Any, nodes: NameIndex, workloads: NameIndex, mistakes: Mistakes) -> None:
    expect = raw.get("expect") if isinstance(raw, dict) else None
    if not isinstance(expect, dict):
        return
    pods = _pods(raw)
    for kind in ("workloads", "pods"):
        for name in _keys(expect.get(kind)):
            path = ("expect", kind, name)
            if kind == "workloads":
                workloads.look_up(name, path, mistakes)
            elif pods is not None and not _is_pod(name, pods):
                mistakes.add(
                    path, f"there is no pod {name}; write workload/group/index of one, its index from 0"
                )
            expected = expect[kind][name]
            nodes.look_up(word(expected, "node"), (*path, "node"), mistakes)
            for index, node in words(expected, "nodes"):
                nodes.look_up(node, (*path, "nodes", index), mistakes)
            workloads.look_up(word(expected, "evicted_by"), (*path, "evicted_by"), mistakes)


def _pods(raw: Any) -> dict[tuple[str, str], int] | None:
    """Return the number of pods of each group; None if a part can't be read."""
    counts = {}
    if not _all_named(raw, ("workloads",)):
        return None
    for _, workload in entries(raw, "workloads"):
        for (_, index), group in entries(workload, "pods"):
            count = group.get("count", 1)
            if not isinstance(count, int):
                return None
            counts[str(workload["name"]), word(group, "name") or str(index)] = count
    return counts


def _is_pod(name: str, pods: dict[tuple[str, str], int]) -> bool:
    parts = name.rsplit("/", 2)
    if (
        len(parts) != 3
        or not parts[2].isascii()
        or not parts[2].isdigit()
        or parts[2] != str(int(parts[2][:9]))
    ):
        return False
    return int(parts[2]) < pods.get((parts[0], parts[1]), 0)
