"""Use of GPUs by project, namespace and type, in periods that add up."""

import math

from weir.api.answers import QueueRow
from weir.kubernetes.history.usage_samples import sample_periods, usage_samples
from weir.kubernetes.query.usage.past_workloads import PastEviction, UsageHistoryEntry, UsageSpan

T0 = 1_769_860_800.0
QUEUES = {"vision": QueueRow(name="vision", kind="project", parent="lab", quota={"gpu": 2.0})}


def entry(namespace: str, gpus: float, *, type_: str = "train", user: str = "") -> UsageHistoryEntry:
    """Return a workload that waits for 100 s, runs for 900 s, and was evicted once."""
    past = UsageHistoryEntry(namespace, "vision", type_, T0, user=user)
    past.spans = [UsageSpan(T0, 0.0, waits=True), UsageSpan(T0 + 100, gpus, waits=False)]
    past.spans.append(UsageSpan(T0 + 1000, 0.0, waits=False))
    past.ended_s = T0 + 1000
    past.evictions = [PastEviction(T0 + 500, "reclaim_quota")]
    past.uses = {int(T0): (200.0 * gpus, 100.0 * gpus), int(T0) + 300: (300.0 * gpus, 150.0 * gpus)}
    return past


def test_periods_are_within_an_hour_each_and_leave_nothing_out() -> None:
    periods = list(sample_periods(T0 - 600, T0 + 7500))
    assert periods == [(T0 - 600, T0), (T0, T0 + 3600), (T0 + 3600, T0 + 7200), (T0 + 7200, T0 + 7500)]
    assert list(sample_periods(T0, T0)) == []


def test_sums_are_of_each_namespace_and_over_quota_is_shared_by_what_was_held() -> None:
    past = [entry("a", 2.0), entry("a", 1.0, type_="build"), entry("b", 1.0)]
    (whole,) = (usage_samples(past, QUEUES, T0, T0 + 3600),)
    found = {(use.namespace, use.type): use for use in whole.uses}
    assert {key: use.allocated_gpu_s for key, use in found.items()} == {
        ("a", "train"): 1800.0,
        ("a", "build"): 900.0,
        ("b", "train"): 900.0,
    }
    assert all(
        (use.department, use.node, use.waiting_s, use.preempted) == ("lab", "", 100.0, 1)
        for use in whole.uses
    )
    assert math.isclose(sum(use.over_quota_gpu_s for use in whole.uses), 900 * 2.0)
    assert math.isclose(found["a", "train"].over_quota_gpu_s, 900.0)
    assert (found["b", "train"].seen_gpu_s, found["b", "train"].used_gpu_s) == (500.0, 250.0)


def test_sums_of_a_namespace_are_of_each_person() -> None:
    past = [entry("a", 2.0, user="ann"), entry("a", 1.0, user="bob"), entry("a", 1.0)]
    found = usage_samples(past, QUEUES, T0, T0 + 3600).uses
    assert {use.user: use.allocated_gpu_s for use in found} == {"ann": 1800.0, "bob": 900.0, "": 900.0}
    assert {use.namespace for use in found} == {"a"}
    assert math.isclose(sum(use.over_quota_gpu_s for use in found), 900 * 2.0)


def test_parts_of_a_time_add_up_to_the_whole() -> None:
    past = [entry("a", 2.0), entry("b", 1.0)]
    whole = usage_samples(past, QUEUES, T0, T0 + 1200)
    parts = [usage_samples(past, QUEUES, T0 + at, T0 + at + 300) for at in range(0, 1200, 300)]
    for name in ("allocated_gpu_s", "seen_gpu_s", "used_gpu_s", "over_quota_gpu_s", "waiting_s", "preempted"):
        sums = [sum(getattr(use, name) for part in parts for use in part.uses)]
        assert math.isclose(sums[0], sum(getattr(use, name) for use in whole.uses)), name


def test_a_time_without_work_has_no_rows() -> None:
    assert list(usage_samples([entry("a", 2.0)], QUEUES, T0 + 3600, T0 + 7200).uses) == []
