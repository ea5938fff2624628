"""History of the last hours: spans of workloads, and reports over them."""

import asyncio
import math
from typing import Any

import msgspec
import pytest

from weir.api.answers import QueueRow
from weir.control.activity import ActivityReading
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.query.usage.past_workloads import UsageHistoryEntry
from weir.kubernetes.query.usage.recent_usage import COPIED_AT_ONCE, KEPT_S, RecentUsage
from weir.kubernetes.query.usage.reports import (
    ReportRequest,
    history_report,
    note_of,
    report_request,
    usage_report,
)
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry
from weir.kubernetes.usage.cluster_use import ClusterUse, MeasuredUse

T0 = 1769860800.0
AT = "2026-01-31T12:00:00Z"
QUEUES = {
    "vision": QueueRow(name="vision", kind="project", parent="lab", quota={"gpu": 2.0}),
    "lab": QueueRow(name="lab", kind="department"),
}


def workload(
    name: str, phase: str, *, uid: str = "", namespace: str = "ns", gpus: str = "4", **status: Any
) -> WorkloadIndexEntry:
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"project": "vision", "type": "build"},
        "status": {"phase": phase, "gpus": gpus, "submittedAt": AT, **status},
    }
    thing = msgspec.convert(body, WorkloadObject)
    return WorkloadIndexEntry(namespace, name, uid or name, AT, (), thing)


def see(usage: RecentUsage, at_s: float, *workloads: WorkloadIndexEntry) -> None:
    for each in workloads:
        usage.changed(each.key, each, T0 + at_s)


def all_of(usage: RecentUsage, now_s: float) -> list[UsageHistoryEntry]:
    return asyncio.run(usage.copied(-math.inf, now_s))


def asked(until_s: float, by: Any = "project", namespace: str = "") -> ReportRequest:
    return ReportRequest(T0, T0 + until_s, by, namespace)


def test_gpu_time_waits_and_evictions_are_counted_by_project() -> None:
    usage = RecentUsage(T0)
    see(usage, 0, workload("a", "Pending"))
    see(usage, 100, workload("a", "Running", startedAt="2026-01-31T12:01:40Z"))
    last = {"at": "2026-01-31T12:05:00Z", "rule": "reclaim_quota", "sentence": "s", "lostGpuSeconds": 800.0}
    see(usage, 290, workload("a", "Stopping", lastEviction=last))
    last["lostGpuSeconds"] = 100.0  # it has saved within its grace
    see(usage, 300, workload("a", "Pending", lastEviction=last), workload("b", "Running", gpus="2"))
    see(usage, 400, workload("a", "Running", lastEviction=last))
    usage.changed("ns/b", None, T0 + 500)
    see(usage, 600, workload("a", "Succeeded", endedAt="2026-01-31T12:10:00Z", lastEviction=last))
    past = all_of(usage, T0 + 1000)
    (row,) = usage_report(past, QUEUES, asked(1000), "note").rows
    assert (row.key, row.allocated_gpu_s) == ("vision", 4 * 200 + 2 * 200 + 4 * 200)
    assert row.over_quota_gpu_s == 2 * 200 + 4 * 100 + 2 * 100
    assert (row.waiting_s, row.workloads, row.ended, row.preempted) == (100 + 300 + 100, 2, 2, 1)
    report = history_report(past, QUEUES, asked(1000, "department"), "note")
    assert [each.key for each in report.rows] == ["lab"]
    assert [(rule.rule, rule.count, rule.lost_gpu_s) for rule in report.rules] == [
        ("reclaim_quota", 1, 100.0)
    ]
    assert (report.total.lost_gpu_s, report.rows[0].lost_gpu_s) == (100.0, 100.0)
    assert sum(point.allocated_gpu_s for point in report.points) == row.allocated_gpu_s
    assert [point.over_quota_gpu_s for point in report.points] == [2 * 200, 4 * 100 + 2 * 100, 0, 0]
    assert sum(point.span_s for point in report.points) == 1000
    assert (report.total.waits.count, report.note) == (2, "note")
    (part,) = usage_report(past, QUEUES, ReportRequest(T0 + 150, T0 + 200, "type"), "").rows
    assert (part.key, part.allocated_gpu_s) == ("build", 200)


def test_report_of_a_project_counts_its_work_alone() -> None:
    usage = RecentUsage(T0)
    other = workload("b", "Running", gpus="1")
    other.object.spec.project = "speech"
    see(usage, 0, workload("a", "Running"), other)
    past = all_of(usage, T0 + 100)
    for by, key in (("project", "vision"), ("type", "build")):
        request = report_request({"by": by, "project": "vision,none"}, lambda _, number: number, T0 + 100, "")
        for make in (usage_report, history_report):
            (row,) = make(past, QUEUES, request, "").rows
            assert (row.key, row.allocated_gpu_s, row.over_quota_gpu_s) == (key, 4 * 100, 2 * 100)
            assert row.workloads == 1


def test_a_workload_whose_object_is_written_again_is_counted_once() -> None:
    usage = RecentUsage(T0)
    first, second = workload("a", "Running", uid="1"), workload("a", "Running", uid="2")
    for each in (first, second):
        each.object.spec.owner.uid = "of-a"
    see(usage, 0, first)
    usage.changed("ns/a", None, T0 + 100)
    see(usage, 105, second)
    (row,) = usage_report(all_of(usage, T0 + 200), QUEUES, asked(200), "").rows
    assert (row.workloads, row.ended, row.allocated_gpu_s) == (1, 0, 4 * 195)


def test_gangs_of_one_owner_are_workloads_of_their_own() -> None:
    gangs = [workload(name, "Running", uid=name) for name in ("a", "b")]
    for each in gangs:
        each.object.spec.owner.uid, each.object.spec.owner.gang = "12345678-1234-1234", each.name
    assert gangs[0].identity != gangs[1].identity
    assert gangs[0].number != gangs[1].number


def test_a_pod_that_names_an_owner_of_another_namespace_is_another_workload() -> None:
    usage = RecentUsage(T0)
    mine, forged = workload("a", "Running"), workload("a", "Running", namespace="other")
    for each in (mine, forged):
        each.object.spec.owner.uid = "of-a"
    see(usage, 0, mine, forged)
    usage.changed("other/a", None, T0 + 10)
    held = {each.namespace: each.ended_s for each in all_of(usage, T0 + 20)}
    assert held == {"ns": None, "other": T0 + 10}
    assert mine.number != forged.number


def places(**devices: int) -> list[dict[str, Any]]:
    """Return the places of one pod on each node."""
    return [
        {"pod": node, "uid": node, "node": node, "devices": [*range(count)]}
        for node, count in devices.items()
    ]


def test_gpu_time_is_counted_by_node_and_by_user() -> None:
    usage = RecentUsage(T0)
    first = workload("a", "Pending")
    first.object.spec.user = "mia"
    see(usage, 0, first, workload("c", "Running", namespace="other", gpus="1"))
    see(usage, 100, workload("a", "Running", allocations=places(n1=3, n2=1)))
    see(usage, 300, workload("a", "Running", allocations=places(n1=2, n3=2)))
    reading = ActivityReading(None)
    measured = MeasuredUse(0.5, 400.0, 200.0, reading, T0)
    usage.used(ClusterUse(T0 + 200, {}, {"ns/a": measured}))
    see(usage, 600, workload("a", "Succeeded", endedAt="2026-01-31T12:10:00Z"))
    past = all_of(usage, T0 + 1000)
    report = usage_report(past, QUEUES, asked(1000, "node"), "")
    held = {row.key: row.allocated_gpu_s for row in report.rows}
    assert held == {"-": 1000.0, "n1": 3 * 200 + 2 * 300, "n2": 200.0, "n3": 600.0}
    (whole,) = usage_report(past, QUEUES, asked(1000), "").rows
    assert sum(held.values()) == whole.allocated_gpu_s
    assert sum(row.over_quota_gpu_s for row in report.rows) == pytest.approx(whole.over_quota_gpu_s)
    used = {row.key: row.used_gpu_s for row in report.rows}
    assert (used["n1"], used["n2"], used["n3"]) == (pytest.approx(150.0), pytest.approx(50.0), None)
    assert {row.key: (row.workloads, row.waiting_s) for row in report.rows}["n1"] == (1, 0.0)
    mine = usage_report(past, QUEUES, asked(1000, "node", "other"), "").rows
    assert [(row.key, row.allocated_gpu_s) for row in mine] == [("-", 1000.0)]
    users = usage_report(past, QUEUES, asked(1000, "user"), "").rows
    assert {row.key: row.allocated_gpu_s for row in users} == {"mia": 2000.0, "-": 1000.0}
    history = history_report(past, QUEUES, asked(1000, "node"), "")
    assert [row.key for row in history.rows] == ["-", "n1", "n2", "n3"]
    assert "by node goes back 6 hours" in note_of(usage, asked(1000, "node"), has_database=True)


def test_a_cluster_without_a_database_has_one_note_for_each_kind_of_key() -> None:
    kinds = ("project", "user", "node")
    found = {note_of(RecentUsage(T0), asked(1000, by), has_database=False) for by in kinds}
    assert len(found) == 1, found


def test_a_namespace_sees_its_own_part_alone() -> None:
    usage = RecentUsage(T0)
    see(
        usage,
        0,
        workload("a", "Running", startedAt=AT),
        workload("b", "Running", namespace="other", startedAt=AT),
    )
    past = all_of(usage, T0 + 100)
    (row,) = usage_report(past, QUEUES, asked(100, namespace="ns"), "").rows
    assert (row.allocated_gpu_s, row.workloads) == (400, 1)
    assert row.over_quota_gpu_s == pytest.approx(300), "half of the six GPUs over quota"
    assert usage_report(past, QUEUES, asked(100, namespace="third"), "").rows == []
    assert history_report(past, QUEUES, asked(100, namespace="ns"), "").total.allocated_gpu_s == 400


def test_a_replica_that_begins_knows_what_the_objects_state() -> None:
    usage = RecentUsage(T0 + 1000)
    ended = {"startedAt": "2026-01-31T12:01:40Z", "endedAt": "2026-01-31T12:05:00Z"}
    see(usage, 1000, workload("a", "Failed", **ended), workload("a", "Pending", uid="new"))
    (row,) = usage_report(all_of(usage, T0 + 1100), QUEUES, asked(1100), "").rows
    assert (row.allocated_gpu_s, row.ended, row.workloads) == (800, 1, 2)
    assert "deleted before Weir was started" in note_of(usage, asked(1100), has_database=False)
    assert "deleted" not in note_of(usage, ReportRequest(T0 + 1000, T0 + 1100, "project"), has_database=False)
    all_of(usage, T0 + KEPT_S + 301)
    assert len(usage) == 1, "what is over is forgotten after six hours"


def test_a_flood_of_workloads_displaces_those_that_ended_first_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weir.kubernetes.query.usage.recent_usage.WORKLOADS_MAX", 20)
    usage = RecentUsage(T0 - 100)
    see(usage, 0, workload("stays", "Running", startedAt=AT))
    for at in range(100):
        name = f"w{at}"
        see(usage, 10 * at, workload(name, "Running"))
        usage.changed(f"ns/{name}", None, T0 + 10 * at + 5)
    found = usage_report(all_of(usage, T0 + 2000), QUEUES, asked(2000), "").rows
    assert len(usage) <= 20
    assert sum(row.workloads for row in found) > 10
    assert found[0].allocated_gpu_s >= 4 * 2000, "what still runs is never displaced"
    assert "some that ended before 12:13 UTC are missing" in note_of(usage, asked(2000), has_database=False)
    assert "missing" not in note_of(
        usage, ReportRequest(usage.complete_s, T0 + 2000, "project"), has_database=False
    )


async def test_a_copy_of_the_past_lets_the_event_loop_go_on() -> None:
    usage = RecentUsage(T0)
    for at in range(5 * COPIED_AT_ONCE):
        see(usage, 0, workload(f"w{at}", "Running", startedAt=AT))
    copying = asyncio.create_task(usage.copied(T0, T0 + 100))
    turns = 0
    while not copying.done():
        turns += 1
        see(usage, 50, workload(f"w{turns}", "Failed", endedAt="2026-01-31T12:00:50Z"))
        await asyncio.sleep(0)
    assert turns >= 5
    assert len(await copying) == 5 * COPIED_AT_ONCE


def test_requests_are_bounded_and_unknown_keys_refused() -> None:
    def number(params: dict[str, str]) -> Any:
        return lambda name, default: float(params.get(name, default))

    def request(**params: str) -> ReportRequest:
        return report_request(params, number(params), T0, "")

    assert request(since="0").since_s == T0 - KEPT_S
    assert request(since="0", until="0").since_s == request(since="0", until="0").until_s == T0 - KEPT_S
    assert request(since=str(T0 * 2)).until_s == T0
    stored = report_request({"by": "node"}, number({"since": "0"}), T0, "", math.inf)
    assert (stored.since_s, stored.is_recent_alone) == (T0 - KEPT_S, True)
    with pytest.raises(QueryRefused, match="don't state a gpu_model"):
        request(by="gpu_model")
    with pytest.raises(QueryRefused, match="'x' is none of project, department, user, type, node"):
        request(by="x")


def test_spans_of_a_workload_are_bounded() -> None:
    usage = RecentUsage(T0)
    for at in range(1000):
        see(usage, at, workload("a", "Pending" if at % 2 else "Running"))
    (past,) = all_of(usage, T0 + 1000)
    assert len(past.spans) == 64


def measured(at_s: float, seen_s: float, used_s: float, key: str = "ns/a") -> ClusterUse:
    use = MeasuredUse(None, seen_s, used_s, ActivityReading(None), 0.0)
    return ClusterUse(T0 + at_s, {}, {key: use})


def test_measured_use_is_reported_for_the_time_in_which_it_was_measured() -> None:
    usage = RecentUsage(T0)
    see(usage, 0, workload("a", "Running", startedAt=AT), workload("b", "Running", startedAt=AT))
    (row,) = usage_report(all_of(usage, T0 + 10), QUEUES, asked(1000), "").rows
    assert (row.used_gpu_s, row.idle_gpu_s) == (None, None), "nothing was measured"
    for at in range(30, 1230, 30):
        usage.used(measured(at, 120.0, 30.0))
    usage.used(measured(1000, 50.0, 50.0, "ns/gone"))
    (row,) = usage_report(all_of(usage, T0 + 1230), QUEUES, asked(1230), "").rows
    assert (row.used_gpu_s, row.idle_gpu_s) == (40 * 30.0, 40 * 90.0)
    (part,) = usage_report(
        all_of(usage, T0 + 1230), QUEUES, ReportRequest(T0 + 900, T0 + 1230, "type"), ""
    ).rows
    curve = history_report(all_of(usage, T0 + 1230), QUEUES, asked(1230), "").points
    assert sum(point.used_gpu_s for point in curve) == pytest.approx(row.used_gpu_s)
    assert curve[1].used_gpu_s == pytest.approx(10 * 30.0), "in the time in which it was measured"
    assert part.used_gpu_s is not None
    assert 0 < part.used_gpu_s < row.used_gpu_s
    usage.used(measured(KEPT_S + 4000, 1.0, 1.0))
    (past, _) = all_of(usage, T0 + KEPT_S + 4000)
    assert len(past.uses) == 1, "sums that are too old are forgotten"
