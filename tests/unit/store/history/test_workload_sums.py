"""Sums over ended workloads: equal to the rows they are made of, in every period."""

import math
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.fixtures import NOW_S, end, opened, submitted

import weir.store.reports.period as reports
from weir.control.port import SaveProgress, WorkloadProgress
from weir.model.workloads import WorkloadType
from weir.state.events import WorkloadOutcome
from weir.store.history.histogram import (
    bucket_of,
    packed_histogram,
    rounded_percentiles,
    time_of,
    unpacked_histogram,
)
from weir.store.history.workload_sums import whole_days
from weir.store.records import HistoryEvent
from weir.store.reports.period import percentiles
from weir.store.store import Store
from weir.store.tables import DAY, LIVE

FIRST_S = NOW_S - 100 * DAY
JOBS = 120
TYPES = (WorkloadType.TRAIN, WorkloadType.BUILD, WorkloadType.INFERENCE)
RULES = ("reclaim_quota", "preempt", "stop", None)
EQUAL = ("workloads", "ended", "evicted", "lost_gpu_s")


def record(store: Store) -> None:
    """Write workloads of a hundred days, some of which never started or haven't ended."""
    chance = random.Random(3)
    records = []
    for index in range(JOBS):
        at_s = FIRST_S + chance.choice((chance.uniform(0, 99 * DAY), DAY * chance.randrange(99)))
        words = {"user": f"user-{index % 5}", "type": TYPES[index % 3]}
        records.append(submitted(f"job-{index}", ("vision", "speech")[index % 2], at_s, **words))
    asked = [store.workloads.submit(record) for record in records]
    uids = [submission.result().launch.uid for submission in asked]
    progress, ends, happened = [], [], []
    for index, record in enumerate(records):
        name, project, at_s = record.workload.name, record.workload.project, record.submitted_at_s
        started_s = None if index % 7 == 0 else at_s + chance.choice((0.0, 3.3, 900.0, 2.5 * DAY))
        if started_s is not None:
            progress.append(SaveProgress(name, WorkloadProgress(1, 1, first_started_s=started_s)))
            numbers = {"rule": RULES[index % 4], "lost_s": 9.0, "gpus": 2.0}
            kinds = [("stopped", numbers), ("quota_met", {"waited_s": float(index)}), ("started", {})]
            happened += [
                HistoryEvent(started_s, kind, ".", uids[index], name, project, numbers=numbers)
                for kind, numbers in kinds[index % 3 :]
            ]
        if index % 6:
            how = WorkloadOutcome.SUCCEEDED if started_s is not None else WorkloadOutcome.STOPPED
            over_s = min(NOW_S, (at_s if started_s is None else started_s) + chance.uniform(0, 4 * DAY))
            ends.append(end(name, over_s, how, first_started_s=started_s))
    store.journal.keep(progress, {})
    store.events.record(happened)
    for first in range(0, len(ends), 7):
        store.journal.keep(ends[first : first + 7], {})
    store.probe()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sums") / "home"
    with opened(home) as store:
        record(store)
    return home


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with opened(home) as store:
        yield store


def rows_of(home: Path, by: str, first_s: float, end_s: float) -> dict[str, dict[str, Any]]:
    """Return the same numbers from each row, without any sums."""
    with sqlite3.connect(home / "weir.db") as database:
        database.row_factory = sqlite3.Row
        stored_rows = database.execute("SELECT * FROM workloads").fetchall()
        events = database.execute("SELECT * FROM events ORDER BY id").fetchall()
    database.close()
    rows: dict[str, dict[str, Any]] = {}
    keys = {row["uid"]: row[by] or "" for row in stored_rows}
    for row in stored_rows:
        into = rows.setdefault(keys[row["uid"]], dict.fromkeys(EQUAL, 0) | {"waits": [], "to_quota": []})
        ended_s, started_s = row["ended_s"], row["first_started_s"]
        is_live = row["state"] == LIVE
        if row["submitted_s"] < end_s and (is_live or ended_s >= first_s):
            into["workloads"] += 1
        if not is_live and first_s <= ended_s < end_s:
            into["ended"] += 1
        if started_s is not None and first_s <= started_s < end_s:
            into["waits"].append(round(started_s - row["submitted_s"], 1))
    for event in events:
        if event["kind"] in ("stopped", "quota_met") and first_s <= event["at_s"] < end_s:
            into, numbers = rows[keys[event["uid"]]], reports.mapping_of(event["numbers"])
            if event["kind"] == "quota_met":
                into["to_quota"].append(numbers["waited_s"])
            elif numbers["rule"] in ("reclaim_quota", "preempt"):
                into["evicted"] += 1
                into["lost_gpu_s"] += 18.0
    return {key: row for key, row in rows.items() if any(row.values()) and (key or row["workloads"])}


PERIODS = [
    (0.0, 100.0),
    (0.0, 130.0),
    (10.3, 10.6),
    (10.3, 11.2),
    (10.0, 12.0),
    (7.7, 93.1),
    (29.5, 61.0),
    (-400.0, 50.0),
    (99.9, 100.1),
]


@pytest.mark.parametrize("by", ["project", "department", "user", "type"])
def test_sums_equal_rows_in_every_period(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    for first, last in PERIODS:
        since_s, until_s = FIRST_S + first * DAY, FIRST_S + last * DAY
        monkeypatch.setattr(reports, "EXACT_MAX", 10_000)
        report = store.reports.report(since_s, until_s, by, now_s=NOW_S)
        true = rows_of(home, by, report.since_s, report.until_s)
        assert {row.key for row in report.rows} == set(true)
        for row in report.rows:
            expected = true[row.key]
            assert {name: getattr(row, name) for name in EQUAL} == {name: expected[name] for name in EQUAL}
            assert row.waits == percentiles(expected["waits"])
            assert row.to_quota == percentiles(expected["to_quota"])
        assert report.total.waits == percentiles(wait for row in true.values() for wait in row["waits"])
        assert sum(rule.count for rule in report.rules) == report.total.evicted
        assert report.total.evicted == sum(row["evicted"] for row in true.values())
        monkeypatch.setattr(reports, "EXACT_MAX", 0)
        for row in store.reports.report(since_s, until_s, by, now_s=NOW_S).rows:
            for rounded, times in (
                (row.waits, true[row.key]["waits"]),
                (row.to_quota, true[row.key]["to_quota"]),
            ):
                exact = percentiles(times)
                assert (rounded.count, rounded.rounded) == (exact.count, bool(times))
                assert (rounded.p50_s or 0.0) == pytest.approx(exact.p50_s or 0.0, rel=0.026, abs=0.2)
                assert (rounded.p90_s or 0.0) == pytest.approx(exact.p90_s or 0.0, rel=0.026, abs=0.2)


def test_sums_outlive_their_records(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as store:
        record(store)
        whole = FIRST_S // DAY * DAY + DAY, FIRST_S // DAY * DAY + 61 * DAY
        before = store.reports.report(*whole, "project", now_s=NOW_S)
        store.tidy(FIRST_S + 420 * DAY)  # a year keeps the sums of days, not the workloads
        after = store.reports.report(*whole, "project", now_s=FIRST_S + 420 * DAY)
        assert after.total.waits.rounded
        assert not before.total.waits.rounded
        for row, old in zip(after.rows, before.rows, strict=True):
            assert (row.key, row.ended, row.evicted) == (old.key, old.ended, old.evicted)
            assert row.waits.count == old.waits.count
        store.tidy(FIRST_S + 3000 * DAY)
        assert (
            store.reports.report(*whole, "project", now_s=FIRST_S + 3000 * DAY).total.waits.count < JOBS / 6
        )


@given(st.floats(-1e9, 1e12) | st.just(math.nan))
def test_bucket_is_close_to_its_time(time_s: float) -> None:
    bucket = bucket_of(time_s)
    assert 0 <= bucket < 512
    if 0.1 <= time_s < 1e9:
        assert time_of(bucket) == pytest.approx(time_s, rel=0.0255, abs=0.002)
    elif not time_s >= 0.1:
        assert bucket == 0


@given(st.lists(st.lists(st.floats(0, 1e7), max_size=90), max_size=4))
def test_stored_histograms_add_up(lists: list[list[float]]) -> None:
    counted = [Counter(map(bucket_of, times)) for times in lists]
    merged = unpacked_histogram(b"".join(map(packed_histogram, counted)))
    together = sum(counted, Counter[int]())
    assert merged == together
    exact = percentiles(value for times in lists for value in times)
    merged_percentiles = rounded_percentiles(merged)
    assert merged_percentiles.count == exact.count
    assert (merged_percentiles.p50_s or 0.0) == pytest.approx(exact.p50_s or 0.0, rel=0.0255, abs=0.11)
    assert (merged_percentiles.p90_s or 0.0) == pytest.approx(exact.p90_s or 0.0, rel=0.0255, abs=0.11)


@given(st.floats(0, 400 * DAY), st.floats(0, 400 * DAY))
def test_period_is_divided_without_gaps(one: float, other: float) -> None:
    first_s, end_s = sorted((one, other))
    pieces, parts = whole_days(first_s, end_s)
    spans = sorted([*((float(a), float(b)) for _, a, b in pieces), *parts])
    assert sum(b - a for a, b in spans) == pytest.approx(end_s - first_s)
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert all(a % span == b % span == 0 for span, a, b in pieces)
