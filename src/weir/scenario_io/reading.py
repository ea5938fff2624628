"""Reading of scenario files: the text becomes nouns, or a list of all mistakes."""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from weir.model.budgets import DisruptionBudget
from weir.model.nodes import Node, Topology
from weir.model.scenario import Placed, Scenario, WorkloadPast
from weir.model.workloads import WHOLE_MILLI
from weir.scenario_io.build import (
    expect_of,
    group_name,
    nodes_of,
    past_of,
    queues_of,
    request_of,
    workload_of,
)
from weir.scenario_io.checks import check_partial, submitted_s
from weir.scenario_io.document import read_document, text_of
from weir.scenario_io.initial_placement import InitialPod, place_initial_pods
from weir.scenario_io.partial import PartialScenario, read_partial
from weir.scenario_io.references import check_names
from weir.scenario_io.source_map import Mistakes
from weir.scenario_io.specs import GroupEntry, ScenarioEntry


def read_scenario(path: FilePath | str) -> Scenario:
    """Return the scenario of a file.

    Raises:
        InvalidFile: with all mistakes, or if it can't be opened.
    """
    mistakes = Mistakes(str(path))
    return _read(text_of(path, mistakes), mistakes)


def parse_scenario(text: str, file: str) -> Scenario:
    """Return the scenario of a text; mistakes name `file`.

    Raises:
        InvalidFile: with all mistakes.
    """
    return _read(text, Mistakes(file))


def _read(text: str, mistakes: Mistakes) -> Scenario:
    raw = read_document(text, mistakes)
    parts = read_partial(raw, mistakes)
    check_names(raw, mistakes)
    check_partial(parts, mistakes)
    nodes = _nodes(parts)
    placed = place_initial_pods(list(_stated(raw, parts, {node.name: node for node in nodes})), mistakes)
    mistakes.refuse_if_any()
    assert parts.whole is not None, "an incomplete file has mistakes"
    return _made(parts.whole, nodes, placed, FilePath(mistakes.file).stem)


def _nodes(parts: PartialScenario) -> list[Node]:
    nodes: dict[str, Node] = {}
    for written in parts.nodes.values():
        try:
            made = nodes_of(written)
        except ValueError:  # reported where names are checked
            continue
        for node in made:
            nodes.setdefault(node.name, node)
    return list(nodes.values())


def _stated(raw: Any, parts: PartialScenario, nodes: dict[str, Node]) -> Iterator[InitialPod]:
    """Yield the pods that already run and whose group and node are valid."""
    for (workload_index, position), group in parts.groups.items():
        name = raw["workloads"][workload_index].get("name")
        if not isinstance(name, str) or not group.placed or _contradicts(group):
            continue
        request = request_of(group)
        for index, place in enumerate(group.placed):
            node = nodes.get(place.node) if place is not None else None
            if place is None or node is None:
                continue
            yield InitialPod(
                workload=name,
                group=position,
                group_name=group_name(group, position),
                index=index,
                request=request,
                node=node,
                devices=None if place.gpus is None else tuple(place.gpus),
                path=("workloads", workload_index, "pods", position, "placed", index),
            )


def _contradicts(group: GroupEntry) -> bool:
    """Return True if a pod's number of devices is contradictory, which is already reported."""
    whole_or_none = group.gpu_memory is None and (group.gpus == 0 or group.gpus >= WHOLE_MILLI)
    both = group.gpu_memory is not None and "gpus" in group.model_fields_set
    return both or (group.devices is not None and whole_or_none)


def _made(whole: ScenarioEntry, nodes: list[Node], placed: Mapping[str, Placed], stem: str) -> Scenario:
    total = len(whole.workloads)
    submitted = {load.name: submitted_s(load, index, total) for index, load in enumerate(whole.workloads)}
    pasts = {
        load.name: past_of(load, submitted[load.name], placed.get(load.name, {})) for load in whole.workloads
    }
    return Scenario(
        name=stem if whole.name is None else whole.name,
        nodes=tuple(nodes),
        topologies=tuple(
            Topology(topology.name, tuple(topology.levels)) for topology in whole.cluster.topologies
        ),
        queues=queues_of(whole.departments, whole.projects),
        workloads=tuple(workload_of(load, submitted[load.name]) for load in whole.workloads),
        past={name: past for name, past in pasts.items() if past != WorkloadPast()},
        policy=whole.policy,
        tick_s=whole.tick,
        expect=expect_of(whole.expect),
        budgets=tuple(DisruptionBudget(budget.name, budget.allowed) for budget in whole.budgets),
        protected={
            (load.name, index): tuple(group.budgets)
            for load in whole.workloads
            for index, group in enumerate(load.pods)
            if group.budgets
        },
    )
