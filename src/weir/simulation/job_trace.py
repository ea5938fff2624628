"""Job traces: the future of each workload. Only the simulation knows it, never control or the engine."""

from dataclasses import dataclass
from math import inf

from weir.model.workloads import Workload


@dataclass(frozen=True, slots=True)
class JobTrace:
    """A workload of a trace and how it would run.

    `duration_s` is its run with all its pods; with fewer it takes longer in proportion. It saves its
    state every `save_every_s` of run since it last started. A restart costs it `restart_s` more run. Its
    devices idle once it has run for `idle_after_s` since it last started.
    """

    workload: Workload
    duration_s: float = inf
    save_every_s: float | None = None
    restart_s: float = 0.0
    idle_after_s: float = inf
