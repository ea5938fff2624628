"""Rules of a project for the work of its people: limits of each person, and defaults of submissions."""

from weir.api.workload_list import Answer, Shown, Type


class PersonLimitsRow(Answer):
    """Limits of a person in a project; None: not stated, 0: no such limit."""

    gpus: float | None = None
    running: int | None = None
    sessions: int | None = None
    pending: int | None = None
    max_runtime: float | None = None  # seconds


class WorkloadDefaultsRow(Answer):
    """Defaults of a project for fields that a submission leaves open; None: those of the pool."""

    type: Shown[Type] | None = None
    priority: int | None = None
    preemptible: bool | None = None
    gpus: float | None = None
    max_runtime: float | None = None  # seconds
    grace: float | None = None  # seconds
