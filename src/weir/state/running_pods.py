"""Running pods as columns, one row each, for upper bounds on preemptions before victims are examined."""

from collections.abc import Iterable, Mapping

import numpy as np

from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Floats, Ints
from weir.state.jobs import Job, Pod

_COLUMNS = ("whole", "on", "milli", "gpu_memory", "devices", "part", "since_s", "submitted_s", "project")
"""Columns that are zero in a row without a pod."""


class RunningColumns:
    """Running pods by row: node, devices, project, and the cost of stopping or moving them.

    `node[row]` is -1 without a pod. `whole` are the exclusive devices of the pod, `devices` the least that
    its job needs. `on` counts the devices that it uses, in whole or in part, and `milli` the thousandths of
    them that it is charged. `gpu_memory` are the bytes that it asks for of each. `part` is its part of the
    devices of the complete job, and so of the price of a restart. `since_s` is the last checkpoint or start
    of its job, `submitted_s` its submission. `restart` is -1 if the job states no restart cost, and infinite
    without a pod that may be stopped.
    """

    def __init__(self) -> None:
        size = 64
        self.node: Ints = np.full(size, -1, np.int64)
        self.whole: Ints = np.zeros(size, np.int64)
        self.on: Ints = np.zeros(size, np.int64)
        self.milli: Ints = np.zeros(size, np.int64)
        self.gpu_memory: Ints = np.zeros(size, np.int64)
        self.devices: Floats = np.zeros(size)
        self.part: Floats = np.zeros(size)
        self.restart: Floats = np.full(size, np.inf)
        self.since_s: Floats = np.zeros(size)
        self.submitted_s: Floats = np.zeros(size)
        self.project: Ints = np.zeros(size, np.int64)
        self._pods: list[Pod | None] = [None] * size
        self._spare = list(range(size - 1, -1, -1))

    def branch(self, copies: Mapping[Job, Job]) -> "RunningColumns":
        """Return a copy with copies of some jobs in their places; no pods may be added to it."""
        branch = RunningColumns()
        branch.node, branch.restart = self.node.copy(), self.restart.copy()
        branch.whole, branch.on, branch.milli = self.whole, self.on, self.milli
        branch.gpu_memory, branch.devices, branch.part = self.gpu_memory, self.devices, self.part
        branch.since_s, branch.submitted_s = self.since_s, self.submitted_s
        branch.project = self.project.copy()
        branch._pods, branch._spare = self._pods.copy(), self._spare.copy()
        for job in copies.values():
            for pod in job.running_pods():
                branch._pods[pod.row] = pod
        return branch

    def add(self, pod: Pod, since_s: float) -> None:
        """Add a running pod to its node."""
        if not self._spare:
            self._grow()
        row = pod.row = self._spare.pop()
        job = pod.job
        self._pods[row] = pod
        self.node[row] = pod.node
        self.whole[row] = len(pod.devices) if pod.shape.whole else 0
        self.on[row] = len(pod.devices)
        self._size(row, pod, job)
        stated_s = -1.0 if job.restart_s is None else job.restart_s
        self.restart[row] = stated_s if job.preemptible else np.inf
        self.since_s[row] = since_s
        self.submitted_s[row] = job.submitted_s
        self.project[row] = job.project

    def _size(self, row: int, pod: Pod, job: Job) -> None:
        """Set the columns that depend on the size of the pod and of its job."""
        milli, self.gpu_memory[row] = pod.gpu_milli(), pod.shape.gpu_memory
        self.milli[row] = milli
        if job.sharing and any(shape.gpu_memory for shape in job.shapes):
            # The memory of its devices decides the part of a device that it is charged.
            alone = sum([group.count for group in job.spec.groups]) == 1
            self.devices[row] = milli / WHOLE_MILLI
            self.part[row] = 1.0 if alone else 0.0
        else:
            groups = zip(job.pod_milli, job.spec.groups, strict=True)
            complete = sum([pod_milli * group.count for pod_milli, group in groups])
            self.devices[row] = _least_milli(job) / WHOLE_MILLI
            self.part[row] = min(milli / max(complete, 1), 1.0)

    def remove(self, pod: Pod) -> None:
        """Remove a pod that no longer runs or is terminating."""
        row, pod.row = pod.row, -1
        self._pods[row] = None
        self.node[row] = -1
        self.restart[row] = np.inf
        self._spare.append(row)

    def belong(self, job: Job) -> None:
        """Set the project of a job's running pods: the positions of queues change with the tree."""
        for pod in job.running_pods():
            self.project[pod.row] = job.project

    def saved(self, job: Job, at_s: float) -> None:
        """Record a checkpoint of a job."""
        since_s = self.since_s
        for group in job.pods:
            for pod in group:
                if pod.row >= 0:
                    since_s[pod.row] = at_s

    def _grow(self) -> None:
        size = len(self.node)
        self.node = np.concatenate([self.node, np.full(size, -1, np.int64)])
        self.restart = np.concatenate([self.restart, np.full(size, np.inf)])
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self._pods += [None] * size
        self._spare += range(2 * size - 1, size - 1, -1)

    def saved_within(self, now_s: float, most: float, restart: float, free_block: int) -> Ints:
        """Return the rows of pods of preemptible jobs that cost at most `most` alone and fit a free block.

        An exclusive pod fits `free_block` devices at most.
        """
        lost = self.milli / WHOLE_MILLI * (now_s - self.since_s)
        lost += np.where(self.restart < 0, restart, self.restart)
        return np.flatnonzero((lost <= most) & (self.whole <= free_block))

    def jobs_of(self, rows: Ints) -> list[Job]:
        """Return the jobs of the pods in these rows, by name."""
        pods = [self._pods[row] for row in rows.tolist()]
        return sorted({pod.job for pod in pods if pod is not None}, key=_name)

    def takeable(self, asked: Bools) -> Ints:
        """Return the rows of the pods of these projects that may be stopped."""
        rows = np.flatnonzero(np.isfinite(self.restart))  # a row without a pod has an outdated project
        return rows[asked[self.project[rows]]]

    def movable(
        self,
        now_s: float,
        most: float,
        restart: float,
        free_blocks: Ints,
        projects: Bools | None,
        broken: Iterable[Job],
    ) -> tuple[Ints, Floats]:
        """Return row and price of each pod whose job costs at most `most` to move.

        All pods of a job may move together: the price of each is the work that it loses, and its part of the
        restart. `restart` is the restart cost of jobs that state none. `free_blocks` are the largest free
        blocks by the node of a pod, in whole devices: a larger pod can't be moved. `projects` are those whose
        pods may move, None for all. `broken` are gangs below their minimum.
        """
        lost, again = now_s - self.since_s, np.where(self.restart < 0, restart, self.restart)
        price: Floats = self.devices * lost + again  # infinite for pods that can't be moved
        for job in broken:  # gangs below their minimum
            for pod in job.running_pods():
                price[pod.row] = job.devices_held()[0] * lost[pod.row] + again[pod.row]
        rows = np.flatnonzero((price <= most) & np.isfinite(price))  # few, so slower checks follow
        rows = rows[self.whole[rows] <= free_blocks[self.node[rows]]]
        if projects is not None:
            rows = rows[projects[self.project[rows]]]
        return rows, self.milli[rows] / WHOLE_MILLI * lost[rows] + again[rows] * self.part[rows]


def held_milli(running: RunningColumns, device_memory: Ints) -> Ints:
    """Return by row the most thousandths of devices that a pod holds, with this device memory by node.

    The memory of a node's devices may be corrected while pods run. Their charge stays, and the part of a
    device that they hold changes.
    """
    asked = running.gpu_memory
    if not asked.any():
        return running.milli
    memory = device_memory[running.node]  # a row without a pod has any value
    part = np.where(memory > 0, asked * WHOLE_MILLI // np.maximum(memory, 1), WHOLE_MILLI)
    held: Ints = np.maximum(running.milli, np.where(asked > 0, running.on * part, 0))
    return held


def _least_milli(job: Job) -> int:
    """Return the least thousandths of devices of a complete gang, whichever of its pods exist."""
    minima = [group.min for group in job.spec.groups]
    others = job.spec.min_pods - sum(minima)  # pods of any groups
    if others <= 0 or len(minima) == 1:
        return job.devices_milli
    stated = sum([milli * least for milli, least in zip(job.pod_milli, minima, strict=True)])
    return stated + others * min(job.pod_milli)


def _name(job: Job) -> str:
    return job.name
