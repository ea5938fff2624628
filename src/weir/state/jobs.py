"""Workloads and pods in the cluster state: their specification and progress."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from enum import IntEnum
from operator import lt
from typing import NamedTuple

from weir.model.reasons import ReasonCode
from weir.model.workloads import WHOLE_MILLI, Workload
from weir.state.budgets import Budget
from weir.state.quota_usage import Amounts
from weir.state.runtime_history import RuntimeKey
from weir.state.shapes import GPU_ROW, RequestShape


class Phase(IntEnum):
    """Phases of a pod.

    A nominated pod has reserved capacity but doesn't run. An absent pod doesn't exist now, although its
    workload requests it. It may have a nomination, too.
    """

    PENDING = 0
    NOMINATED = 1
    RUNNING = 2
    STOPPING = 3
    ABSENT = 4


class Pod:
    """A pod. `node` and `devices` are its allocation; `nomination` are those nominated for it."""

    __slots__ = (
        *("amounts", "budgets", "devices", "group", "index"),
        *("job", "node", "nomination", "phase", "row"),
    )

    def __init__(self, job: "Job", group: int, index: int) -> None:
        self.job = job
        self.group = group
        self.index = index
        self.phase = Phase.PENDING
        self.node = -1
        self.devices: tuple[int, ...] = ()
        self.nomination: tuple[int, tuple[int, ...]] | None = None
        self.amounts: Amounts = ()  # charge in the ledger while it runs or is nominated
        self.row = -1  # row in `RunningColumns`; -1: in none
        self.budgets: tuple[Budget, ...] = ()  # disruption budgets that its eviction counts against

    @property
    def shape(self) -> RequestShape:
        """Return the request shape of its group."""
        return self.job.shapes[self.group]

    def charge_milli(self) -> int:
        """Return its charge to quotas, in thousandths of GPUs."""
        return sum([amount for row, amount in self.amounts if row == GPU_ROW])

    def gpu_milli(self) -> int:
        """Return the thousandths of devices that are allocated to it."""
        charge = self.charge_milli()
        return self.shape.devices_milli(charge) if charge else 0


def counts_in_parts(shape: RequestShape) -> bool:
    """Return True if a pod may be charged a part of a GPU: its devices are shared or have a weight."""
    return bool(shape.devices) and (not shape.whole or shape.gpu_weight_milli != WHOLE_MILLI)


def devices_asked(shapes: Sequence[RequestShape], requests: Sequence[Amounts]) -> tuple[int, ...]:
    """Return the thousandths of devices that a pending pod of each group requests."""
    charges = [sum([amount for row, amount in ask if row == GPU_ROW]) for ask in requests]
    return tuple([shape.devices_milli(charge) for shape, charge in zip(shapes, charges, strict=True)])


def devices_of_charge(job: "Job", charge_milli: int) -> int:
    """Return the thousandths of devices of a charge by parts of a workload."""
    weights = [shape.gpu_weight_milli for shape in job.shapes if shape.devices]
    weight = max(weights, default=WHOLE_MILLI)
    return charge_milli if weight == WHOLE_MILLI else -(-charge_milli * WHOLE_MILLI // weight)


class JobTerms(NamedTuple):
    """Values of a workload that the engine uses."""

    shapes: tuple[RequestShape, ...]  # by group
    requests: tuple[Amounts, ...]  # charge of a pending pod, by group
    path: tuple[int, ...]  # its queues, from project to top
    like: RuntimeKey
    devices_milli: int  # of the whole gang, in thousandths


class Job:
    """A workload and its pods. Times in seconds of the cluster's clock.

    Values that are read often are copied from the `spec`.
    """

    __slots__ = (
        *("absent", "absent_since_s", "below_since_s", "blocked_since_s", "can_preempt", "devices_milli"),
        *("held", "held_code", "held_devices", "held_until_s", "held_why", "is_elastic", "like"),
        *("max_runtime_s", "name", "needed", "nomination_freed_by", "path", "pending", "placed"),
        *("pod_milli", "pods", "preemptible", "priority", "project", "ran_s", "requests"),
        *("restart_s", "running", "saved_s", "shapes", "sharing", "since_s", "spec", "started_s"),
        *("stopped_for", "stopping", "submitted_s", "topology", "type", "waiting"),
        *("waits_since_s", "withheld"),
    )

    def __init__(self, spec: Workload, terms: JobTerms) -> None:
        self.pods: list[list[Pod]] = []
        self.running: list[Pod] | None = None  # cached running pods; None after a change
        # Cached result of `devices_held`; None after a change
        self.held_devices: tuple[float, float] | None = None
        self.take_on(spec, terms)
        self.stopping = 0
        self.waits_since_s = spec.submitted_s  # submission, or its last stop
        self.ran_s = 0.0  # run time of earlier runs that it keeps
        self.started_s: float | None = None
        self.saved_s: float | None = None
        self.since_s = 0.0  # its last checkpoint or start: work since then would be lost
        self.below_since_s: float | None = None
        self.absent_since_s: float | None = None  # since when a nominated pod doesn't exist
        self.held = False
        self.held_code = ReasonCode.SUSPENDED
        self.withheld = False  # its person has reached a limit
        self.held_why = ""
        self.held_until_s: float | None = None  # it resumes automatically then
        self.nomination_freed_by: tuple[str, ...] = ()
        self.blocked_since_s: float | None = None  # since when its nominated capacity can't become free
        # Beneficiaries of its evictions since its last start, with times
        self.stopped_for: dict[str, float] = {}
        self.waiting: EquivalenceClass | None = None

    def take_on(self, spec: Workload, terms: JobTerms) -> None:
        """Replace the specification. Pods keep their nodes; pods beyond the new one must hold nothing."""
        self.spec = spec
        self.name, self.type, self.submitted_s = spec.name, spec.type, spec.submitted_s
        self.priority = spec.priority
        self.preemptible = spec.preemptible or spec.unprotected
        self.can_preempt = spec.can_preempt and not spec.unprotected
        self.topology, self.restart_s, self.max_runtime_s = spec.topology, spec.restart_s, spec.max_runtime_s
        self.shapes, self.requests, path, self.like, self.devices_milli = terms
        self.pod_milli = devices_asked(self.shapes, self.requests)
        self.belong(path)
        groups = zip(spec.groups, self.shapes, strict=True)
        # Number of pods with parts of devices
        self.sharing = sum([group.count for group, shape in groups if counts_in_parts(shape)])
        self.forget_running()
        fresh = not self.pods
        del self.pods[len(spec.groups) :]
        for group_index, group in enumerate(spec.groups):
            if group_index == len(self.pods):
                self.pods.append([])
            pods = self.pods[group_index]
            del pods[group.count :]
            pods += [Pod(self, group_index, index) for index in range(len(pods), group.count)]
        if fresh:
            self.placed = [0] * len(spec.groups)  # pods of each group that run or have capacity nominated
            self.pending = [group.count for group in spec.groups]  # pods of each group that may be placed
            self.absent = [0] * len(spec.groups)  # pods of each group that don't exist
            self.needed = spec.needed()
            self.is_elastic = sum(self.needed) < spec.pods
        else:
            self.tally()

    def belong(self, path: tuple[int, ...]) -> None:
        """Set the project: the last queue of this path, whose queues are given by position."""
        self.path = path
        self.project = path[-1]

    def tally(self) -> None:
        """Count its pods by phase."""

        def counted(phase: Phase) -> list[int]:
            return [sum(pod.phase is phase for pod in group) for group in self.pods]

        self.placed = [
            sum(pod.phase is Phase.RUNNING or pod.nomination is not None for pod in group)
            for group in self.pods
        ]
        self.pending = counted(Phase.PENDING)
        self.absent = counted(Phase.ABSENT)
        self.needed = self.spec.needed(self.absent)
        self.is_elastic = sum(self.needed) < self.spec.pods

    @property
    def is_running(self) -> bool:
        """Return True if any of its pods is allocated or nominated."""
        return any(self.placed)

    @property
    def is_ready(self) -> bool:
        """Return True if as many pods exist as its gang needs."""
        return not any(self.absent) or all(
            group.count - absent >= need
            for group, absent, need in zip(self.spec.groups, self.absent, self.needed, strict=True)
        )

    @property
    def asks_now(self) -> bool:
        """Return True if its pending pods count as requests."""
        return not self.held and not self.withheld and self.is_ready

    def most(self) -> list[int]:
        """Return for each group the number of pods possible without absent ones."""
        return [have + pending for have, pending in zip(self.placed, self.pending, strict=True)]

    def lacks(self) -> list[int]:
        """Return for each group the number of pods that its gang lacks."""
        return [max(0, need - placed) for need, placed in zip(self.needed, self.placed, strict=True)]

    def is_below(self) -> bool:
        """Return True if its gang is incomplete."""
        return any(map(lt, self.placed, self.needed))

    def holds_capacity(self) -> bool:
        """Return True if any of its pods runs or is being stopped."""
        return any(pod.node >= 0 for group in self.pods for pod in group)

    def running_pods(self) -> list[Pod]:
        """Return its running pods, by group and index; a shared list that never changes."""
        if self.running is None:
            self.running = [pod for group in self.pods for pod in group if pod.phase is Phase.RUNNING]
        return self.running

    def devices_held(self) -> tuple[float, float]:
        """Return the devices of its running pods, with fractions, and the most of them on one node."""
        if self.held_devices is None:
            on_node: dict[int, int] = {}
            for pod in self.running_pods():
                on_node[pod.node] = on_node.get(pod.node, 0) + pod.gpu_milli()
            milli = sum(on_node.values()), max(on_node.values(), default=0)
            self.held_devices = milli[0] / WHOLE_MILLI, milli[1] / WHOLE_MILLI
        return self.held_devices

    def forget_running(self) -> None:
        """Drop the cached values of its running pods, after any change of them."""
        self.running = self.held_devices = None

    def pending_pods(self, group: int) -> list[Pod]:
        """Return the pods of a group that could be placed now, by index."""
        return [pod for pod in self.pods[group] if pod.phase is Phase.PENDING]


ClassKey = tuple[object, ...]


class NextStep:
    """Next request of a pending workload: the rest of its gang, or one more elastic pod.

    An elastic pod belongs to group number `choice` of those that can have one more, highest order first.
    """

    __slots__ = ("choices", "elastic", "gpu_milli", "lacks", "request", "standing")

    def __init__(self, job: Job, placed: Sequence[int], choice: int = 0) -> None:
        self.lacks = [max(0, need - have) for need, have in zip(job.needed, placed, strict=True)]
        self.elastic = not any(self.lacks)
        self.choices: tuple[int, ...] = ()  # groups it could grow by, in the order of attempts
        if self.elastic:
            self.choices = _open_groups(job, placed)
            self.lacks[self.choices[choice]] = 1
        self.request = _request_of(job, self.lacks)
        self.gpu_milli = sum([milli * lack for milli, lack in zip(job.pod_milli, self.lacks, strict=True)])
        self.standing = 0 if not self.elastic else 1 if sum(placed) == sum(job.needed) else 2


def _open_groups(job: Job, placed: Sequence[int]) -> tuple[int, ...]:
    """Return the groups that can still add an elastic pod, highest order first."""
    groups = job.spec.groups
    open_ = [group for group, most in enumerate(job.most()) if placed[group] < most]
    return tuple(sorted(open_, key=lambda group: (-groups[group].order, group)))


def _request_of(job: Job, lacks: Sequence[int]) -> Amounts:
    """Return the charge of a step's pods together."""
    if sum(lacks) == 1:
        return job.requests[lacks.index(1)]
    total: dict[int, int] = {}
    for group, pods in enumerate(lacks):
        if pods:
            for row, amount in job.requests[group]:
                total[row] = total.get(row, 0) + amount * pods
    return tuple(total.items())


Size = tuple[tuple[int, int], ...]
"""For each group its shape, by number, and its number of pods."""
Wants = tuple[tuple[int, ...], Size]
"""Groups by which a workload may grow, with their missing pods."""


class EquivalenceClass:
    """Pending workloads that are equal except for their age. A decision on one holds for all.

    `members` are (submitted, name, job), oldest first. `step` is the next request of each. `wants` is the
    same as plain numbers: the shape of each group and its number of missing pods. `gang` is such a list for
    the whole minimum.
    """

    __slots__ = ("gang", "key", "members", "number", "project", "shapes", "step", "wants")

    def __init__(self, key: ClassKey, job: Job, number: int) -> None:
        self.key = key
        self.project = job.project
        self.number = number
        self.step = NextStep(job, job.placed)
        step = self.step  # a gang needs capacity for all these shapes, an elastic pod for one
        groups = step.choices or [group for group, lack in enumerate(step.lacks) if lack]
        ids = [shape.id for shape in job.shapes]
        self.shapes = tuple(sorted({ids[group] for group in groups}))
        self.wants: Wants = step.choices, tuple(zip(ids, step.lacks, strict=True))
        self.gang = tuple(zip(ids, job.needed, strict=True))
        self.members: list[tuple[float, str, Job]] = []

    def copy(self) -> "EquivalenceClass":
        """Return a class with the same members and the same request."""
        made = EquivalenceClass.__new__(EquivalenceClass)
        made.key, made.project, made.number, made.step = self.key, self.project, self.number, self.step
        made.shapes, made.wants, made.gang = self.shapes, self.wants, self.gang
        made.members = self.members.copy()
        return made

    def line_key(self, index: int) -> tuple[float, int, float, str]:
        """Return the sort key of a member in its project: priority, standing, age, name."""
        submitted_s, name, job = self.members[index]
        return (-float(job.priority), self.step.standing, submitted_s, name)

    def position_of(self, job: "Job") -> int:
        """Return the position of a member."""
        return next(index for index, member in enumerate(self.members) if member[2] is job)

    def lack_of(self, shape: int) -> int:
        """Return the number of pods of a shape that it requests."""
        return sum([lack for wanted, lack in self.wants[1] if wanted == shape])

    @property
    def first(self) -> Job:
        """Return its oldest member."""
        return self.members[0][2]

    def add(self, job: Job) -> None:
        """Add a workload at its age."""
        insort(self.members, (job.submitted_s, job.name, job))

    def remove(self, job: Job) -> None:
        """Remove a workload that is in the class."""
        index = bisect_left(self.members, (job.submitted_s, job.name))
        assert self.members[index][2] is job
        del self.members[index]
