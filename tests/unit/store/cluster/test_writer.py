"""The history of a cluster, in SQLite and in PostgreSQL: nothing twice, nothing lost, each namespace by itself."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from weir.api.answers import EventFilter, EventRow
from weir.api.history import HistoryReport
from weir.api.workload_list import WorkloadRow
from weir.store.cluster.reader import ClusterHistoryReader
from weir.store.cluster.records import ClusterEvent, ClusterHistoryEntry, ClusterWorkloadFilter
from weir.store.cluster.writer import VANISHED, ClusterHistory
from weir.store.errors import StoreFailed
from weir.store.records import Retention, UsageSample, UsageSamples
from weir.store.reports.scope import ReportScope
from weir.store.store import Store

NOW_S, DAY = 1_769_860_800.0, 86400.0
REASON = {"why": "insufficient_capacity", "sentence": "0 of 1 nodes fit", "numbers": {"free": 1}}


@pytest.fixture
def history(url: str) -> Iterator[ClusterHistory]:
    opened_history = ClusterHistory(url, "c1", Retention())
    yield opened_history
    opened_history.close()


@pytest.fixture
def reader(url: str, history: ClusterHistory) -> Iterator[ClusterHistoryReader]:
    opened_reader = ClusterHistoryReader(url, "c1", Retention())
    yield opened_reader
    opened_reader.close()


def workload(
    uid: int, name: str = "train", namespace: str = "ns", *, status: Any = "pending", **fields: Any
) -> ClusterHistoryEntry:
    row = WorkloadRow.model_validate(
        {
            "uid": uid,
            "name": f"{namespace}/{name}",
            "project": "vision",
            "user": "",
            "type": "train",
            "status": status,
            "priority": 50,
            "preemptible": True,
            "devices": 4,
            "pods": 1,
            "pods_running": 0,
            "submitted_s": NOW_S + uid,
            **fields,
        }
    )
    is_live = status in ("pending", "starting", "running", "stopping")
    stated = {"metadata": {"namespace": namespace, "name": name}, "detail": {}}
    return ClusterHistoryEntry(row, namespace, name, f"job-{name}", "lab", is_live, NOW_S + 500, stated)


def event(
    source: str, namespace: str = "ns", at_s: float = NOW_S, workload: str = "ns/train"
) -> ClusterEvent:
    row = EventRow(
        id=int(at_s), at_s=at_s, kind="scheduled", workload=workload, project="vision", sentence=source
    )
    return ClusterEvent(source, namespace, row)


def names(reader: ClusterHistoryReader, **wanted: Any) -> list[str]:
    return [workload.row.name for workload in reader.workloads(ClusterWorkloadFilter(**wanted), 0, 100)[1]]


def gpu_s_of(report: HistoryReport) -> float:
    return round(sum(point.allocated_gpu_s for point in report.points), 6)


def ended(uid: int, **fields: Any) -> ClusterHistoryEntry:
    times = {"started_s": NOW_S + uid + 10, "ended_s": NOW_S + uid + 70, "ran_s": 60.0}
    return workload(uid, status="succeeded", **{**times, **fields})


def test_what_is_written_twice_is_there_once(
    history: ClusterHistory, reader: ClusterHistoryReader, url: str
) -> None:
    changes = [workload(1, reason=REASON), workload(1, status="running", started_s=NOW_S + 11), ended(1)]
    evicted = {"at_s": NOW_S + 30, "rule": "reclaim_quota", "sentence": "it was evicted"}
    for change in changes:
        for _ in range(2):
            history.write([change], [event("e1"), event("e2", at_s=NOW_S + 1)])
    history.write([ended(1, evicted=evicted)], [])
    history.close()
    again = ClusterHistory(url, "c1", Retention())  # the next leader
    again.write([ended(1, evicted=evicted)], [event("e1")])
    again.close()
    count, (stored,) = reader.workloads(ClusterWorkloadFilter(), 0, 10)
    assert (count, stored.row.status, stored.row.first_started_s) == (1, "succeeded", NOW_S + 11)
    assert [event_.sentence for event_ in reader.events(EventFilter(), 0, 10).items] == ["e2", "e1"]
    page = reader.events(EventFilter(kinds=["pending"]), 0, 10)
    assert [(event_.sentence, event_.numbers["why"]) for event_ in page.items] == [
        ("0 of 1 nodes fit", "insufficient_capacity")
    ]
    for namespace in ("", "ns"):
        report = reader.history(NOW_S, NOW_S + DAY, "project", NOW_S + DAY, ReportScope(namespace or None))
        assert (report.total.ended, report.total.evicted, report.total.waits.count) == (1, 1, 1)
        assert (report.total.waits.p50_s, report.rules[0].rule) == (10.0, "reclaim_quota")
    assert reader.history(NOW_S, NOW_S + DAY, "project", NOW_S + DAY, ReportScope("other")).total.ended == 0


def test_an_eviction_counts_once_its_pods_are_gone_with_the_run_that_it_lost(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    evicted = {"at_s": NOW_S + 100, "rule": "reclaim_quota", "sentence": "it was evicted"}
    saved = {**evicted, "lost_gpu_s": 40.0}
    run = {"started_s": NOW_S + 11}
    for change in (
        workload(1, status="running", **run),
        workload(1, status="stopping", evicted={**evicted, "lost_gpu_s": 90.0}, **run),
        workload(1, status="pending", reason=REASON, evicted=saved),
        workload(1, status="running", evicted=saved, started_s=NOW_S + 300),
    ):
        history.write([change], [])
    unknown = {**evicted, "rule": "preempt"}
    history.write([workload(2, status="pending", reason=REASON, evicted=unknown)], [])
    report = reader.history(NOW_S, NOW_S + DAY, "project", NOW_S + DAY)
    assert {rule.rule: (rule.count, rule.lost_gpu_s) for rule in report.rules} == {
        "reclaim_quota": (1, 40.0),
        "preempt": (1, 0.0),
    }
    assert (report.total.evicted, report.total.lost_gpu_s) == (2, 40.0)


def test_namespaces_see_their_own_part(history: ClusterHistory, reader: ClusterHistoryReader) -> None:
    history.write(
        [ended(1), ended(2, name="other/train"), workload(3, "fine", "ns")],
        [event("mine"), event("theirs", "other", workload="other/train")],
    )
    second = replace(
        ended(4), namespace="other", name="o", row=ended(4).row.model_copy(update={"name": "other/o"})
    )
    history.write([second], [])
    uses = [
        UsageSample(
            *("vision", "lab", "ann", "train", ""), allocated_gpu_s=gpu_s, waiting_s=1.0, namespace=namespace
        )
        for namespace, gpu_s in (("ns", 3600.0), ("other", 7200.0))
    ]
    history.sample(UsageSamples(NOW_S, NOW_S + 3600, uses))
    assert names(reader, namespace="other") == ["other/o"]
    assert [e.sentence for e in reader.events(EventFilter(namespace="other"), 0, 9).items] == ["theirs"]
    (row,) = reader.usage(NOW_S, NOW_S + 3600, "project", NOW_S + 4000, ReportScope("ns")).rows
    assert (row.key, round(row.allocated_gpu_s, 6), row.ended) == ("vision", 3600.0, 2)
    whole = reader.history(NOW_S, NOW_S + 3600, "department", NOW_S + 4000)
    assert [row.key for row in whole.rows] == ["lab"]
    assert round(whole.total.allocated_gpu_s, 6) == gpu_s_of(whole) == 10800.0
    own = reader.history(NOW_S, NOW_S + 3600, "department", NOW_S + 4000, ReportScope("ns"))
    assert gpu_s_of(own) == 3600.0
    assert reader.stored() == (NOW_S, NOW_S + 3600)


def people(history: ClusterHistory) -> None:
    """Store a workload of each of two people and one of an unknown person, and their use."""
    history.write([ended(1, name="a", user="ann"), ended(2, name="b", user="bob"), ended(3, name="c")], [])
    uses = [
        UsageSample("vision", "lab", user, "train", "", allocated_gpu_s=gpu_s, namespace="ns")
        for user, gpu_s in (("ann", 3600.0), ("bob", 1800.0), ("", 900.0))
    ]
    history.sample(UsageSamples(NOW_S, NOW_S + 3600, uses))


def by_user(reader: ClusterHistoryReader, namespace: str = "") -> dict[str, tuple[float, int]]:
    """Return the GPU time and the number of ended workloads of a week by user."""
    report = reader.history(NOW_S - DAY, NOW_S + 6 * DAY, "user", NOW_S + DAY, ReportScope(namespace or None))
    return {row.key: (round(row.allocated_gpu_s, 6), row.ended) for row in report.rows}


def test_reports_and_lists_are_by_the_person_and_not_by_the_namespace(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    people(history)
    expected = {"ann": (3600.0, 1), "bob": (1800.0, 1), "": (900.0, 1)}
    assert by_user(reader) == by_user(reader, "ns") == expected
    assert by_user(reader, "ann") == {}
    assert names(reader, users=["bob"]) == names(reader, users=["bob"], namespace="ns") == ["ns/b"]
    assert names(reader, users=["bob", "ann"], projects=["speech", "vision"]) == ["ns/b", "ns/a"]
    assert names(reader, users=["ns"]) == []


def test_lists_are_filtered_newest_first_without_what_is_present(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    history.write([ended(number, name=f"w{number}", user=f"Ann_{number}") for number in range(1, 6)], [])
    history.write([workload(9, "live")], [])
    assert names(reader, text="NS/W2") == names(reader, text="nn_2") == ["ns/w2"]
    assert names(reader, text="VISI") == names(reader) == ["ns/w5", "ns/w4", "ns/w3", "ns/w2", "ns/w1"]
    assert names(reader, present=[5, 3]) == ["ns/w4", "ns/w2", "ns/w1"]
    assert names(reader, named="job-w2") == names(reader, named="w2") == ["ns/w2"]
    assert names(reader, statuses=["failed"]) == names(reader, text="w_") == []
    count, rows = reader.workloads(ClusterWorkloadFilter(present=[5]), 1, 2)
    assert (count, [workload.row.name for workload in rows]) == (4, ["ns/w3", "ns/w2"])
    stored = reader.workload("ns", "w4")
    assert stored is not None
    assert stored.stated == {"metadata": {"namespace": "ns", "name": "w4"}, "detail": {}}
    assert reader.workload("ns", "live") is None
    since_s = stored.row.submitted_s
    assert names(reader, since_s=since_s) == ["ns/w5", "ns/w4"]
    assert reader.workload("ns", "w3", since_s) is None


def test_live_workload_that_vanished_is_ended_once(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    history.write([workload(1, "a"), workload(2, "b"), workload(3, "c", status="running")], [])
    assert history.close_vanished({2}, NOW_S + 900) == 2
    assert history.close_vanished({2}, NOW_S + 950) == 0
    stored = reader.workload("ns", "c")
    assert stored is not None
    assert (stored.row.status, stored.row.ended_s) == ("stopped", NOW_S + 900)
    assert stored.row.reason is not None
    assert stored.row.reason.sentence == VANISHED
    history.write([workload(7, "b")], [])  # another one of the name, whose end before was never seen
    assert names(reader, named="b") == ["ns/b"]
    assert reader.usage(NOW_S, NOW_S + DAY, "project", NOW_S + DAY).rows[0].ended == 3


def test_what_a_slow_leader_saw_before_the_end_changes_nothing(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    seen = workload(1, status="running")
    history.write([seen], [])
    history.close_vanished(set(), NOW_S + 900)
    history.write([workload(2, status="running")], [])  # another one of the name
    history.write([seen], [])
    rows = reader.workloads(ClusterWorkloadFilter(), 0, 9)[1]
    assert [(workload.row.uid, workload.row.status) for workload in rows] == [(1, "stopped")]
    assert history.close_vanished({1}, NOW_S + 950) == 1, "the second one is live"


def test_a_workload_that_runs_again_after_its_end_is_counted_once(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    for change in (
        ended(1),
        workload(1, status="running", started_s=NOW_S + 100),
        ended(1, ended_s=NOW_S + 200),
    ):
        history.write([change], [])
    stored = reader.workload("ns", "train")
    assert stored is not None
    assert stored.row.ended_s == NOW_S + 200
    history.write([workload(1, status="running")], [])
    assert history.close_vanished(set(), NOW_S + 900) == 1
    assert reader.usage(NOW_S, NOW_S + DAY, "project", NOW_S + DAY).rows[0].ended == 1


def test_old_records_are_deleted(history: ClusterHistory, reader: ClusterHistoryReader) -> None:
    history.write([ended(1)], [event("old"), event("new", at_s=NOW_S + 200 * DAY)])
    assert history.tidy(NOW_S + 200 * DAY) == 1
    assert [event_.sentence for event_ in reader.events(EventFilter(), 0, 9).items] == ["new"]
    assert names(reader) == ["ns/train"]
    history.tidy(NOW_S + 400 * DAY)
    assert names(reader) == []


def test_curves_are_replaced_and_go_with_their_workloads(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    history.write([ended(1), ended(2, name="ns/b", ended_s=NOW_S + 300 * DAY)], [])
    history.write_series({1: "a", 2: "b"})
    history.write_series({1: "c"})
    history.write_series({})
    assert history.series([1, 2, 3]) == {1: "c", 2: "b"}
    assert history.series([]) == {}
    assert [reader.series(number) for number in (1, 2, 3)] == ["c", "b", None]
    history.tidy(NOW_S + 400 * DAY)
    assert [reader.series(number) for number in (1, 2)] == [None, "b"]


def test_curves_of_a_workload_that_is_stored_later_stay(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    history.write_series({1: "a", 2: "b"})
    history.tidy(NOW_S, [1])
    assert [reader.series(number) for number in (1, 2)] == ["a", None]


def test_gaps_are_told_once(history: ClusterHistory, reader: ClusterHistoryReader) -> None:
    for _ in range(2):
        history.tell_gap("Something is missing.", NOW_S, NOW_S + 60)
    assert reader.gaps(NOW_S, NOW_S + DAY) == ["Something is missing."]
    assert reader.gaps(NOW_S + 61, NOW_S + DAY) == []


def test_gap_cannot_be_told_by_an_event_of_a_namespace(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    forged = event("5f7c", "theirs")
    history.write([], [replace(forged, row=forged.row.model_copy(update={"kind": "history_gap"}))])
    assert reader.gaps(NOW_S - DAY, NOW_S + DAY) == []


def test_texts_that_postgresql_refuses_keep_nothing_from_being_stored(
    history: ClusterHistory, reader: ClusterHistoryReader
) -> None:
    nul = workload(1, "nul", reason={**REASON, "sentence": "a\0b"})
    hidden = event("e\0", "ns", workload="ns/\0")
    history.write([nul, ended(2, reason={**REASON, "sentence": "\0"})], [hidden, event("plain")])
    history.write([ended(1, name="nul", reason={**REASON, "sentence": "c\0"})], [hidden])
    assert names(reader) == ["ns/train", "ns/nul"]
    sentences = [event_.sentence for event_ in reader.events(EventFilter(), 0, 9).items]
    assert "plain" in sentences
    assert sentences.count("e\N{REPLACEMENT CHARACTER}") == 1
    pending = reader.events(EventFilter(kinds=["pending"]), 0, 9).items
    assert [workload.sentence for workload in pending] == ["a\N{REPLACEMENT CHARACTER}b"]
    for word in ("text", "named", "namespace"):
        assert names(reader, **{word: "\0"}) == []
    for word in ("projects", "users", "types", "statuses"):
        assert names(reader, **{word: ["\0"]}) == []
    for wanted in ({"namespace": "\0x"}, {"workload": "\0x"}, {"projects": ["\0x"]}, {"kinds": ["\0x"]}):
        reader.events(EventFilter(**wanted), 0, 9)


def test_database_of_another_cluster_or_of_a_pool_is_refused(
    url: str, history: ClusterHistory, tmp_path: Path
) -> None:
    if url.startswith("postgresql"):  # SQLite's locks hold off other processes, and not this one
        with pytest.raises(StoreFailed, match="Another server has"):
            ClusterHistory(url, "c1", Retention())
    history.close()

    def refused(sentence: str, opening: Callable[[], object]) -> None:
        with pytest.raises(StoreFailed, match=sentence):
            opening()

    refused("another cluster", lambda: ClusterHistory(url, "c2", Retention()))
    other = ClusterHistoryReader(url, "c2", Retention())
    refused("another cluster", lambda: other.events(EventFilter(), 0, 1))
    other.close()
    refused("is not its home", lambda: Store(url, tmp_path / "home"))
    Store(f"sqlite:///{tmp_path}/pool.db", tmp_path / "pool").close()
    refused("a machine's pool", lambda: ClusterHistory(f"sqlite:///{tmp_path}/pool.db", "c1", Retention()))


def test_reader_of_a_new_database_says_so(url: str) -> None:
    reader = ClusterHistoryReader(url, "c1", Retention())
    with pytest.raises(StoreFailed, match="first leader has not opened"):
        reader.events(EventFilter(), 0, 1)
    reader.close()


def test_question_that_takes_too_long_is_ended(history: ClusterHistory, url: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("SQLite has no such limit")
    reader = ClusterHistoryReader(url, "c1", Retention(), limit_s=0.2)
    with pytest.raises(StoreFailed, match="statement timeout"):
        reader._read(lambda connection: connection.execute(text("SELECT pg_sleep(600)")))
    assert reader.gaps(NOW_S, NOW_S + 1) == []
    reader.close()
