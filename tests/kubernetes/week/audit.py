"""Invariants that hold in every moment: checked at each event about a pod, in the order of the events.

- No pod that Weir binds makes its node hold more than it has, with all of Weir's pods there and those of other
  schedulers that were bound some seconds ago. (If two bind in the same moment, neither can know.)
- No two pods have the same device, and shares of a device sum up to no more than the device.
- No two pods of a workload have the same start number at a time, unless its controller adopted one just now: Weir
  may have known that as a pod of its own.
- A bound pod is never on another node afterwards.
- No device of a slice is allocated to two claims.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable

from tests.kubernetes.week.pods import OVER, PodView, view
from tests.kubernetes.week.snapshot import GROUP
from tools.controlplane.api import Object

RACE_S = 10.0
"""Time in which Weir may not have heard of a binding by others, or of a change of a pod's controller."""
STORY_MAX = 20_000


class Audit:
    """Takes every event; `wrong` is what must not have been.

    Args:
        gpus_of: returns the devices of a node, None if it isn't known.
    """

    def __init__(self, gpus_of: Callable[[str], int | None]) -> None:
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self._gpus_of = gpus_of
        self._pods: dict[str, PodView] = {}
        self._on: dict[str, dict[str, PodView]] = defaultdict(dict)  # pods that hold something, by node
        self._bound_s: dict[str, float] = {}
        self._adopted_s: dict[str, float] = {}
        self._began_s = time.monotonic()
        self._devices: dict[
            tuple[str, str, str], str
        ] = {}  # the claim that has a device of a slice, by its uid
        self._story: deque[str] = deque(maxlen=STORY_MAX)

    def story_of(self, *words: str, last: int = 40) -> str:
        """Return what happened to things whose lines have one of these words."""
        lines = [line for line in tuple(self._story) if any(word in line for word in words)]
        return "\n".join(lines[-last:])

    def take(self, kind: str, found: Object) -> None:
        """See one event."""
        pod = view(found)
        before = self._pods.get(pod.uid)
        self.counts["events"] += 1
        self._note(kind, before, pod)
        if before is not None and before.node:
            self._on[before.node].pop(pod.uid, None)
        if kind == "DELETED":
            self._pods.pop(pod.uid, None)
            self._bound_s.pop(pod.uid, None)
            self._adopted_s.pop(pod.uid, None)
            return
        self._pods[pod.uid] = pod
        if before is not None and _owner(before) != _owner(pod):
            self._adopted_s[pod.uid] = time.monotonic()
        if not pod.node:
            return
        if before is not None and before.node and before.node != pod.node:
            self._complain(f"{pod.full_name} was on {before.node} and is on {pod.node}", pod)
        self._bound_s.setdefault(pod.uid, time.monotonic())
        if not pod.holds:
            return
        is_new = before is None or not before.holds
        self._on[pod.node][pod.uid] = pod
        if is_new and pod.is_weirs and not self._named_itself(before):
            self.counts["bound by Weir"] += 1
            self._check_node(pod)
            self._check_devices(pod)
            self._check_start(pod)

    def take_claim(self, kind: str, found: Object) -> None:
        """See one event about a resource claim."""
        metadata = found["metadata"]
        uid, name = str(metadata["uid"]), f"{metadata['namespace']}/{metadata['name']}"
        for device in [each for each, holder in self._devices.items() if holder == uid]:
            del self._devices[device]
        allocation = (found.get("status") or {}).get("allocation")
        if kind == "DELETED" or not allocation:
            return
        self.counts["claims with devices"] += 1
        results = allocation["devices"]["results"]
        for device in [(each["driver"], each["pool"], each["device"]) for each in results]:
            holder = self._devices.setdefault(device, uid)
            if holder != uid:
                self.wrong.append(
                    f"{name} has {device}, and so has the claim {holder}\n{self.story_of(name)}"
                )
        self._story.append(f"{time.monotonic() - self._began_s:8.2f} {kind:8} claim {name} {results}")

    def _named_itself(self, before: PodView | None) -> bool:
        """Return True if the pod had its node when it was first seen: Weir binds pods that are there."""
        return before is None

    def _check_node(self, new: PodView) -> None:
        gpus = self._gpus_of(new.node)
        if gpus is None:
            return
        now_s = time.monotonic()
        there = self._on[new.node].values()
        known = [pod for pod in there if pod.is_weirs or self._bound_s[pod.uid] < now_s - RACE_S]
        held = sum(pod.gpus for pod in known)
        self.counts["beside others' pods"] += any(not pod.is_weirs for pod in known)
        if new.gpus and held > gpus:
            self._complain(f"{new.full_name} makes it {held} GPUs on {new.node}, which has {gpus}", new)
        if new.gpus and any(pod.devices_shared and pod.is_weirs for pod in known):
            self._complain(f"{new.full_name} has whole GPUs beside shares on {new.node}", new)
        for pod in known:
            if pod is not new and pod.ports & new.ports:
                self._complain(f"{pod.full_name} and {new.full_name} have ports {pod.ports & new.ports}", new)

    def _was_adopted(self, pod: PodView) -> bool:
        return time.monotonic() - self._adopted_s.get(pod.uid, -RACE_S) < RACE_S

    def _check_devices(self, new: PodView) -> None:
        count = new.gpus or new.devices_shared or new.claimed
        if len(set(new.index)) != count:
            self._complain(f"{new.full_name} asks for {count} devices and has {new.index}", new)
        for pod in self._on[new.node].values():
            both = set(pod.index) & set(new.index)
            if pod is new or not both or not pod.is_weirs:
                continue
            if pod.gpus or new.gpus:
                self._complain(f"{pod.full_name} and {new.full_name} both have devices {both}", new)
        for index in new.index if new.devices_shared else ():
            parts = [pod for pod in self._on[new.node].values() if index in pod.index and pod.devices_shared]
            if sum(pod.part_milli for pod in parts) > 1000:
                names = [pod.full_name for pod in parts]
                self._complain(f"device {index} of {new.node} is shared out more than whole: {names}", new)

    def _check_start(self, new: PodView) -> None:
        owner = _owner(new)
        if owner is None or not new.start or self._was_adopted(new):
            return
        for pod in self._pods.values():
            if (
                pod is not new
                and _owner(pod) == owner
                and not self._was_adopted(pod)
                and pod.labels.get(GROUP) == new.labels.get(GROUP)
                and pod.holds
                and pod.start == new.start
            ):
                self._complain(f"{pod.full_name} and {new.full_name} are both start {new.start}", new)

    def _note(self, kind: str, before: PodView | None, pod: PodView) -> None:
        if kind == "MODIFIED" and before is not None and _words(before) == _words(pod):
            return
        self._story.append(f"{time.monotonic() - self._began_s:8.2f} {kind:8} {pod.full_name} {_words(pod)}")

    def _complain(self, sentence: str, pod: PodView) -> None:
        self.wrong.append(f"{sentence}\n{self.story_of(pod.name, f'on {pod.node} ')}")


def _words(pod: PodView) -> str:
    asks = f"{pod.gpus} GPUs" if not pod.devices_shared else f"{pod.devices_shared} x {pod.part_milli}m"
    deleting = " deleting" if pod.deleting else ""
    over = " over" if pod.phase in OVER else ""
    reported = f" ({pod.condition}: {pod.message[:120]})" if pod.condition else ""
    return f"[{pod.scheduler}, {asks}] {pod.phase}{deleting}{over} on {pod.node or 'nothing'} {pod.index} start {pod.start or '-'}{reported}"


def _owner(pod: PodView) -> str | None:
    """Return the uid of the controller of a pod."""
    return None if pod.controller is None else str(pod.controller["uid"])
