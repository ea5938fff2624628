"""Headroom for sessions of a cluster: learned from its history while this replica leads and writes it."""

import time
from collections.abc import Callable, Sequence

from structlog import get_logger

from weir.control.session_headroom import (
    LearnedHeadroom,
    SessionStart,
    learned_headroom,
    summer_times_s,
    with_headroom,
)
from weir.model.policy import Policy
from weir.service.control_thread import ControlThread

COUNT_S = 30.0
_LOG = get_logger(__name__)


def count_gpus(thread: ControlThread | None) -> int:
    """Return the GPUs of all nodes; 0 while control doesn't run.

    Raises:
        ControlUnavailable: control doesn't answer now.
    """
    if thread is None:
        return 0
    return thread.query(lambda cluster: sum(node.gpus for node in cluster.nodes if node)).result(COUNT_S)


class ClusterHeadroom:
    """Last learned headroom of a scheduler process. `seen` comes from another thread."""

    def __init__(
        self,
        devices_max: Callable[[], int],
        devices: Callable[[], int],
        changed: Callable[[], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Learn at most `devices_max` of the cluster's `devices`; `changed` has the policy applied again.

        `clock` is that of the sessions' times.
        """
        self._clock = clock
        self._devices_max = devices_max
        self._devices = devices
        self._changed = changed
        self._total = 0
        self.learned: LearnedHeadroom | None = None

    def seen(self, starts: Sequence[SessionStart], known_since_s: float) -> None:
        """Learn from the sessions of past weeks; if that fails, the headroom stays the same."""
        try:
            self._learn(starts, known_since_s)
        except Exception as error:  # noqa: BLE001 - the history is stored all the same
            _LOG.warning("headroom_not_learned", kind=type(error).__name__, why=str(error))

    def _learn(self, starts: Sequence[SessionStart], known_since_s: float) -> None:
        limit, before = self._devices_max(), self.learned
        if not limit:
            self.learned = None
        else:
            now_s, self._total = self._clock(), self._devices()
            self.learned = learned_headroom(
                starts,
                now_s=now_s,
                known_since_s=known_since_s,
                limit=min(limit, self._total),
                offsets_s=summer_times_s(now_s),
            )
        count, old = (0 if headroom is None else headroom.devices for headroom in (self.learned, before))
        if count != old:
            why = "" if self.learned is None else self.learned.sentence
            _LOG.info("headroom_changed", gpus=count, why=why)
            self._changed()

    def applied(self, policy: Policy) -> Policy:
        """Return a policy with the headroom that is learned."""
        learned = self.learned if self._devices_max() else None
        return policy if learned is None else with_headroom(policy, learned.devices, self._total)
