"""Running pods as columns, a row each: what takes are bounded by before any is looked into."""

import numpy as np
import numpy.typing as npt

from weir.cluster.columns import Ints
from weir.cluster.jobs import Job, Pod

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class RunningColumns:
    """`node[row]` (-1: no pod), its `whole` devices, all `devices` of its job, its `project`.

    `since_s` is when its job last saved its state or started; `restart` is -1 where its job doesn't say
    what a restart costs, and infinite where no pod is or none that may be stopped.
    """

    def __init__(self) -> None:
        size = 64
        self.node: Ints = np.full(size, -1, np.int64)
        self.whole: Ints = np.zeros(size, np.int64)
        self.devices: Floats = np.zeros(size)
        self.restart: Floats = np.full(size, np.inf)
        self.since_s: Floats = np.zeros(size)
        self.project: Ints = np.zeros(size, np.int64)
        self._pods: list[Pod | None] = [None] * size
        self._spare = list(range(size - 1, -1, -1))

    def add(self, pod: Pod, since_s: float) -> None:
        """A pod runs on its node."""
        if not self._spare:
            self._grow()
        row = pod.row = self._spare.pop()
        job = pod.job
        self._pods[row] = pod
        self.node[row] = pod.node
        self.whole[row] = len(pod.devices) if pod.shape.whole else 0
        self.devices[row] = job.devices_milli / 1000
        stated_s = -1.0 if job.restart_s is None else job.restart_s
        self.restart[row] = stated_s if job.preemptible else np.inf
        self.since_s[row] = since_s
        self.project[row] = job.project

    def remove(self, pod: Pod) -> None:
        """A pod no longer runs, or is being stopped."""
        row, pod.row = pod.row, -1
        self._pods[row] = None
        self.node[row] = -1
        self.restart[row] = np.inf
        self._spare.append(row)

    def saved(self, job: Job, at_s: float) -> None:
        """A job saved its state."""
        since_s = self.since_s
        for group in job.pods:
            for pod in group:
                if pod.row >= 0:
                    since_s[pod.row] = at_s

    def _grow(self) -> None:
        size = len(self.node)
        self.node = np.concatenate([self.node, np.full(size, -1, np.int64)])
        self.restart = np.concatenate([self.restart, np.full(size, np.inf)])
        for name in ("whole", "devices", "since_s", "project"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self._pods += [None] * size
        self._spare += range(2 * size - 1, size - 1, -1)

    def jobs_saved_within(self, now_s: float, most: float, restart: float) -> list[Job]:
        """Jobs that may be stopped, without those of whom one pod alone costs more than `most`, by name."""
        lost = self.whole * (now_s - self.since_s)
        lost += np.where(self.restart < 0, restart, self.restart)
        pods = [self._pods[row] for row in np.flatnonzero(lost <= most).tolist()]
        return sorted({pod.job for pod in pods if pod is not None}, key=_name)

    def _prices(self, now_s: float, restart: float) -> Floats:
        """What it costs to move the job of each pod, infinite where it may not be."""
        price = self.devices * (now_s - self.since_s)
        price += np.where(self.restart < 0, restart, self.restart)
        return price

    def takeable(self, asked: Bools) -> Ints:
        """Rows of the pods that may be stopped, of the projects asked."""
        return np.flatnonzero(asked[self.project] & np.isfinite(self.restart))

    def movable_whole(
        self, now_s: float, most: float, restart: float, holes: Ints, projects: Bools | None
    ) -> tuple[Ints, Ints, Floats]:
        """Node, whole devices and price of each pod whose job costs no more than `most` to move.

        A gang may move as one: each of its pods comes with its part of the price.

        `restart` is what a restart costs where a job doesn't say; `holes` are the largest there are by the
        node a pod is on, in whole devices: a larger one can't be moved. `projects` says whose may be, None
        for all.
        """
        price = self._prices(now_s, restart)
        rows = np.flatnonzero(price <= most)  # few of them, so the rest is asked of these alone
        rows = rows[self.whole[rows] <= holes[self.node[rows]]]
        if projects is not None:
            rows = rows[projects[self.project[rows]]]
        part = self.whole[rows] / np.maximum(self.devices[rows], 1e-9)
        return self.node[rows], self.whole[rows], price[rows] * np.minimum(part, 1.0)


def _name(job: Job) -> str:
    return job.name
