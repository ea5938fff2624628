"""Running pods as columns, a row each: what takes are bounded by before any is looked into."""

import numpy as np
import numpy.typing as npt

from weir.cluster.columns import Ints
from weir.cluster.jobs import Pod

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class RunningColumns:
    """`node[row]` (-1: no pod), its `whole` devices, all `devices` of its job, `project`, if preemptible.

    `since_s` is when its job last saved its state or started.
    """

    def __init__(self) -> None:
        size = 64
        self.node: Ints = np.full(size, -1, np.int64)
        self.whole: Ints = np.zeros(size, np.int64)
        self.devices: Floats = np.zeros(size)
        self.restart: Floats = np.zeros(size)
        self.since_s: Floats = np.zeros(size)
        self.project: Ints = np.zeros(size, np.int64)
        self.preemptible: Bools = np.zeros(size, np.bool_)
        self._row: dict[Pod, int] = {}
        self._spare = list(range(size - 1, -1, -1))

    def add(self, pod: Pod, since_s: float) -> None:
        """A pod runs on its node."""
        if not self._spare:
            self._grow()
        row = self._row[pod] = self._spare.pop()
        job = pod.job
        self.node[row] = pod.node
        self.whole[row] = len(pod.devices) if pod.shape.whole else 0
        self.devices[row] = job.devices_milli / 1000
        self.restart[row] = -1.0 if job.spec.restart_s is None else job.spec.restart_s
        self.since_s[row] = since_s
        self.project[row] = job.project
        self.preemptible[row] = job.spec.preemptible

    def remove(self, pod: Pod) -> None:
        """A pod no longer runs, or is being stopped."""
        row = self._row.pop(pod)
        self.node[row] = -1
        self._spare.append(row)

    def saved(self, pods: list[Pod], at_s: float) -> None:
        """The job of these running pods saved its state."""
        for pod in pods:
            self.since_s[self._row[pod]] = at_s

    def _grow(self) -> None:
        size = len(self.node)
        self.node = np.concatenate([self.node, np.full(size, -1, np.int64)])
        for name in ("whole", "devices", "restart", "since_s", "project", "preemptible"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self._spare += range(2 * size - 1, size - 1, -1)

    def movable_whole(
        self, now_s: float, most: float, restart: float, largest: int, projects: Bools | None
    ) -> tuple[Ints, Ints, Floats]:
        """Node, whole devices and price of each pod whose job costs no more than `most` to move.

        A gang may move as one: each of its pods comes with its part of the price.

        `restart` is what a restart costs where a job doesn't say; `largest` is the largest hole there is,
        in whole devices: a pod larger than it can't be moved. `projects` says whose may be, None for all.
        """
        used = np.flatnonzero((self.node >= 0) & self.preemptible & (self.whole <= largest))
        if projects is not None:
            used = used[projects[self.project[used]]]
        restarts = np.where(self.restart[used] < 0, restart, self.restart[used])
        price = self.devices[used] * (now_s - self.since_s[used]) + restarts
        cheap = price <= most
        rows = used[cheap]
        part = self.whole[rows] / np.maximum(self.devices[rows], 1e-9)
        return self.node[rows], self.whole[rows], price[cheap] * np.minimum(part, 1.0)
