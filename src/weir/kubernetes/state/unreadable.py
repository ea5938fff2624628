"""Objects that couldn't be processed, each with a sentence, and the least usage of such a pod.

One bad object affects only itself: it is marked here, and people and metrics report it. The devices of a
bound pod that can't be read count as foreign usage.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from structlog import get_logger

from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.api.objects import PodSpec
from weir.kubernetes.state.nodes.usage import ForeignUsage
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.quantities import exact
from weir.kubernetes.translate.requests import DEVICES_MAX
from weir.model.resources import PODS

QUARANTINED = "quarantined workloads"
"""Pseudo resource for workloads with readable pods at which the scheduler itself failed."""
FRESH_MAX = 1_000
"""Limit of unreadable objects that haven't been reported to people yet."""
SENTENCE_MAX = 500
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that couldn't be processed."""

    resource: str
    key: str
    uid: str
    sentence: str


class UnreadableObjects:
    """Keeps a sentence for each object that couldn't be processed, by resource and key."""

    def __init__(self, managed: ManagedNamespaces = ALL) -> None:
        self._managed = managed
        self._sentences: dict[tuple[str, str], str] = {}
        self._fresh: deque[UnreadableObject] = deque(maxlen=FRESH_MAX)

    def note(self, resource: str, key: str, uid: str, why: str | Exception) -> str:
        """Mark an object as unreadable; return the sentence for people."""
        detail = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        sentence = f"Weir can't read this object and leaves it out: {detail}"[:SENTENCE_MAX]
        if self._sentences.get((resource, key)) != sentence:
            self._sentences[resource, key] = sentence
            namespace, slash, _ = key.rpartition("/")
            if not slash or namespace in self._managed:
                self._fresh.append(UnreadableObject(resource, key, uid, sentence))
            cause = why if isinstance(why, Exception) else None
            _LOG.warning("object_unreadable", resource=resource, key=key, why=sentence, exc_info=cause)
        return sentence

    def clear(self, resource: str, key: str) -> bool:
        """Forget that an object was unreadable; return True if it was."""
        return self._sentences.pop((resource, key), None) is not None

    def take(self) -> list[UnreadableObject]:
        """Return the unreadable objects that haven't been reported to people yet."""
        fresh = list(self._fresh)
        self._fresh.clear()
        return fresh

    def counts(self) -> dict[str, int]:
        """Return the number of unreadable objects by resource."""
        return dict(Counter(resource for resource, _ in self._sentences))


def held_roughly(body: Any, node: str, devices: DeviceResources) -> ForeignUsage:
    """Return the least usage of an unreadable pod: one pod, and all devices that its containers request."""
    spec = _mapping(_mapping(body).get("spec"))
    count = 0
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind)
        amounts = (
            [_devices(container, devices) for container in containers] if isinstance(containers, list) else []
        )
        count = max(count, sum(amounts))
    return ForeignUsage(node, ((PODS, 1),), min(DEVICES_MAX, count))


def rough(spec: PodSpec, node: str, phase: str) -> Mapping[str, Any]:
    """Return a pod as plain values, with the fields that `held_roughly` reads."""
    containers = [
        {"resources": {"requests": container.resources.requests, "limits": container.resources.limits}}
        for container in spec.containers
    ]
    return {"spec": {"nodeName": node, "containers": containers}, "status": {"phase": phase}}


def node_in(body: Any) -> str:
    """Return the node of an unreadable pod; empty if it has none or is over."""
    if _mapping(_mapping(body).get("status")).get("phase") in ("Succeeded", "Failed"):
        return ""
    node = _mapping(_mapping(body).get("spec")).get("nodeName")
    return node if isinstance(node, str) else ""


def _devices(container: Any, devices: DeviceResources) -> int:
    resources = _mapping(_mapping(container).get("resources"))
    pod_request = {**_mapping(resources.get("limits")), **_mapping(resources.get("requests"))}
    return sum(_count(amount) for name, amount in pod_request.items() if devices.has_gpus(str(name)))


def _count(written: Any) -> int:
    try:
        return max(0, min(DEVICES_MAX, int(exact(written))))
    except (TypeError, ValueError, OverflowError):
        return 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
