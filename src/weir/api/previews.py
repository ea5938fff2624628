"""Answers to changes and submissions that are tried out and not carried out."""

from weir.api.workload_list import Answer, Explanation

QUOTA_EFFECTS_MAX = 100
"""Workloads of each kind that a preview names."""


class QuotaEffect(Answer):
    """A workload that a change of quotas would stop or start."""

    workload: str
    uid: int
    project: str
    user: str
    gpus: float
    sentence: str


class QuotaPreview(Answer):
    """Effect of a change of quotas on the next decision, tried on a copy of the pool."""

    stops: list[QuotaEffect] = []
    starts: list[QuotaEffect] = []
    warnings: list[str] = []  # quotas that would exceed the capacity


class SubmissionPreview(Answer):
    """Outcome of a submission in the next decision: pending, or a start after the evictions in `stops`."""

    starts: bool
    nodes: list[str] = []
    stops: list[str] = []
    reason: Explanation | None = None
