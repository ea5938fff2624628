"""Reports of a period, compared with the records they are made of."""

from collections import Counter
from pathlib import Path

import pytest
from tests.unit.store.fixtures import NOW_S, opened
from tests.unit.store.week import record_week

from weir.store.history.workload_sums import EVICTION_RULES
from weir.store.reports.period import Prices, percentiles
from weir.store.reports.scope import ReportScope
from weir.store.reports.usage import By
from weir.store.store import Store

WEEK_S = 7 * 86400.0


@pytest.fixture
def store(tmp_path: Path):
    with opened(tmp_path / "home") as store:
        record_week(store, NOW_S)
        yield store


def test_percentiles_are_of_values_that_occurred() -> None:
    assert percentiles([]).p50_s is None
    assert (percentiles([4.0]).p50_s, percentiles([4.0]).p90_s) == (4.0, 4.0)
    summary = percentiles([float(value) for value in range(10, 0, -1)])
    assert (summary.count, summary.p50_s, summary.p90_s) == (10, 5.0, 9.0)


@pytest.mark.parametrize("by", ["project", "user", "type", "node"])
def test_reports_of_some_projects_are_of_their_work_alone(store: Store, by: By) -> None:
    period, now_s = (NOW_S - WEEK_S, NOW_S + 60), NOW_S + 60
    all_of_them = {row.key: row for row in store.reports.report(*period, "project", now_s=now_s).rows}
    assert sorted(all_of_them) == ["speech", "vision"]
    own = [all_of_them["speech"]]
    report = store.reports.report(*period, by, now_s=now_s, scope=ReportScope(projects=["speech", "none"]))
    assert sum(row.allocated_gpu_s for row in report.rows) == pytest.approx(
        sum(row.allocated_gpu_s for row in own)
    )
    assert report.total.waits.count == sum(row.waits.count for row in own)
    assert report.total.evicted == sum(row.evicted for row in own)
    points = sum(point.allocated_gpu_s for point in report.points)
    assert points == pytest.approx(sum(row.allocated_gpu_s for row in own))
    if by == "project":
        assert report.rows == own
    if by != "node":
        assert report.total.ended == sum(row.ended for row in own)
        assert report.total.workloads == sum(row.workloads for row in own)


@pytest.mark.parametrize("by", ["project", "user", "type"])
def test_report_equals_what_the_records_say(store: Store, by: str) -> None:
    report = store.reports.report(NOW_S - WEEK_S, NOW_S + 60, by, now_s=NOW_S + 60)
    rows = {row.key: row for row in report.rows}
    waits: dict[str, list[float]] = {}
    reclaims: dict[str, list[float]] = {}
    evicted: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for event in store.events.page(limit=1000).items:
        assert event.uid is not None
        workload = store.workloads.get(event.uid)
        assert workload is not None
        key = str(getattr(workload.row, by))
        if event.kind == "ended":
            waits.setdefault(key, []).append((workload.row.first_started_s or 0.0) - workload.row.submitted_s)
        if event.kind == "quota_met":
            reclaims.setdefault(key, []).append(float(str(event.numbers["waited_s"])))
        if event.kind == "stopped" and event.numbers["rule"] in EVICTION_RULES:
            evicted[key] += 1
            lost[key] += float(str(event.numbers["lost_s"]))
    assert {key: row.waits for key, row in rows.items()} == {
        key: percentiles(values) for key, values in waits.items()
    }
    assert {key: row.to_quota for key, row in rows.items() if row.to_quota.count} == {
        key: percentiles(values) for key, values in reclaims.items()
    }
    assert {key: row.evicted for key, row in rows.items() if row.evicted} == evicted
    assert {key: row.lost_gpu_s for key, row in rows.items() if row.lost_gpu_s} == lost
    assert report.total.waits == percentiles(value for values in waits.values() for value in values)
    assert report.total.evicted == sum(rule.count for rule in report.rules) == evicted.total()
    usage = store.usage.report(NOW_S - WEEK_S, NOW_S + 60, by, now_s=NOW_S + 60)
    for row in usage.rows:
        assert {name: getattr(rows[row.key], name) for name in type(row).model_fields} == dict(row)


def test_cost_is_allocated_time_at_the_price_of_its_node(store: Store) -> None:
    prices = Prices("EUR", {"node": 2.0}.get)
    report = store.reports.report(NOW_S - WEEK_S, NOW_S + 60, "project", now_s=NOW_S + 60, prices=prices)
    assert {row.key: row.cost for row in report.rows} == {
        row.key: pytest.approx(row.allocated_gpu_s / 3600 * 2.0) for row in report.rows
    }
    assert report.total.cost == pytest.approx(report.total.allocated_gpu_s / 3600 * 2.0)
    assert report.currency == "EUR"
    gone = store.reports.report(
        NOW_S - WEEK_S, NOW_S, "node", now_s=NOW_S, prices=Prices("EUR", lambda _: None)
    )
    assert {row.cost for row in gone.rows} == {0.0}
    assert store.reports.report(NOW_S - WEEK_S, NOW_S, "user", now_s=NOW_S).total.cost is None
