"""Curves of reported values on every replica: from what is written to what is answered, and bounded."""

import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from weir.control.activity import ActivityReading
from weir.control.metric_series import NAMES_MAX, POINTS_MAX, Point
from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.messages.report_writer import RECENT_MAX, PendingReport, changed_fields
from weir.kubernetes.query.usage import recent_series
from weir.kubernetes.query.usage.recent_series import (
    ALONE,
    MEASURED_ALONE,
    STORED_EVERY_S,
    RecentSeries,
    missing_note,
    series_answer,
)
from weir.kubernetes.query.usage.recent_usage import KEPT_S
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry
from weir.kubernetes.usage.cluster_use import MeasuredUse
from weir.model.activity import Activity

NOW_S = 1_769_860_800.0
READING = ActivityReading(Activity.WORKING)


def entry(
    recent: Sequence[dict[str, Any]] = (),
    name: str = "a",
    owner: str = "o1",
    reporter: str = "",
    namespace: str = "ns",
) -> WorkloadIndexEntry:
    """Return a workload whose status has the points of a write."""
    report = {"owner": reporter or owner, "recent": list(recent)}
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"w-{name}"},
        "spec": {"owner": {"uid": owner}},
        "status": {"phase": "Running", "report": report},
    }
    return WorkloadIndexEntry.of(msgspec.convert(body, WorkloadObject))


NUMBER = entry().number


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
    assert first.series_of(NUMBER, NOW_S + 60)[0] == second.series_of(NUMBER, NOW_S + 60)[0] == expected


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
    assert series.series_of(NUMBER, NOW_S)[0] == {"loss": [(NOW_S, 1.0)]}


def test_odd_points_of_an_object_harm_nothing() -> None:
    series = RecentSeries(0.0)
    points = [[], [NOW_S], [NOW_S, 1.0, 2.0], [NOW_S, 1.0], [NOW_S - 5, 2.0], [NOW_S + 86400, 3.0]]
    series.take(entry([{"name": "loss", "points": points}, {"name": "none", "points": []}]), NOW_S)
    series.take(entry(loss((NOW_S + 10, 0.5))), NOW_S + 10)
    assert series.series_of(NUMBER, NOW_S)[0] == {"loss": [(NOW_S, 1.0), (NOW_S + 10, 0.5)]}


def test_six_hours_are_kept_and_said_to_be_all() -> None:
    series = RecentSeries(NOW_S)
    for at_s in range(0, 8 * 3600, 60):
        series.take(entry(loss((NOW_S + at_s, float(at_s)))), NOW_S + at_s)
    end_s = NOW_S + 8 * 3600
    found, complete_s = series.series_of(NUMBER, end_s)
    assert complete_s == end_s - KEPT_S
    assert found["loss"][0][0] >= end_s - KEPT_S
    assert len(found["loss"]) <= POINTS_MAX
    assert found["loss"][-1][1] == pytest.approx(8 * 3600 - 60, abs=120)
    series.take(entry(name="b", owner="o2"), end_s + KEPT_S + 1)
    assert len(series) == series.size == 0, "nothing is left of a workload that reports no more"
    note = missing_note(NOW_S, complete_s, complete_s)
    answer = json.loads(series_answer("ns/a", found, {}, note))
    day = "2026-01-31 14:00 UTC on."
    reported, measured = f"Reported values are shown from {day}", f"Measured use is shown from {day}"
    assert answer["note"] == f"{reported} {ALONE} {measured} {MEASURED_ALONE}"
    assert answer["series"][0]["kind"] == "reported"


def test_memory_of_all_is_bounded_and_the_newest_points_of_each_stay() -> None:
    series = RecentSeries(NOW_S, 40_000)
    few = [entry(name=f"w{at}", owner=f"o{at}") for at in range(20)]
    for step in range(300):
        at_s = NOW_S + 10 * step
        for at in range(20):
            series.take(entry(loss((at_s, float(step))), f"w{at}", f"o{at}"), at_s)
            assert series.size <= 40_000
    trimmed = 0
    for each in few:
        found, complete_s = series.series_of(each.number, NOW_S + 3000)
        assert found["loss"][-1] == (NOW_S + 2990, 299.0)
        trimmed += complete_s > NOW_S
        assert all(at_s >= complete_s for at_s, _ in found["loss"])
    assert trimmed > 10, "what is missing is said"


def test_memory_is_bounded_with_as_many_workloads_as_one_may_make() -> None:
    series = RecentSeries(NOW_S, 40_000)
    names = [{"name": f"v{at}", "points": [[NOW_S, 1.0]]} for at in range(100)]
    for at in range(200):
        series.take(entry(names, f"w{at}", f"o{at}"), NOW_S)
        assert series.size <= 40_000
    assert 1 <= len(series) < 20
    found, complete_s = series.series_of(entry(name="w0", owner="o0").number, NOW_S)
    assert (found, complete_s) == ({}, NOW_S)


def test_curves_to_store_are_those_with_new_points_and_all_of_them_for_a_new_leader() -> None:
    series = RecentSeries(NOW_S)
    series.take(entry(loss((NOW_S, 1.0))), NOW_S)
    assert series.unstored(5, 99) == {NUMBER: ({"loss": [(NOW_S, 1.0)]}, NOW_S)}
    assert series.unstored(5, 99) == {}, "it was tried a moment ago"
    assert list(series.unstored(5, 99, 0.0)) == [NUMBER]
    series.stored({NUMBER: (NOW_S, 1), 7: (NOW_S, 1)})
    assert series.unstored(5, 99, 0.0) == {}
    series.lead(NOW_S - 1)
    assert list(series.unstored(5, 99)) == [NUMBER]
    series.stored({NUMBER: (NOW_S, 1)})
    series.take(entry(name="b", owner="o2"), NOW_S + KEPT_S + 1)
    assert series.lost() == 0, "what is stored isn't lost"
    series.take(entry(loss((NOW_S + KEPT_S, 1.0))), NOW_S + KEPT_S + 1)
    series.take(entry(name="b", owner="o2"), NOW_S + 3 * KEPT_S)
    assert (series.lost(), series.lost()) == (1, 0)


def test_old_points_that_are_still_in_an_object_are_passed_over() -> None:
    """The last points of a workload stay in its object, and each change and each relist shows them again."""
    series = RecentSeries(NOW_S)
    series.lead(NOW_S - 1)
    series.take(entry(loss((NOW_S, 1.0))), NOW_S)
    series.stored({NUMBER: (NOW_S, 1)})
    later_s = NOW_S + KEPT_S + 60
    for again in range(3):
        series.take(entry(loss((NOW_S, 1.0))), later_s + again)
        assert (len(series), series.size, series.lost()) == (0, 0, 0)
    series.take(entry(loss((NOW_S, 1.0), (later_s, 2.0))), later_s)
    assert series.series_of(NUMBER, later_s)[0] == {"loss": [(later_s, 2.0)]}
    assert series.lost() == 0


def test_points_from_before_a_leader_are_not_lost_by_it() -> None:
    """The leader before has stored them, or has told of the gap."""
    series, later_s = RecentSeries(NOW_S), NOW_S + KEPT_S + 60
    for at_s in (NOW_S, later_s - 60):
        series.take(entry(loss((at_s, 1.0))), at_s)
    series.lead(later_s - 30)
    series.take(entry(loss((later_s, 1.0))), later_s)
    assert series.series_of(NUMBER, later_s)[0] == {"loss": [(later_s - 60, 1.0), (later_s, 1.0)]}
    assert series.lost() == 0
    series.take(entry(loss((later_s + KEPT_S + 60, 1.0))), later_s + KEPT_S + 60)
    assert series.lost() == 1, "one of its own was dropped before it was stored"


def test_points_dropped_for_memory_are_not_lost_by_the_database() -> None:
    series = RecentSeries(NOW_S, 4_000)
    series.lead(NOW_S - 1)
    for at in range(300):
        series.take(entry(loss((NOW_S + at, 1.0)), f"w{at % 3}", f"o{at % 3}"), NOW_S + at)
    assert len(series) == 3
    assert all(series.series_of(entry(owner=f"o{at}").number, NOW_S + 300)[1] > NOW_S for at in range(3))
    assert series.lost() == 0


def test_workloads_that_name_the_same_owner_in_two_namespaces_have_curves_of_their_own() -> None:
    """A pod's own ownerReferences may name the uid of any object."""
    series, namespaces = RecentSeries(NOW_S), ("ns", "other")
    for at, namespace in enumerate(namespaces):
        series.take(entry(loss((NOW_S + at, float(at))), namespace=namespace), NOW_S + at)
    numbers = [entry(namespace=each).number for each in namespaces]
    assert [series.series_of(each, NOW_S)[0]["loss"] for each in numbers] == [
        [(NOW_S, 0.0)],
        [(NOW_S + 1, 1.0)],
    ]
    assert set(series.unstored(5, 99)) == set(numbers)


def test_curves_to_store_at_once_are_bounded_by_their_points() -> None:
    series = RecentSeries(NOW_S)
    for at in range(4):
        points = [(NOW_S + each, 1.0) for each in range(30)]
        series.take(entry(loss(*points), f"w{at}", f"o{at}"), NOW_S + 30)
    first = series.unstored(9, 70)
    assert len(first) == 2
    series.stored({key: (until_s, 30) for key, (_, until_s) in first.items()})
    rest = series.unstored(9, 10)
    assert len(rest) == 1, "a workload with more than that has its turn"
    assert not {*first} & {*rest}
    assert len(series.unstored(9, 70)) == 1


def test_curves_with_many_points_are_stored_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write has all points of a workload, with those that the database alone has."""
    now = [0.0]
    monkeypatch.setattr(recent_series, "time", SimpleNamespace(monotonic=lambda: now[0]))
    series, counts = RecentSeries(NOW_S), {"small": 900, "large": 3000}
    keys = {name: entry(name=name, owner=name).number for name in counts}
    written: dict[str, list[float]] = {name: [] for name in counts}
    for minute in range(10):
        now[0] = minute * STORED_EVERY_S
        for name in counts:
            series.take(entry(loss((NOW_S + minute, 1.0)), name, name), NOW_S + minute)
        found = series.unstored(9, 99_999)
        for name, count in counts.items():
            if keys[name] in found:
                written[name].append(minute)
                series.stored({keys[name]: (found[keys[name]][1], count)})
    assert written == {"small": [*range(10)], "large": [0, 3, 6, 9]}


def test_measured_use_becomes_curves_without_what_is_unknown() -> None:
    series = RecentSeries(NOW_S)
    known = MeasuredUse(0.5, 30.0, 15.0, READING, NOW_S, memory=1024.0, cores=2.0)
    series.measure({1: known, 2: replace(known, fraction=None, memory=None, cores=0.0)}, NOW_S)
    series.measure({1: replace(known, fraction=0.7), 2: replace(known, cores=None)}, NOW_S + 30)
    assert series.series_of(1, NOW_S + 30)[0] == {
        "gpu": [(NOW_S, 0.5), (NOW_S + 30, 0.7)],
        "gpu_memory": [(NOW_S, 1024.0), (NOW_S + 30, 1024.0)],
        "cpu": [(NOW_S, 2.0), (NOW_S + 30, 2.0)],
    }
    assert series.series_of(2, NOW_S + 30)[0] == {
        "cpu": [(NOW_S, 0.0)],
        "gpu": [(NOW_S + 30, 0.5)],
        "gpu_memory": [(NOW_S + 30, 1024.0)],
    }
    assert series.lost() == 0, "the database doesn't wait for it"
