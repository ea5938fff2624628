"""Limits of the driver for the memory that a pod may use of the GPUs that it shares.

Weir states the shares of the node. Each limit is set for the control group of the pod and for those of its
containers, as they appear. The driver forgets the limits of a group with the group, and all when it is loaded
again: so each is set and read back once more with every regular answer of Weir.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from structlog import get_logger

from weir.kubernetes.node.pod_groups import PodGroups, containers
from weir.kubernetes.node.report_sender import NotDelivered
from weir.kubernetes.usage.node_reports import LIMITED_MAX
from weir.kubernetes.usage.node_shares import PodShare

ASK_S = 15.0
"""Time in which Weir is asked about a pod that has appeared: a replica may hear of a binding a bit later."""
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
        self._set: set[Path] = set()
        self._refused: dict[Path, str] = {}
        self._limited: frozenset[str] = frozenset()
        self._no_answer = ""
        self._trouble = ""

    @property
    def limited(self) -> list[str]:
        """Return the uids of the pods all of whose groups have their limits."""
        return sorted(self._limited)[:LIMITED_MAX]

    def look(self, *, is_due: bool) -> bool:
        """Set limits; return True if other pods than before have all of theirs.

        If `is_due`, each is set again. In between, Weir is asked about pods that have appeared, unless its
        last answer is missing.
        """
        groups = self._groups.by_pod()
        now_s = self._now_s()
        self._appeared_s = {uid: self._appeared_s.get(uid, now_s) for uid in groups}
        if is_due:
            self._set.clear()
            self._refused.clear()
        if is_due or (not self._no_answer and self._is_new(now_s)):
            self._take()
        before, self._limited = self._limited, self._limit_all(groups)
        trouble = self._no_answer or next(iter(self._refused.values()), "")
        if trouble and trouble != self._trouble:
            _LOG.warning("memory_not_limited", why=trouble)
        self._trouble = trouble
        return self._limited != before

    def _is_new(self, now_s: float) -> bool:
        """Return True if a pod has appeared that Weir hasn't stated a share of."""
        return any(now_s - at_s < ASK_S and uid not in self._shares for uid, at_s in self._appeared_s.items())

    def _take(self) -> None:
        """Ask for the shares of the node; those that are known stay without an answer."""
        try:
            shares = {each.uid: each for each in self._ask()}
        except NotDelivered as error:
            self._no_answer = str(error)
            return
        self._shares, self._no_answer = shares, ""

    def _limit_all(self, groups: Mapping[str, Path]) -> frozenset[str]:
        """Set the limits that aren't set; return the pods with a container that have all of theirs."""
        limited = set()
        for uid in groups.keys() & self._shares.keys():
            of_containers = containers(groups[uid])
            each_set = [self._limit(group, self._shares[uid]) for group in (groups[uid], *of_containers)]
            if of_containers and all(each_set):
                limited.add(uid)
        return frozenset(limited)

    def _limit(self, group: Path, share: PodShare) -> bool:
        if group not in self._set and group not in self._refused:
            answers = [self._driver.limit_memory(gpu, str(group), share.memory) for gpu in share.gpus]
            why = next((each for each in answers if each), "")
            if not why:
                self._set.add(group)
            elif group.exists():  # else it has ended meanwhile
                self._refused[group] = why
        return group in self._set
