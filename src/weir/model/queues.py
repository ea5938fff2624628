"""The quota tree: departments hold departments or projects, projects hold workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.model.workloads import WorkloadType


@dataclass(frozen=True, slots=True)
class QueueTimeLimits:
    """A project's time limits in seconds; None: the policy's, 0: no such limit."""

    max_runtime_s: float | None = None
    idle_limit_s: float | None = None
    lifetime_s: float | None = None  # maximum age of build sessions
    stop_grace_s: float | None = None  # 0: stop without notice
    idle_notice_s: float | None = None
    idle_unprotect_s: float | None = None
    idle_suspend_s: float | None = None


@dataclass(frozen=True, slots=True)
class PersonLimits:
    """Limits of one person in a project; None: not stated, 0: no such limit.

    `gpus_milli`, `running` and `sessions` bound the work that runs at one time; further work waits.
    """

    gpus_milli: int | None = None  # sum over workloads, with all their pods
    running: int | None = None  # workloads
    sessions: int | None = None  # number of build workloads
    pending: int | None = None  # workloads
    max_runtime_s: float | None = None

    def over(self, general: "PersonLimits") -> "PersonLimits":
        """Return these limits, completed by those for everybody."""
        return PersonLimits(
            general.gpus_milli if self.gpus_milli is None else self.gpus_milli,
            general.running if self.running is None else self.running,
            general.sessions if self.sessions is None else self.sessions,
            general.pending if self.pending is None else self.pending,
            general.max_runtime_s if self.max_runtime_s is None else self.max_runtime_s,
        )

    @property
    def binds_running(self) -> bool:
        """Return True if a limit bounds the work that runs at one time."""
        return bool(self.gpus_milli or self.running or self.sessions)


@dataclass(frozen=True, slots=True)
class WorkloadDefaults:
    """Defaults of a project for fields that a submission leaves open; None: those of the pool.

    `gpus_milli` is of each pod, for submissions that say nothing of GPUs in any group.
    """

    type: WorkloadType | None = None
    priority: int | None = None
    preemptible: bool | None = None
    gpus_milli: int | None = None
    max_runtime_s: float | None = None
    grace_s: float | None = None


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
    max_priority: int | None = None  # limit for workloads of its members; None: the default of the pool
    max_priority_of: Mapping[str, int] = field(default_factory=dict)  # by user, in place of `max_priority`
    person_limits: PersonLimits = PersonLimits()  # limits of each person
    # By user, in place of `person_limits`
    person_limits_of: Mapping[str, PersonLimits] = field(default_factory=dict)
    defaults: WorkloadDefaults = WorkloadDefaults()
    follows: bool = False  # a department without a gpu quota: its quota is the sum of its children's

    def limits_of(self, user: str) -> PersonLimits:
        """Return the limits of a person in this project."""
        own = self.person_limits_of.get(user)
        return self.person_limits if own is None else own.over(self.person_limits)

    @property
    def limits_persons(self) -> bool:
        """Return True if any person's running work is limited."""
        return self.person_limits.binds_running or any(
            limits.binds_running for limits in self.person_limits_of.values()
        )
