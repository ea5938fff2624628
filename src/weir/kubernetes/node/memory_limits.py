"""Limits of the driver for the memory that a pod may use of the GPUs that it shares.

Weir states the shares of the node. A limit is set for the control group of the pod, and its containers
inherit it. Where the kernel counts the memory of devices, each container begins with no limit of its own, and
gets the same. Elsewhere a limit of a container would replace that of its pod. The source of these rules is
NVIDIA's "MPS v3 Memory Partitioning". The driver forgets limits with their group, and all when it is loaded
again: so each is set and read back at the time of every report.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from structlog import get_logger

from weir.kubernetes.node.pod_groups import PodGroups, containers, counts_device_memory
from weir.kubernetes.node.report_sender import NotDelivered
from weir.kubernetes.usage.node_reports import LIMITED_MAX
from weir.kubernetes.usage.node_shares import PodShare

ASK_S = 15.0
"""Time for which Weir is asked about a new pod, because a replica may learn of a binding later."""
PAUSE_S = 2.0
"""First time between two questions about the same pods; it doubles."""
_LOG = get_logger(__name__)


class LimitDriver(Protocol):
    """The driver of the node's GPUs."""

    def limit_memory(self, gpu: int, group: str, memory: int) -> str:
        """Limit the bytes that a control group may use of a GPU; return the refusal, empty if it is set."""
        ...


class MemoryLimits:
    """Sets the limits of the pods with shares. All calls come from one thread.

    `ask` returns the shares of the node, or raises NotDelivered.
    """

    def __init__(
        self,
        driver: LimitDriver,
        groups: PodGroups,
        ask: Callable[[], Sequence[PodShare]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._groups = groups
        self._ask = ask
        self._now_s = now_s
        self._shares: dict[str, PodShare] = {}
        self._appeared_s: dict[str, float] = {}
        self._ask_at_s, self._pause_s = 0.0, PAUSE_S
        self._set: set[Path] = set()
        self._refused: dict[Path, str] = {}
        self._limited: frozenset[str] = frozenset()
        self._no_answer = ""
        self._trouble = ""

    @property
    def limited(self) -> list[str]:
        """Return the uids of the pods all of whose limits are set."""
        return sorted(self._limited)[:LIMITED_MAX]

    def apply(self, *, is_due: bool) -> None:
        """Set known limits first; then ask for the shares of new pods.

        If `is_due`, a report follows: Weir is asked anyhow, and every limit is set and read back again.
        """
        groups = self._groups.by_pod(is_due=is_due)
        self._see(groups)
        if is_due:
            self._set.clear()
            self._refused.clear()
        self._limit_all(groups)
        if is_due or self._is_asking():
            self._take()
            self._limit_all(groups)
        trouble = self._no_answer or next(iter(self._refused.values()), "")
        if not groups:  # at least the agent's own group should exist
            trouble = f"there is no control group of a pod below {self._groups.root}"
        if trouble and trouble != self._trouble:
            _LOG.warning("memory_not_limited", why=trouble)
        self._trouble = trouble

    def _see(self, groups: Mapping[str, Path]) -> None:
        now_s = self._now_s()
        if not groups.keys() <= self._appeared_s.keys():
            self._ask_at_s, self._pause_s = now_s, PAUSE_S
        self._appeared_s = {uid: self._appeared_s.get(uid, now_s) for uid in groups}

    def _is_asking(self) -> bool:
        """Return True if Weir answers, and a pod without a stated share is due for a question."""
        now_s = self._now_s()
        return (
            not self._no_answer
            and now_s >= self._ask_at_s
            and any(
                now_s - at_s < ASK_S and uid not in self._shares for uid, at_s in self._appeared_s.items()
            )
        )

    def _take(self) -> None:
        """Read the shares of the node from Weir; without an answer, the known ones stay."""
        self._ask_at_s, self._pause_s = self._now_s() + self._pause_s, 2 * self._pause_s
        try:
            self._shares, self._no_answer = {share.uid: share for share in self._ask()}, ""
        except NotDelivered as error:
            self._no_answer = str(error)

    def _limit_all(self, groups: Mapping[str, Path]) -> None:
        """Set the missing limits, and record the pods that have all of theirs."""
        self._limited = frozenset(
            uid for uid in groups.keys() & self._shares.keys() if self._limit_pod(uid, groups[uid])
        )

    def _limit_pod(self, uid: str, pod: Path) -> bool:
        """Set the limits of a pod's groups, whichever fail; return True if all are set."""
        own = [group for group in containers(pod) if counts_device_memory(group)]
        are_set = [self._limit(group, self._shares[uid]) for group in (pod, *own)]
        return all(are_set)

    def _limit(self, group: Path, share: PodShare) -> bool:
        """Return True if a group has its limit, or has ended meanwhile."""
        if group not in self._set and group not in self._refused:
            answers = [self._driver.limit_memory(gpu, str(group), share.memory) for gpu in share.gpus]
            why = next((answer for answer in answers if answer), "")
            if why and group.exists():
                self._refused[group] = why
            elif not why:
                self._set.add(group)
        return group not in self._refused
