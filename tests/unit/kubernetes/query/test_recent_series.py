"""Curves of reported values on every replica: from what is written to what is answered, and bounded."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from weir.control.metric_series import NAMES_MAX, POINTS_MAX, Point
from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query import recent_series
from weir.kubernetes.query.recent_series import ALONE, RecentSeries, missing_note, series_answer
from weir.kubernetes.query.recent_usage import KEPT_S
from weir.kubernetes.query.report_writer import RECENT_MAX, PendingReport, changed_fields
from weir.kubernetes.query.workload_index import WorkloadIndex, WorkloadIndexEntry

NOW_S = 1_769_860_800.0


def entry(
    recent: Sequence[dict[str, Any]] = (), name: str = "a", owner: str = "o1", reporter: str = ""
) -> WorkloadIndexEntry:
    """Return a workload whose status has the points of a write."""
    report = {"owner": reporter or owner, "recent": list(recent)}
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"w-{name}"},
        "spec": {"owner": {"uid": owner}},
        "status": {"phase": "Running", "report": report},
    }
    return WorkloadIndexEntry.of(msgspec.convert(body, WorkloadObject))


def loss(*points: Point, name: str = "loss") -> list[dict[str, Any]]:
    return [{"name": name, "points": [list(each) for each in points]}]


def test_each_message_becomes_a_point_of_its_own_values_on_every_replica() -> None:
    """A value that wasn't reported again has no new point, though the newest of each name is written."""
    first, second = RecentSeries(NOW_S), RecentSeries(NOW_S)
    index = WorkloadIndex()
    index.deliver([ObjectSet("ns/a", entry().object)])
    written, messages = None, [{"loss": 3.0, "accuracy": 0.1}, {"loss": 2.0}, {"loss": 1.0}]
    for at, values in enumerate(messages):
        report = PendingReport("o1", 0.0, NOW_S + 10 * at)
        report.state(at, values)
        if written is None:
            written = report
        else:
            written.add(report)
        if at > 0:
            found = index.named("ns", "a")
            assert found is not None
            fields = json.loads(json.dumps(changed_fields(found, written)))
            for each in (first, second, second):  # an object may be read again
                each.take(entry(fields["recent"]), NOW_S + 30)
            written = PendingReport("o1", 0.0, NOW_S)
    expected = {"loss": [(NOW_S, 3.0), (NOW_S + 10, 2.0), (NOW_S + 20, 1.0)], "accuracy": [(NOW_S, 0.1)]}
    number = entry().number
    assert first.of(number, NOW_S + 60)[0] == second.of(number, NOW_S + 60)[0] == expected


def test_write_of_a_report_is_bounded() -> None:
    report = PendingReport("o1", 0.0, NOW_S)
    for at in range(500):
        newer = PendingReport("o1", 0.0, NOW_S + at)
        newer.state(at, {f"{at % 3}-{each}": float(at) for each in range(64)})
        report.add(newer)
    recent = changed_fields(entry(), report)["recent"]
    assert len(recent) == NAMES_MAX
    assert min(len(each["points"]) for each in recent) >= 2
    assert max(len(each["points"]) for each in recent) <= RECENT_MAX
    assert recent[0]["points"][0][0] == NOW_S
    assert recent[0]["points"][-1][0] > NOW_S + 300
    assert changed_fields(entry(), PendingReport("o1", 0.0, NOW_S))["recent"] == []


def test_points_are_taken_out_of_the_object_and_those_of_another_owner_dropped() -> None:
    series, found = RecentSeries(0.0), entry(loss((NOW_S, 1.0)))
    series.take(found, NOW_S)
    assert found.object.report.recent == []
    other = entry(loss((NOW_S + 1, 9.0)), reporter="o0")
    series.take(other, NOW_S)
    assert other.object.status.report is not None
    assert other.object.status.report.recent == []
    assert series.of(found.number, NOW_S)[0] == {"loss": [(NOW_S, 1.0)]}


def test_odd_points_of_an_object_harm_nothing() -> None:
    series = RecentSeries(0.0)
    points = [[], [NOW_S], [NOW_S, 1.0, 2.0], [NOW_S, 1.0], [NOW_S - 5, 2.0], [NOW_S + 86400, 3.0]]
    series.take(entry([{"name": "loss", "points": points}, {"name": "none", "points": []}]), NOW_S)
    series.take(entry(loss((NOW_S + 10, 0.5))), NOW_S + 10)
    assert series.of(entry().number, NOW_S)[0] == {"loss": [(NOW_S, 1.0), (NOW_S + 10, 0.5)]}


def test_six_hours_are_kept_and_said_to_be_all() -> None:
    series, number = RecentSeries(NOW_S), entry().number
    for at_s in range(0, 8 * 3600, 60):
        series.take(entry(loss((NOW_S + at_s, float(at_s)))), NOW_S + at_s)
    end_s = NOW_S + 8 * 3600
    found, complete_s = series.of(number, end_s)
    assert complete_s == end_s - KEPT_S
    assert found["loss"][0][0] >= end_s - KEPT_S
    assert len(found["loss"]) <= POINTS_MAX
    assert found["loss"][-1][1] == pytest.approx(8 * 3600 - 60, abs=120)
    series.take(entry(name="b", owner="o2"), end_s + KEPT_S + 1)
    assert len(series) == series.size == 0, "nothing is left of a workload that reports no more"
    answer = json.loads(series_answer("ns/a", found, missing_note(complete_s, None)))
    assert answer["note"] == f"Reported values are shown from 2026-01-31 14:00 UTC on. {ALONE}"
    assert answer["series"][0]["kind"] == "reported"


def test_memory_of_all_is_bounded_and_the_newest_points_of_each_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_series, "BYTES_MAX", 40_000)
    series = RecentSeries(NOW_S)
    few = [entry(name=f"w{at}", owner=f"o{at}") for at in range(20)]
    for step in range(300):
        at_s = NOW_S + 10 * step
        for at in range(20):
            series.take(entry(loss((at_s, float(step))), f"w{at}", f"o{at}"), at_s)
            assert series.size <= 40_000
    trimmed = 0
    for each in few:
        found, complete_s = series.of(each.number, NOW_S + 3000)
        assert found["loss"][-1] == (NOW_S + 2990, 299.0)
        trimmed += complete_s > NOW_S
        assert all(at_s >= complete_s for at_s, _ in found["loss"])
    assert trimmed > 10, "what is missing is said"


def test_memory_is_bounded_with_as_many_workloads_as_one_may_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_series, "BYTES_MAX", 40_000)
    series = RecentSeries(NOW_S)
    names = [{"name": f"v{at}", "points": [[NOW_S, 1.0]]} for at in range(100)]
    for at in range(200):
        series.take(entry(names, f"w{at}", f"o{at}"), NOW_S)
        assert series.size <= 40_000
    assert 1 <= len(series) < 20
    found, complete_s = series.of(entry(name="w0", owner="o0").number, NOW_S)
    assert (found, complete_s) == ({}, NOW_S)


def test_curves_to_store_are_those_with_new_points_and_all_of_them_for_a_new_leader() -> None:
    series, number = RecentSeries(NOW_S), entry().number
    series.take(entry(loss((NOW_S, 1.0))), NOW_S)
    assert series.unstored(5) == {number: ({"loss": [(NOW_S, 1.0)]}, NOW_S)}
    assert series.unstored(5) == {}, "it was tried a moment ago"
    assert list(series.unstored(5, 0.0)) == [number]
    series.stored({number: NOW_S, 7: NOW_S})
    assert series.unstored(5, 0.0) == {}
    series.lead()
    assert list(series.unstored(5)) == [number]
    series.stored({number: NOW_S})
    series.take(entry(name="b", owner="o2"), NOW_S + KEPT_S + 1)
    assert series.lost() == 0, "what is stored isn't lost"
    series.take(entry(loss((NOW_S + KEPT_S, 1.0))), NOW_S + KEPT_S + 1)
    series.take(entry(name="b", owner="o2"), NOW_S + 3 * KEPT_S)
    assert (series.lost(), series.lost()) == (1, 0)
