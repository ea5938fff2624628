"""The quota tree: departments hold departments or projects, projects hold workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class QueueTimeLimits:
    """A project's time limits in seconds; None: the policy's, 0: no such limit."""

    max_runtime_s: float | None = None
    idle_limit_s: float | None = None
    lifetime_s: float | None = None  # of build sessions
    stop_grace_s: float | None = None  # 0 = stopped without notice


@dataclass(frozen=True, slots=True)
class Queue:
    """A department or a project.

    Amounts are in the units of `weir.model.resources`; a resource missing from `quota` or `limit`
    is unlimited there, one missing from `weight` weighs 1. `gpu.MODEL` names devices of one model.
    """

    name: str
    parent: str | None = None
    is_project: bool = True
    quota: Mapping[str, int] = field(default_factory=dict)
    limit: Mapping[str, int] = field(default_factory=dict)
    weight: Mapping[str, float] = field(default_factory=dict)
    priority: int = 100
    created_s: float = 0.0
    times: QueueTimeLimits = QueueTimeLimits()
    max_priority: int | None = None  # of its members' workloads; None: the default of the pool
    max_priority_of: Mapping[str, int] = field(default_factory=dict)  # by user, in place of `max_priority`
    follows: bool = False  # a department that states no gpu quota: it is the sum of those below
