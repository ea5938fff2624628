"""The last minutes in memory are added to what is stored, each time once."""

from typing import Any

from weir.api.answers import UsageReport, UsageRow
from weir.api.history import HistoryPoint, HistoryReport, HistoryRow
from weir.kubernetes.history.recent_part import history_with_recent, named, usage_with_recent

T0 = 1_769_860_800.0


def sums(key: str, gpu_s: float, **more: Any) -> dict[str, Any]:
    counts = {"waiting_s": 1.0, "workloads": 2, "ended": 1, "preempted": 0, "over_quota_gpu_s": 0.5}
    return {"key": key, "allocated_gpu_s": gpu_s, "used_gpu_s": None, "idle_gpu_s": None, **counts, **more}


def usage(*rows: dict[str, Any], by: Any = "department") -> UsageReport:
    return UsageReport(since_s=T0, until_s=T0 + 60, by=by, rows=[UsageRow(**row) for row in rows])


def history(*rows: dict[str, Any]) -> HistoryReport:
    point = HistoryPoint(at_s=T0, span_s=60, allocated_gpu_s=1, used_gpu_s=0, over_quota_gpu_s=0, waiting_s=0)
    found = [HistoryRow(**row) for row in rows]
    return HistoryReport(
        since_s=T0, until_s=T0 + 60, by="project", rows=found, total=found[0], rules=[], points=[point]
    )


def test_gpu_time_is_added_by_key_and_workloads_are_those_of_the_database() -> None:
    recent = usage(sums("lab", 5.0, used_gpu_s=2.0), sums("-", 7.0), sums("new", 1.0))
    stored = usage(sums("lab", 10.0, used_gpu_s=4.0), sums("", 100.0))
    found = usage_with_recent(named(stored), recent, T0 + 90)
    assert [(row.key, row.allocated_gpu_s, row.used_gpu_s, row.workloads) for row in found.rows] == [
        ("-", 107.0, None, 2),
        ("lab", 15.0, 6.0, 2),
        ("new", 1.0, None, 0),
    ]
    assert (found.until_s, found.rows[0].waiting_s) == (T0 + 90, 2.0)


def test_a_project_without_a_name_stays_one() -> None:
    found = usage_with_recent(usage(sums("-", 1.0), by="project"), usage(sums("-", 2.0), by="project"), T0)
    assert [(row.key, row.allocated_gpu_s) for row in found.rows] == [("-", 3.0)]


def test_total_and_curve_go_on_to_the_present() -> None:
    found = history_with_recent(history(sums("vision", 10.0)), history(sums("vision", 5.0)), T0 + 90)
    assert (found.total.allocated_gpu_s, found.total.ended, len(found.points)) == (15.0, 1, 2)
    assert isinstance(found.rows[0], HistoryRow)
