"""A full cluster in which small work comes and goes, and the times of its cycles."""

import gc
import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bench.made import NODE_GPUS, Made, node, project, work
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI
from weir.state.events import Checkpointed, NodeSet
from weir.state.reduce import reduce

Row = dict[str, object]
PROJECT_NODES = 10
EVENTS = 100


class Halves(NamedTuple):
    """Pods with half of a device, on one of every few devices, or on the first device alone."""

    pods: int
    every: int | None = None

    def on(self, device: int) -> int:
        """Return the pods that hold half of a device; 0 for a whole one."""
        return self.pods if device == 0 or (self.every is not None and device % self.every == 0) else 0


class Busy:
    """A full cluster in which small work comes and goes."""

    def __init__(
        self, nodes: int, policy: Policy, *, borrowed: float, waiting: int, halves: Halves | None = None
    ) -> None:
        self.gpus = nodes * NODE_GPUS
        self.projects = max(1, nodes // PROJECT_NODES)
        self.chance = random.Random(1)
        quota = int(self.gpus / self.projects * (1 - borrowed))
        self.made = Made(nodes, {project(index): quota for index in range(self.projects)}, policy)
        self.count = 0
        for device in range(self.gpus):
            on = 0 if halves is None else halves.on(device)
            for _ in range(on or 1):
                index = self.count
                milli = WHOLE_MILLI // 2 if on else WHOLE_MILLI
                spec = work(
                    f"job-{index:06d}", project(index % self.projects), index / self.gpus, milli=milli
                )
                self.made.run(spec, (device,))
                self.count += 1
        self.pods = self.count
        self.made.now_s = 3600.0
        for index in range(waiting * self.projects):
            self._submit(index % self.projects)
        for _ in range(3):  # the memory of the engine is warm
            plan, _ = self.made.decide()
            self.made.carry_out(plan)
        self.made.settle()
        frozen()

    def _submit(self, project_: int) -> None:
        self.made.submit(work(f"job-{self.count:06d}", project(project_), self.made.now_s))
        self.count += 1

    def events(self) -> None:
        """40 workloads end, 40 others come, 20 save their state."""
        made = self.made
        made.now_s += 60.0
        running = [name for jobs in made.cluster.running.values() for name in jobs]
        going = self.chance.sample(running, EVENTS * 6 // 10)
        for name in going[: EVENTS * 4 // 10]:
            made.end(name, ran_s=self.chance.lognormvariate(7, 2))
        for _ in range(EVENTS * 4 // 10):
            self._submit(self.chance.randrange(self.projects))
        for name in going[EVENTS * 4 // 10 :]:
            reduce(made.cluster, Checkpointed(name, made.now_s))

    def node_changes(self) -> None:
        """Report a node again, unchanged."""
        self.made.now_s += 60.0
        reduce(self.made.cluster, NodeSet(node(self.chance.randrange(len(self.made.nodes)))))

    def cycle(self, happen: Callable[[], None]) -> float:
        """Return the seconds of the cycle after some events."""
        happen()
        plan, seconds = self.made.decide()
        self.made.carry_out(plan)
        self.made.settle()
        return seconds

    def measured(self, happen: Callable[[], None], cycles: int) -> Row:
        """The cycle that follows, over and over."""
        took = [self.cycle(happen) for _ in range(cycles)]
        return {"workloads": self.pods, **quantiles(took)}


def quantiles(took: list[float]) -> Row:
    """In milliseconds."""
    return {
        "ms_p50": round(float(np.percentile(took, 50)) * 1e3, 3),
        "ms_p99": round(float(np.percentile(took, 99)) * 1e3, 3),
    }


def frozen() -> None:
    """The collector leaves what there is now alone."""
    gc.collect()
    gc.freeze()
