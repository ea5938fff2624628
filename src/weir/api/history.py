"""Answers about the past, with which people decide: waits, time to quota, evictions, cost."""

from typing import Literal

from weir.api.answers import UsageRow
from weir.api.workload_list import Answer, PointInTime, Shown

By = Literal["project", "department", "user", "type", "node", "gpu_model"]


class WaitTimes(Answer):
    """Times in seconds: half of them are at most `p50_s`, 90 % at most `p90_s`, 95 % at most `p95_s`.

    They are None without any times. `rounded`: they are within 2.5 % of the exact ones. More than 10,000
    times, and times whose records are deleted, are kept in buckets.
    """

    count: int = 0
    p50_s: float | None = None
    p90_s: float | None = None
    p95_s: float | None = None
    rounded: bool = False


class HistoryRow(UsageRow):
    """Usage of one key, with its waits, losses and cost.

    `waits`: from submission to the first start, of workloads that first started in the period. `to_quota`:
    from pending to running, of workloads that reclaimed GPUs of their quota.
    """

    waits: WaitTimes = WaitTimes()
    to_quota: WaitTimes = WaitTimes()
    evicted: int = 0
    lost_gpu_s: float = 0.0  # run time lost by evictions, since the last checkpoints
    cost: float | None = None  # None without prices


class EvictionRuleRow(Answer):
    """Evictions by one rule."""

    rule: str
    count: int
    lost_gpu_s: float


class HistoryPoint(Answer):
    """GPU time of all projects in the `span_s` seconds from `at_s` on."""

    at_s: PointInTime
    span_s: float
    allocated_gpu_s: float
    used_gpu_s: float
    over_quota_gpu_s: float
    waiting_s: float


class HistoryReport(Answer):
    """History of a period, by one kind of key. `total` is of all keys together."""

    since_s: PointInTime
    until_s: PointInTime
    by: Shown[By]
    currency: str | None = None
    rows: list[HistoryRow]
    total: HistoryRow
    rules: list[EvictionRuleRow]
    points: list[HistoryPoint]
    note: str | None = None  # sentence about missing data
