"""Requests that no node can ever take, however idle: each refusal is counted, with numbers.

A single measurable cause gives a direct sentence, such as "a pod asks for 100Gi of memory; the largest node
offers 64Gi".
Several causes are listed with the number of nodes that each excludes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.engine.placement.feasibility import refused_by
from weir.model.nodes import DRAINED, Node
from weir.model.policy import AffinityPolicy
from weir.model.resources import CLAIMS_PREFIX, CPU, GPU, MEMORY, PODS, TAINTED_PREFIX, written
from weir.model.workloads import WHOLE_MILLI, Request

_PHRASES = {
    "nodes": "not among the nodes that it names",
    "no devices": "without a GPU",
    "devices in use by others": "short of GPUs, without those drained or in use outside Weir",
    "node_selector": "not matched by its node selector",
    "node rules": "not matched by its node affinity",
    "affinity": "excluded by an affinity of the policy",
}
_UNITS = {CPU: "CPU", MEMORY: "memory", PODS: "pods"}


@dataclass(slots=True)
class NodeRefusals:
    """Nodes that can take a pod of the request when idle, and the refusing ones by cause."""

    able: int = 0
    by: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
        cls, nodes: Iterable[Node | None], request: Request, affinity: Sequence[AffinityPolicy]
    ) -> "NodeRefusals":
        """Check every node; return the nodes that can take a pod, and the others by cause."""
        refusals = cls()
        for node in nodes:
            if node is not None:
                cause = refused_by(node, request, affinity) or exceeded(node, request)
                if cause is None:
                    refusals.able += 1
                else:
                    refusals.by[cause] += 1
        return refusals


def exceeded(node: Node, request: Request) -> str | None:
    """Return the first resource of which a node has less than the request asks for; None if it has enough."""
    return next((name for name, want in _amounts(request).items() if node.capacity.get(name, 0) < want), None)


def sentence_of(refusals: NodeRefusals, nodes: Iterable[Node | None], request: Request) -> str:
    """Return the sentence for a request that no node can take."""
    existing = [node for node in nodes if node is not None]
    if not existing:
        return "there are no nodes"
    if len(refusals.by) == 1:
        (cause,) = refusals.by
        direct = _direct(cause, existing, request)
        if direct is not None:
            return direct
    parts = [
        f"{count} {'is' if count == 1 else 'are'} {_phrase(cause, request)}{taint_phrase(cause, existing)}"
        for cause, count in sorted(refusals.by.items(), key=lambda item: (-item[1], item[0]))
    ]
    return f"0 of {len(existing)} node{'' if len(existing) == 1 else 's'} fit a pod of it: {', '.join(parts)}"


def _direct(cause: str, nodes: Sequence[Node], request: Request) -> str | None:
    """Return the request compared with the largest amount of a node; None for other causes."""
    match cause:
        case "devices" | "no devices":
            asked, most = _gpus(request.devices), max(node.gpus for node in nodes)
            return f"a pod asks for {asked}; the largest node offers {most or 'none'}"
        case "devices in use by others":
            most = max(node.own_gpus for node in nodes)
            return (
                f"a pod asks for {_gpus(request.devices)}; the largest node offers {most or 'none'}, "
                "without GPUs that are drained or in use outside Weir"
            )
        case "gpu_models":
            models = sorted({node.gpu_model or "unnamed" for node in nodes})
            return f"it asks for GPU model {' or '.join(request.gpu_models)}; nodes have {', '.join(models)}"
        case "gpu_memory":
            most_memory = written(MEMORY, max(node.gpu_memory for node in nodes))
            asked = written(MEMORY, request.gpu_memory)
            return f"it asks for {asked} of GPU memory; the largest GPU has {most_memory}"
    want = _amounts(request).get(cause)
    return None if want is None else _direct_amount(cause, want, nodes)


def _direct_amount(resource: str, want: int, nodes: Sequence[Node]) -> str:
    if resource.startswith(CLAIMS_PREFIX):
        return f"no node has devices for {claim_phrase(resource)}{taint_phrase(resource, nodes)}"
    largest = written(resource, max(node.capacity.get(resource, 0) for node in nodes))
    return f"a pod asks for {amount_phrase(resource, want)}; the largest node offers {largest}"


def _phrase(cause: str, request: Request) -> str:
    """Return the cause as a predicate of nodes: `too small (100Gi of memory)`."""
    if cause == f"taint {DRAINED}":
        return "drained"
    if cause.startswith("taint "):
        return f"closed by {cause}, which it doesn't tolerate"
    if cause.startswith(CLAIMS_PREFIX):
        return f"without devices for {claim_phrase(cause)}"
    want = _amounts(request).get(cause)
    if want is not None:
        return f"too small ({amount_phrase(cause, want)})"
    phrases = _PHRASES | {
        "devices": f"too small ({_gpus(request.devices)})",
        "gpu_models": f"without GPU model {' or '.join(request.gpu_models)}",
        "gpu_memory": f"too small ({written(MEMORY, request.gpu_memory)} of GPU memory)",
    }
    return phrases.get(cause, cause)


def claim_phrase(resource: str) -> str:
    """Return the resource claims of a pod in words, without the suffix that makes their names unique."""
    return f"the claim {resource.removeprefix(CLAIMS_PREFIX).rpartition(' #')[0]}"


def taint_phrase(resource: str, nodes: Iterable[Node | None]) -> str:
    """Return the words for devices that only taints keep from a claim; empty if there are none."""
    name = f"{TAINTED_PREFIX}{resource.removeprefix(CLAIMS_PREFIX)}"
    count = sum(node.capacity.get(name, 0) for node in nodes if node is not None)
    if not count:
        return ""
    have = "device that matches has a taint" if count == 1 else "devices that match have taints"
    return f" ({count} {have} that the claim doesn't tolerate)"


def amount_phrase(resource: str, amount: int) -> str:
    """Return an amount with its resource: `64Gi of memory`, `4 CPUs`, `1 GPU`."""
    text = written(resource, amount)
    if resource in (CPU, GPU):
        return f"{text} {resource.upper()}{'' if text == '1' else 's'}"
    if resource == MEMORY:
        return f"{text} of memory"
    return f"{text} {_UNITS.get(resource, resource)}"


def _gpus(count: int) -> str:
    return amount_phrase(GPU, count * WHOLE_MILLI)


def _amounts(request: Request) -> Mapping[str, int]:
    """Return the amounts that a pod needs of countable resources other than GPUs."""
    return {CPU: request.cpu_milli, MEMORY: request.memory, **dict(request.further)}
