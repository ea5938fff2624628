"""Use: sums by minute, hour and day that agree, and reports over any time."""

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from tests.unit.store.fixtures import NOW_S, end, opened, submitted

from weir.state.events import WorkloadOutcome
from weir.store.records import DeviceUsageSample, Retention, UsageSample, UsageSamples, WorkloadUsageSample
from weir.store.reports.scope import ReportScope
from weir.store.reports.usage import pieces
from weir.store.store import Store
from weir.store.tables import DAY, HOUR, LONG_SPANS, MINUTE, pool_uses, uses
from weir.store.usage.samples import _pieces, _spread

FIRST_S = NOW_S // DAY * DAY
KEEP = Retention(minutes_s=6 * HOUR, hours_s=3 * DAY, days_s=30 * DAY)


def use(project: str = "vision", node: str = "node", **words: float) -> UsageSample:
    """Return a sample of a project's use on a node."""
    return UsageSample(project, "lab", "ann", "train", node, **words)  # type: ignore[arg-type]


def settle(store: Store) -> None:
    """Wait until what is queued is written."""
    store.set_queue(store.queues()[-1])


def test_report_adds_up_by_every_key(store: Store) -> None:
    """Idle is what was seen and not used; what wasn't seen is unknown."""
    store.workloads.submit(submitted("a", at_s=FIRST_S + 10)).result()
    store.workloads.submit(submitted("b", "speech", at_s=FIRST_S + 20)).result()
    uid = store.workloads.submit(submitted("c", at_s=FIRST_S + 30)).result().launch.uid
    store.journal.keep([end("c", FIRST_S + 90, WorkloadOutcome.FAILED)], {})
    store.samples.add(
        UsageSamples(
            FIRST_S,
            FIRST_S + 120,
            [
                use(
                    allocated_gpu_s=100,
                    seen_gpu_s=80,
                    used_gpu_s=60,
                    over_quota_gpu_s=20,
                    preempted=1,
                    working_gpu_s=50,
                    parked_gpu_s=30,
                ),
                use(node="", waiting_s=500),
                UsageSample("speech", "", "bob", "build", "node", 10.0),
            ],
            [WorkloadUsageSample(uid, "node", 50.0)],
        )
    )
    settle(store)
    vision, speech = store.usage.report(FIRST_S, FIRST_S + 300, "project", now_s=FIRST_S + 300).rows
    assert vision.model_dump() == {
        "key": "vision",
        "allocated_gpu_s": pytest.approx(100),
        "used_gpu_s": pytest.approx(60),
        "idle_gpu_s": pytest.approx(20),
        "over_quota_gpu_s": pytest.approx(20),
        "waiting_s": pytest.approx(500),
        "workloads": 2,
        "ended": 1,
        "preempted": 1,
        "working_gpu_s": pytest.approx(50),
        "starved_gpu_s": 0.0,
        "parked_gpu_s": pytest.approx(30),
        "left_gpu_s": 0.0,
    }
    assert (speech.used_gpu_s, speech.idle_gpu_s, speech.workloads) == (None, None, 1)
    assert speech.working_gpu_s is None
    by = {
        by: {
            row.key: (round(row.allocated_gpu_s, 6), row.workloads, row.ended)
            for row in store.usage.report(FIRST_S, FIRST_S + 300, by, now_s=FIRST_S + 300).rows
        }
        for by in ("department", "user", "type", "node")
    }
    assert by == {
        "department": {"lab": (100, 2, 1), "": (10, 1, 0)},
        "user": {"ann": (100, 3, 1), "bob": (10, 0, 0)},
        "type": {"train": (100, 3, 1), "build": (10, 0, 0)},
        "node": {"node": (110, 1, 1)},
    }
    later = store.usage.report(FIRST_S + DAY, FIRST_S + 2 * DAY, "project", now_s=FIRST_S + DAY).rows
    assert [(row.key, row.workloads, row.allocated_gpu_s) for row in later] == [
        ("speech", 1, 0),
        ("vision", 1, 0),
    ]


TIMES = st.integers(0, 5 * DAY).map(lambda after_s: FIRST_S + after_s) | st.floats(FIRST_S, FIRST_S + 5 * DAY)


@given(TIMES, TIMES, st.floats(0, 4 * DAY))
def test_pieces_of_a_time_are_all_of_it_once(one_s: float, other_s: float, later_s: float) -> None:
    """Side by side, in sums that are kept, and no wider than those make it."""
    since_s, until_s = sorted((one_s, other_s))
    now_s = until_s + later_s
    spans = pieces(since_s, until_s, now_s, KEEP)
    if not spans:
        assert until_s - since_s < MINUTE
        return
    for (_, _, to_s), (_, from_s, _) in pairwise(spans):
        assert to_s == from_s
    first, last = spans[0][1], spans[-1][2]
    assert since_s - DAY < first <= since_s
    assert until_s <= last < until_s + DAY
    if since_s >= now_s - KEEP.minutes_s:
        assert since_s - first < MINUTE
    for span_s, from_s, to_s in spans:
        assert from_s % span_s == to_s % span_s == 0
        assert span_s in LONG_SPANS
        if span_s < DAY:
            kept_s, above_s = {MINUTE: (KEEP.minutes_s, HOUR), HOUR: (KEEP.hours_s, DAY)}[span_s]
            assert from_s >= (now_s - kept_s) // above_s * above_s


@settings(deadline=None)
@given(TIMES, st.floats(0.001, 400 * DAY), st.floats(0, 1e9), st.integers(0, 9))
def test_what_lasted_is_spread_over_its_time(
    since_s: float, long_s: float, amount: float, times: int
) -> None:
    """In every span length it is all there, and counts are whole."""
    parts = list(_pieces(since_s, since_s + long_s))
    assert len(parts) <= 24 * 60 + 1
    assert sum(part for _, part in parts) == pytest.approx(1.0)
    row = {
        "project": "p",
        "department": "",
        "user": "",
        "type": "",
        "node": "",
        "namespace": "",
        "waiting_s": amount,
        "preempted": times,
    }
    rows = _spread([row, row], parts, uses, LONG_SPANS)
    for span_s in LONG_SPANS:
        of_span = [row for row in rows if row["span_s"] == span_s]
        assert sum(row["waiting_s"] for row in of_span) == pytest.approx(2 * amount)
        assert sum(row["preempted"] for row in of_span) == 2 * times
        assert all(row["at_s"] % span_s == 0 for row in of_span)


MOMENTS = st.lists(
    st.tuples(
        st.integers(0, 3 * DAY),
        st.integers(1, 3 * HOUR),
        st.sampled_from(["vision", "speech"]),
        st.floats(0, 1e6),
    ),
    max_size=12,
)


@given(MOMENTS, st.tuples(st.integers(0, 72), st.integers(0, 72)))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_agree_whatever_they_are_read_from(
    tmp_path: Path, moments: list[tuple[int, int, str, float]], hours: tuple[int, int]
) -> None:
    """A report over hours, from the finest sums and from the coarsest, before and after forgetting."""
    home = tmp_path / "weir"
    if (home / "weir.db").exists():
        (home / "weir.db").unlink()
        (home / "pool.json").unlink()
    with opened(home, KEEP) as store:
        for after_s, long_s, project, amount in moments:
            store.samples.add(
                UsageSamples(
                    FIRST_S + after_s, FIRST_S + after_s + long_s, [use(project, allocated_gpu_s=amount)]
                )
            )
        settle(store)
        engine = store._database.engine
        assert engine is not None
        totals = []
        for table, span_s in product((uses, pool_uses), LONG_SPANS):
            query = select(func.sum(table.c.allocated_gpu_s)).where(table.c.span_s == span_s)
            totals.append(
                store._database.read(lambda connection, q=query: connection.execute(q).scalar()) or 0.0
            )
        expected = sum(amount for *_, amount in moments)
        assert totals == [pytest.approx(expected)] * 8
        first, last = (FIRST_S + hour * HOUR for hour in sorted(hours))
        for later_s in (0, 2 * DAY):
            now_s = last + later_s
            report = store.usage.report(first, last, "project", now_s=now_s)
            before = {row.key: row.allocated_gpu_s for row in report.rows}
            store.tidy(now_s)
            after = {
                row.key: row.allocated_gpu_s
                for row in store.usage.report(first, last, "project", now_s=now_s).rows
            }
            assert after == {key: pytest.approx(value) for key, value in before.items()}
            for key, value in before.items():
                true = sum(
                    amount * _overlap(FIRST_S + after_s, long_s, report.since_s, report.until_s)
                    for after_s, long_s, project, amount in moments
                    if project == key
                )
                assert value == pytest.approx(true, rel=1e-6, abs=1e-3)


def _overlap(at_s: float, long_s: float, since_s: float, until_s: float) -> float:
    return max(0.0, min(at_s + long_s, until_s) - max(at_s, since_s)) / long_s


def test_old_sums_and_events_are_forgotten(tmp_path: Path) -> None:
    """Finer samples go sooner, in small steps that block no other work."""
    with opened(tmp_path, KEEP) as store:
        store.workloads.submit(submitted("old", at_s=FIRST_S)).result()
        store.journal.keep([end("old", FIRST_S + 60)], {})
        store.workloads.submit(submitted("lives", at_s=FIRST_S)).result()
        for hour in range(0, 48, 2):
            at_s = FIRST_S + hour * HOUR
            store.samples.add(
                UsageSamples(
                    at_s,
                    at_s + 60,
                    [use(allocated_gpu_s=1)],
                    [WorkloadUsageSample(1, "node", 1.0)],
                    [DeviceUsageSample("node", 0, 1.0)],
                )
            )
        settle(store)
        now_s = FIRST_S + 2 * DAY
        report = store.usage.report(FIRST_S, now_s, "project", now_s=now_s)
        gone = store.tidy(now_s)
        assert 0 < gone < 3 * 24 * 3
        assert store.tidy(now_s) == 0
        assert store.usage.report(FIRST_S, now_s, "project", now_s=now_s) == report
        assert store.tidy(now_s + 366 * DAY + HOUR) > 0
        assert [line.workload.name for line in store.journal.workloads()] == ["lives"]
        assert store.workloads.newest("old") is None
        assert store.events.page().total == 1  # the newest: numbers go on from it
        assert (
            store.usage.report(FIRST_S, now_s, "project", now_s=now_s + 366 * DAY).rows[0].allocated_gpu_s
            == 0
        )


def test_charts_have_as_many_points_as_fit(store: Store) -> None:
    """The bound holds for the chart of a namespace, and of all."""
    for minute in range(180):
        at_s = FIRST_S + minute * MINUTE
        store.samples.add(
            UsageSamples(
                at_s,
                at_s + 60,
                [replace(use(allocated_gpu_s=60), namespace="ns"), use("speech", allocated_gpu_s=30)],
                [WorkloadUsageSample(7, "node", 60.0, 60.0, 30.0)],
                [DeviceUsageSample("node", 1, 60.0, 60.0, 45.0, 1 << 30)],
            )
        )
    settle(store)
    now_s = FIRST_S + 3 * HOUR
    whole = store.usage.chart(FIRST_S, now_s, points=12, now_s=now_s)
    assert 0 < len(whole) <= 12
    assert sum(point.allocated_gpu_s for point in whole) == pytest.approx(180 * 90)
    fine = store.usage.chart(FIRST_S, now_s, scope=ReportScope("ns"), now_s=now_s)
    assert len(fine) == 180
    assert (fine[0].at_s, fine[0].span_s, fine[0].allocated_gpu_s) == (FIRST_S, 60, pytest.approx(60))
    assert store.usage.chart(FIRST_S, now_s, scope=ReportScope("other"), now_s=now_s) == []
    later_s = now_s + 600  # nothing is stored since
    *others, last = store.usage.chart(FIRST_S - 21 * HOUR, later_s, points=12, now_s=later_s)
    assert {point.span_s for point in others} <= {2 * HOUR}
    assert last.span_s == now_s - last.at_s
    assert last.allocated_gpu_s / last.span_s == pytest.approx(1.5)


def test_finer_sums_are_kept_no_longer_than_coarser_ones() -> None:
    """A report is made of both."""
    with pytest.raises(ValueError, match="no longer than hours"):
        Retention(minutes_s=100.0, hours_s=50.0)
