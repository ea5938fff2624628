"""Alternatives to a cluster: more nodes, other quotas, another policy."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.resources import CPU, CPU_SLOTS, GPU, MEMORY, amount
from weir.model.scenario import Scenario
from weir.model.workloads import WHOLE_MILLI

NODES_MAX: Final = 1000
GPUS_MAX: Final = 64
_NODES = re.compile(r"(\d{1,4})x(\d{1,2})(?:x([A-Za-z0-9._-]{1,63}))?", re.ASCII)
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """Nodes to add. Without a model they are like the first node."""

    count: int
    gpus: int
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """Changes of a cluster. `quotas` are thousandths of GPUs by project."""

    name: str
    nodes: tuple[AddedNodes, ...] = ()
    quotas: tuple[tuple[str, int], ...] = field(default=())
    policy: str | None = None

    @property
    def subject(self) -> str:
        """Return the changes as the subject of a sentence."""
        gpus = sum(added.count * added.gpus for added in self.nodes)
        parts = [f"{gpus} more GPU{'' if gpus == 1 else 's'}"] if gpus else []
        parts += [f"a quota of {milli / WHOLE_MILLI:g} for {name}" for name, milli in self.quotas]
        parts += [f"policy {self.policy}"] if self.policy else []
        text = " and ".join(parts) or self.name
        return text[:1].upper() + text[1:]

    @property
    def is_plural(self) -> bool:
        """Return True if the subject takes a plural verb."""
        changes = len(self.nodes) + len(self.quotas) + (self.policy is not None)
        return changes > 1 or sum(added.count * added.gpus for added in self.nodes) > 1


def parse_nodes(text: str) -> AddedNodes:
    """Return the nodes that `2x8xH100` or `2x8` names.

    Raises:
        ValueError: it names none; the message says what to write.
    """
    match = _NODES.fullmatch(text.strip())
    if match is None or not 1 <= int(match[1]) <= NODES_MAX or not 1 <= int(match[2]) <= GPUS_MAX:
        raise ValueError(
            f"{text[:80]!r} names no nodes: write COUNTxGPUS or COUNTxGPUSxMODEL, as in 2x8xH100"
        )
    return AddedNodes(int(match[1]), int(match[2]), match[3])


def parse_alternative(text: str) -> Alternative:
    """Return the alternative that `add-nodes=2x8xH100,quota.vision=8,policy=throughput` means.

    Raises:
        ValueError: a change can't be read; the message says what to write.
    """
    nodes: list[AddedNodes] = []
    quotas: dict[str, int] = {}
    policy: str | None = None
    for change in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = change.partition("=")
        if key == "add-nodes":
            nodes.append(parse_nodes(value))
        elif key.startswith("quota.") and len(key) > len("quota."):
            quotas[key.removeprefix("quota.")] = amount(GPU, value)
        elif key == "policy" and value:
            policy = value
        else:
            forms = "write add-nodes=2x8xH100, quota.PROJECT=GPUS or policy=NAME"
            raise ValueError(f"{(change if separator else text)[:80]!r} is no change: {forms}")
    if not (nodes or quotas or policy):
        raise ValueError("an alternative changes nothing: write add-nodes=, quota.PROJECT= or policy=")
    return Alternative(text.strip(), tuple(nodes), tuple(quotas.items()), policy)


def changed(
    scenario: Scenario, alternative: Alternative, read_policy: Callable[[str], Policy]
) -> tuple[Scenario, Policy]:
    """Return a cluster and its policy with the changes of an alternative.

    Raises:
        ValueError: a project doesn't exist.
    """
    projects = {queue.name for queue in scenario.queues if queue.is_project}
    for name, _ in alternative.quotas:
        if name not in projects:
            raise ValueError(
                f"there is no project {name[:80]}: the cluster has {', '.join(sorted(projects)[:20])}"
            )
    quotas = dict(alternative.quotas)
    queues = tuple(
        replace(queue, quota={**queue.quota, GPU: quotas[queue.name]}) if queue.name in quotas else queue
        for queue in scenario.queues
    )
    policy = scenario.policy if alternative.policy is None else read_policy(alternative.policy)
    nodes = [*scenario.nodes]
    for added in alternative.nodes:
        nodes += _made(added, scenario.nodes, len(nodes))
    return replace(scenario, nodes=tuple(nodes), queues=_widened(queues, scenario), policy=policy), policy


def _widened(queues: Sequence[Queue], scenario: Scenario) -> tuple[Queue, ...]:
    """Raise the quotas of departments by the amounts that their projects gained."""
    before = {queue.name: queue for queue in scenario.queues}
    gained: dict[str, int] = {}
    for queue in queues:
        gain = queue.quota.get(GPU, 0) - before[queue.name].quota.get(GPU, 0)
        parent = queue.parent
        while queue.is_project and gain > 0 and parent is not None:
            gained[parent] = gained.get(parent, 0) + gain
            parent = before[parent].parent
    return tuple(
        replace(queue, quota={**queue.quota, GPU: queue.quota[GPU] + gained[queue.name]})
        if queue.name in gained and GPU in queue.quota
        else queue
        for queue in queues
    )


def _made(added: AddedNodes, nodes: Sequence[Node], begin: int) -> list[Node]:
    like = next((node for node in nodes if added.model and node.gpu_model == added.model), nodes[0])
    scale = max(1.0, added.gpus / max(1, like.gpus))
    scaled = {
        name: round(value * scale) if name in (CPU, MEMORY, CPU_SLOTS) else value
        for name, value in like.capacity.items()
    }
    return [
        Node(
            name=f"added-{begin + index + 1}",
            gpus=added.gpus,
            gpu_memory=like.gpu_memory,
            capacity=scaled,
            gpu_model=added.model or like.gpu_model,
            labels={**like.labels, _HOSTNAME: f"added-{begin + index + 1}"},
            gpu_weight_milli=like.gpu_weight_milli,
        )
        for index in range(added.count)
    ]
