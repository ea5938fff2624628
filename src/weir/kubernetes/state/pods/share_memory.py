"""Memory of GPUs that shares use, as the agents of the nodes report it, and the pods that use too much.

A report affects only the pods of its own node, so an agent that lies harms only these.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from weir.kubernetes.state.gangs.gang import TrackedPod
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.pods.resolver import PodResolver
from weir.kubernetes.state.pods.tracker import PodTracker
from weir.kubernetes.translate.bound_pods import MEMORY_KEY
from weir.kubernetes.translate.gpu_sharing import is_share

SLACK = 512 << 20
"""Bytes that a pod may use above its share of a device: the driver's own part of each process is included."""
_GIB = 1 << 30


class NodeMemory(NamedTuple):
    """Devices of a node whose memory is watched, and the bytes in use by uid of a pod and device.

    `at_s`: when the report came, by a clock that never jumps. `limited`: uids of the pods whose shares the
    driver limits.
    """

    watched: frozenset[int]
    used: Mapping[tuple[str, int], int]
    at_s: float = 0.0
    limited: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShareExcess:
    """A pod that uses more memory of a device than its share.

    `used`: the highest use since `since_s`. `endangers`: another pod has a share of the device.

    `first_s` and `last_s`: times of the first and last report of the excess. Without a newer report, the pod
    may have freed the memory.
    """

    pod: str
    uid: str
    node: str
    device: int
    used: int
    limit: int
    endangers: bool
    since_s: float
    first_s: float = field(default=0.0, compare=False)
    last_s: float = field(default=0.0, compare=False)

    @property
    def lasted_s(self) -> float:
        """Return the time between the first report and the last."""
        return self.last_s - self.first_s

    @property
    def sentence(self) -> str:
        """Return the problem as a sentence for people."""
        return (
            f"Pod {self.pod.partition('/')[2]} uses {self.used / _GIB:.1f} GiB of GPU {self.device} of node "
            f"{self.node}, and its share is {self.limit / _GIB:.1f} GiB"
        )

    @property
    def numbers(self) -> dict[str, object]:
        """Return the numbers of the sentence, for programs."""
        return {"node": self.node, "device": self.device, "used": self.used, "share": self.limit}


class ShareMemory:
    """Memory of shares by node. Unwatched memory is unknown."""

    def __init__(self, pods: PodTracker, node_states: NodeStates, resolver: PodResolver) -> None:
        self._pods = pods
        self._node_states = node_states
        self._resolver = resolver
        self._watched: dict[str, frozenset[int]] = {}
        self._limited: dict[str, frozenset[str]] = {}
        self._excesses: dict[str, dict[str, ShareExcess]] = {}  # by node and pod
        self._fresh: dict[str, ShareExcess] = {}  # excesses that aren't reported yet
        self.is_settled = False
        """False while agents may exist that haven't reported yet to this process."""

    def see(self, node: str, memory: NodeMemory | None) -> bool:
        """Set the memory of a node, or None if it is unknown. Return True if it has changed."""
        protected_before, before = self._protected(node), self._excesses.get(node, {})
        for by_node in (self._watched, self._limited, self._excesses):
            by_node.pop(node, None)
        now: dict[str, ShareExcess] = {}
        if memory is not None and node in self._node_states.shared:
            self._watched[node], self._limited[node] = memory.watched, memory.limited
            now = {excess.pod: excess for excess in self._excesses_on(node, memory, before)}
        if now:
            self._excesses[node] = now
        for pod in before.keys() - now.keys():
            self._fresh.pop(pod, None)
        self._fresh.update(
            (pod, excess) for pod, excess in now.items() if pod not in before or before[pod].uid != excess.uid
        )
        return now != before or self._protected(node) != protected_before

    def _protected(self, node: str) -> tuple[frozenset[int], frozenset[str]]:
        """Return the watched devices of a node, and its pods with a limit."""
        return self._watched.get(node, frozenset()), self._limited.get(node, frozenset())

    def shares_on(self, node: str) -> list[TrackedPod]:
        """Return the pods with shares that are bound to a node."""
        pods = [pod for pod in map(self._pods.by_key.get, self._node_states.own_pods_on(node)) if pod]
        return [pod for pod in pods if _is_bound_share(pod)]

    def _excesses_on(
        self, node: str, memory: NodeMemory, before: Mapping[str, ShareExcess]
    ) -> Iterator[ShareExcess]:
        shares = self.shares_on(node)
        of_uids = {pod.uid: pod for pod in shares}
        largest: dict[str, tuple[int, int]] = {}
        for (uid, device), used in memory.used.items():
            tracked = of_uids.get(uid)
            limit = 0 if tracked is None else self.limit(tracked)
            if tracked is None or not limit or device not in memory.watched:
                continue
            excess = used - (limit if device in tracked.devices else 0)
            if excess > SLACK and excess > largest.get(uid, (0, 0))[0]:
                largest[uid] = excess, device
        for uid, (_, device) in largest.items():
            tracked = of_uids[uid]
            others = any(device in other.devices for other in shares if other is not tracked)
            limit = self.limit(tracked) if device in tracked.devices else 0
            used, since_s = memory.used[uid, device], self._pods.now_s
            excess_now = ShareExcess(
                tracked.key, uid, node, device, used, limit, others, since_s, memory.at_s, memory.at_s
            )
            yield _continued(before.get(tracked.key), excess_now)

    def limit(self, tracked: TrackedPod) -> int:
        """Return the bytes that a pod may use of each of its devices; 0 if they are unknown."""
        text = self._resolver.annotations(tracked.key).get(MEMORY_KEY, "")
        return int(text) if text.isascii() and text.isdigit() else 0

    def is_watched(self, tracked: TrackedPod) -> bool:
        """Return True if a pod's use of its devices' memory is known, and its limit."""
        return self.limit(tracked) > 0 and self._watched.get(tracked.node, frozenset()) >= set(
            tracked.devices
        )

    def is_limited(self, tracked: TrackedPod) -> bool:
        """Return True if the driver limits a pod's share, by the last reading of its node's agent."""
        return tracked.uid in self._limited.get(tracked.node, frozenset())

    def excesses_of(self, pods: Iterable[TrackedPod]) -> list[ShareExcess]:
        """Return the excesses of these pods."""
        pairs = ((self._excesses.get(pod.node, {}).get(pod.key), pod.uid) for pod in pods)
        return [excess for excess, uid in pairs if excess is not None and excess.uid == uid]

    @property
    def is_exceeded(self) -> bool:
        """Return True if there is any excess."""
        return bool(self._excesses)

    def all(self) -> list[ShareExcess]:
        """Return all excesses."""
        return [excess for on_node in self._excesses.values() for excess in on_node.values()]

    def take_fresh(self) -> list[ShareExcess]:
        """Return the excesses that haven't been reported to people."""
        fresh, self._fresh = list(self._fresh.values()), {}
        return fresh


def _is_bound_share(tracked: TrackedPod) -> bool:
    info = tracked.info
    return tracked.bound and not tracked.over and info is not None and is_share(info.request)


def _continued(before: ShareExcess | None, now: ShareExcess) -> ShareExcess:
    """Return an excess with its first time and its highest use, since fewer changes need fewer writes."""
    if before is None or (before.uid, before.device) != (now.uid, now.device):
        return now
    used = max(before.used, now.used)
    return replace(now, used=used, since_s=before.since_s, first_s=before.first_s)
