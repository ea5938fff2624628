"""Reported values over time in the database: stored once, by whichever replica leads."""

import math
from itertools import pairwise

import pytest

from weir.control.metric_series import NAMES_MAX, POINTS_MAX
from weir.kubernetes.history import unstored
from weir.kubernetes.history import writer as module
from weir.kubernetes.history.series_text import joined, series_of, text_of
from weir.kubernetes.query.usage import recent_series
from weir.store.cluster.reader import ClusterHistoryReader
from weir.store.cluster.records import ClusterWorkloadFilter

from .replica import Make, Replica, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EVERY_S", 0.01), ("PAUSE_S", 0.01), ("PAUSE_S_MAX", 0.02), ("LAST_WRITE_S", 60.0)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "STORED_EVERY_S", 0.0)


def report(replica: Replica, at_s: float, value: float, phase: str = "Running") -> None:
    points = [{"name": "loss", "points": [[at_s, value]]}]
    replica.set("train", phase, owner="o1", report={"owner": "o1", "recent": points})


def losses(reader: ClusterHistoryReader, number: int) -> list[float]:
    found = series_of(reader.series(number))
    return [value for _, value in found["loss"].points] if found else []


def test_curve_goes_on_over_leaders_and_outlasts_the_object(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    first, second = make(lambda: url), make(lambda: url)
    now_s = first.usage.began_s
    for each in (first, second):
        report(each, now_s, 3.0)
    number = first.workloads.all()[0].number
    writer = first.lead()
    until(lambda: bool(writer.written_s) and losses(reader, number) == [3.0])
    for each in (first, second):
        report(each, now_s + 10, 2.0)
    writer.close()
    third = make(lambda: url)  # it was started later, and has seen the last write alone
    for each in (second, third):
        report(each, now_s + 20, 1.0)
    second.lead().close()
    assert losses(reader, number) == [3.0, 2.0, 1.0]
    report(third, now_s + 30, 0.5, "Succeeded")
    writer = third.lead()
    until(lambda: bool(writer.written_s))
    third.remove("train")
    writer.close()
    assert losses(reader, number) == [3.0, 2.0, 1.0, 0.5]
    assert [each.row.uid for each in reader.workloads(ClusterWorkloadFilter(), 0, 9)[1]] == [number]


def test_curve_of_a_workload_that_is_stored_later_outlasts_the_deletion_of_old_records(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIDY_EVERY_S", 0.0)
    monkeypatch.setattr(unstored, "REWRITTEN_WITHIN_S", 3600.0)
    replica = make(lambda: url)
    report(replica, replica.usage.began_s, 3.0)
    number = replica.workloads.all()[0].number
    replica.remove("train")  # it may be written again, so it isn't stored as ended yet
    writer = replica.lead()
    until(lambda: bool(writer.written_s) and losses(reader, number) == [3.0])
    stored_s = writer.written_s
    until(lambda: writer.written_s > stored_s)
    assert losses(reader, number) == [3.0]
    assert not reader.workloads(ClusterWorkloadFilter(), 0, 9)[1]
    writer.close()


def test_all_curves_are_stored_at_the_end_of_a_leadership(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERIES_AT_ONCE", 2)
    monkeypatch.setattr(module, "STORED_EVERY_S", 3600.0)
    replica = make(lambda: url)
    report(replica, replica.usage.began_s, 1.0)
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    for at in range(7):
        points = [{"name": "loss", "points": [[replica.usage.began_s + 1, float(at)]]}]
        replica.set(f"w{at}", "Running", owner=f"w{at}", report={"owner": f"w{at}", "recent": points})
    numbers = [each.number for each in replica.workloads.all() if each.name != "train"]
    writer.close()
    assert sorted(losses(reader, number)[0] for number in numbers) == [0, 1, 2, 3, 4, 5, 6]


def test_long_run_keeps_its_shape_in_the_database() -> None:
    """A run of two days that reports each 10 s, written each minute, is thinned as on one machine."""
    text, count = None, 2 * 8640
    for first in range(0, count, 6):
        minute = [(float(10 * at), at / count) for at in range(first, first + 6)]
        text = text_of(joined(text, {"loss": minute}))
    points = series_of(text)["loss"].points
    assert POINTS_MAX // 4 < len(points) <= POINTS_MAX
    assert (points[0][0], points[-1][0] > 0.97 * 10 * count) == (0.0, True)
    gaps = [second[0] - first[0] for first, second in pairwise(points)]
    assert max(gaps) <= 4 * 10 * count / POINTS_MAX
    assert all(abs(value - at_s / (10 * count)) < 0.02 for at_s, value in points)


def test_text_is_bounded_and_one_that_cannot_be_read_is_passed_over() -> None:
    many = {f"v{at}": [(1.0, 1.0)] for at in range(3 * NAMES_MAX)}
    assert len(series_of(text_of(joined(None, many)))) == NAMES_MAX
    for text in ("", "[", "{}", '{"a": 1}', '{"a": [0, [[1]]]}'):
        assert series_of(text) == {}
    assert joined("[", {"a": [(1.0, 2.0)]})["a"].points == [(1.0, 2.0)]
    assert text_of(joined(None, {"a": [(1.0, math.nan), (2.0, 1e300)]})) == '{"a":[0.0,[[2.0,1e300]]]}'


def test_values_dropped_while_the_database_was_away_are_a_gap(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away = [True]

    def found() -> str:
        if is_away:
            raise OSError("away")
        return url

    replica = make(found)
    led_s = replica.usage.began_s - 1
    replica.clock = lambda: led_s
    report(replica, replica.usage.began_s, 1.0)
    writer = replica.lead()
    until(lambda: bool(writer.trouble))
    with monkeypatch.context() as later:
        later.setattr(recent_series, "KEPT_S", -3600.0)
        report(replica, replica.usage.began_s + 1, 1.0)
    is_away.clear()
    until(lambda: bool(writer.written_s) and bool(reader.gaps(0.0, 1e12)))
    assert "1 workloads' older reported values" in reader.gaps(0.0, 1e12)[0]
