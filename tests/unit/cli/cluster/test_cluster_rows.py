"""Rows of a cluster's dashboard: ends, deletions and objects that can't be read."""

import json
from typing import Any

from weir.cli.cluster.dashboard.cluster_rows import ClusterRows
from weir.cli.cluster.objects import ListedQueue
from weir.dashboard.live_frames import COLUMNS
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet, ObjectUnreadable
from weir.kubernetes.api.object_numbers import number_of, workload_number
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import WorkloadObject, WorkloadSpec, WorkloadStatus

UID = "{:08x}-1111-4222-8333-444455556666"


def workload(at: int, phase: str, **status: Any) -> ObjectSet[WorkloadObject]:
    metadata = Metadata(name=f"job-{at}", uid=UID.format(at), namespace="vision")
    thing = WorkloadObject(
        metadata, WorkloadSpec(project="vision"), WorkloadStatus(phase=phase, gpus="2", **status)
    )
    return ObjectSet(f"vision/job-{at}", thing)


def activities(rows: ClusterRows) -> dict[str, tuple[str, str, str]]:
    """Return the activity, reason and sentence of each workload in the list."""
    columns = [COLUMNS.index(name) for name in ("activity", "why", "sentence")]
    return {row[1]: tuple(row[at] for at in columns) for row in shown(rows)["rows"]}  # type: ignore[misc]


def queue(name: str, **spec: Any) -> ObjectSet[ListedQueue]:
    return ObjectSet(name, ListedQueue(Metadata(name=name, uid="1"), spec))


def shown(rows: ClusterRows) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(rows.table.whole(b"null"))
    return frame


def test_numbers_of_workloads_are_exact_in_a_browser() -> None:
    for uid in ("ffffffff-ffff-4fff-bfff-ffffffffffff", UID.format(7)):
        assert number_of(uid) == int(float(number_of(uid))) < 2**53


def test_ended_workloads_that_ended_last_are_kept() -> None:
    rows = ClusterRows()
    ended = [workload(at, "Succeeded", ended_at=f"2026-01-31T12:{(at * 7) % 60:02}:00Z") for at in range(150)]
    rows.take_workloads([*ended, workload(999, "Running")])
    assert not shown(rows)["rows"]
    rows.begin()
    frame = shown(rows)
    assert [row[1] for row in frame["rows"]] == ["vision/job-999"]
    assert len(frame["ended"]) == 100
    assert frame["ended"][-1][1] in {f"vision/job-{at}" for at in range(150) if (at * 7) % 60 == 59}


def test_a_deleted_workload_is_stopped_and_one_that_begins_again_is_live() -> None:
    rows = ClusterRows()
    rows.take_workloads([workload(1, "Running"), workload(2, "Succeeded", ended_at="2026-01-31T12:00:00Z")])
    rows.begin()
    rows.table.take_changes()
    rows.take_workloads([ObjectRemoved("vision/job-1", UID.format(1))])
    changed = json.loads(dict(rows.table.take_changes())["rows"])
    assert [(row[1], row[5]) for row in changed] == [("vision/job-1", "stopped")]
    assert workload_number("vision", UID.format(1)) not in rows.names
    rows.take_workloads([workload(2, "Pending")])
    assert [(row[1], row[5]) for row in shown(rows)["rows"]] == [("vision/job-2", "pending")]
    assert not shown(rows)["ended"]


def test_objects_that_cannot_be_read_are_named_and_the_others_shown() -> None:
    rows = ClusterRows()
    rows.begin()
    take = rows.queues("project")
    take([queue("good", quota={"gpu": 2}, maxPriority=60), queue("bad", quota={"gpu": "many"})])
    assert [(each["name"], each["max_priority"]) for each in shown(rows)["queues"]] == [("good", 60)]
    assert rows.trouble is not None
    assert "project bad can't be read" in rows.trouble
    rows.take_workloads([ObjectUnreadable("vision/job-1", UID.format(1), "spec: expected an object")])
    assert "So can't 1 more." in rows.trouble
    take([queue("bad", quota={"gpu": 1}), ObjectRemoved("good", "1")])
    assert rows.trouble == "The workload vision/job-1 can't be read: spec: expected an object."
    rows.take_workloads([workload(1, "Running")])
    assert rows.trouble is None
    assert [each["name"] for each in shown(rows)["queues"]] == ["bad"]


def test_a_node_that_cannot_be_read_is_named_and_the_others_shown() -> None:
    rows = ClusterRows()
    good = {"name": "n1", "devices": [], "capacity": {}, "allocated": {}, "metadata": {"name": "n1"}}
    assert rows.set_nodes([good, {**good, "name": "n2"}]) is None
    trouble = rows.set_nodes([good, {"name": "n2", "devices": "many"}])
    assert trouble is not None
    assert "1 nodes can't be read, such as n2" in trouble
    assert [each["name"] for each in shown(rows)["nodes"]] == ["n1"]


async def test_measured_activity_is_in_the_rows_and_changes_them_alone() -> None:
    rows = ClusterRows()
    rows.take_workloads([workload(at, "Running") for at in (1, 2, 3)])
    await rows.take_states({"vision/job-1": "parked", "vision/job-2": "working"})
    rows.begin()
    assert activities(rows) == {
        "vision/job-1": ("parked", "", ""),
        "vision/job-2": ("working", "", ""),
        "vision/job-3": ("", "", ""),
    }
    rows.table.take_changes()
    await rows.take_states({"vision/job-1": "parked", "vision/job-3": "starved", "vision/job-9": "left"})
    changed = json.loads(dict(rows.table.take_changes())["rows"])
    assert [row[1] for row in changed] == ["vision/job-2", "vision/job-3"]
    assert activities(rows)["vision/job-3"] == ("starved", "", "")
    assert activities(rows)["vision/job-2"] == ("", "", "")


async def test_state_of_before_a_change_of_phase_is_shown_while_it_runs_alone() -> None:
    rows = ClusterRows()
    rows.take_workloads([workload(at, "Running") for at in (1, 2)])
    rows.begin()
    await rows.take_states({"vision/job-1": "parked", "vision/job-2": "parked"})
    ended = workload(2, "Succeeded", ended_at="2026-01-31T12:00:00Z", idle_warning="It was idle.")
    rows.take_workloads([workload(1, "Pending", idle_warning="It was idle."), ended])
    assert activities(rows) == {"vision/job-1": ("", "", "")}
    assert (shown(rows)["ended"][0][COLUMNS.index("activity")], shown(rows)["ended"][0][-1]) == ("", "")
    await rows.take_states({"vision/job-2": "working"})
    assert [row[1] for row in shown(rows)["rows"]] == ["vision/job-1"]
    rows.take_workloads([workload(1, "Running")])
    assert activities(rows) == {"vision/job-1": ("", "", "")}


async def test_idle_warning_of_the_object_is_in_the_row_with_and_without_a_state() -> None:
    rows, warning = ClusterRows(), "vision/job-1 has been idle for 1h."
    rows.take_workloads([workload(1, "Running", idle_warning=warning)])
    rows.begin()
    assert activities(rows) == {"vision/job-1": ("", "idle", warning)}
    await rows.take_states({"vision/job-1": "parked"})
    assert activities(rows) == {"vision/job-1": ("parked", "idle", warning)}
    rows.take_workloads([workload(1, "Running")])
    assert activities(rows) == {"vision/job-1": ("parked", "", "")}
