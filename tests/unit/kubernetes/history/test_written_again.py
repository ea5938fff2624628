"""Workloads whose objects are deleted and written again are the same in the history."""

import pytest

from weir.kubernetes.history import unstored as unstored_module
from weir.kubernetes.history import writer as module
from weir.kubernetes.history.records import DELETED
from weir.store.cluster.reader import ClusterHistoryReader

from .replica import Make, counted, stamp, stored, until


@pytest.fixture(autouse=True)
def slow_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    monkeypatch.setattr(unstored_module, "REWRITTEN_WITHIN_S", 60.0)


def test_workload_whose_object_is_deleted_and_written_again_is_one(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    replica, owner = make(lambda: url), "ab" * 16
    replica.set("a", "Running", uid="1" * 32, owner=owner)
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    replica.remove("a")
    replica.set("last", "Failed", endedAt=stamp())
    until(lambda: stored(reader) == {"ns/last": "failed"})
    replica.set("a", "Running", uid="2" * 32, owner=owner)
    replica.set("a", "Succeeded", uid="2" * 32, owner=owner, endedAt=stamp())
    until(lambda: stored(reader) == {"ns/a": "succeeded", "ns/last": "failed"})
    assert counted(reader) == (2, 2)


def test_work_of_the_same_name_ends_what_was_deleted_before_it(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    replica = make(lambda: url)
    replica.set("a", "Running", uid="1" * 32, owner="ab" * 16)
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    replica.remove("a")
    replica.set("a", "Running", uid="2" * 32, owner="cd" * 16)
    until(lambda: stored(reader) == {"ns/a": "stopped"})
    assert counted(reader) == (2, 1)
    found = reader.workload("ns", "a", 0.0)
    assert found is not None
    assert found.row.reason is not None
    assert found.row.reason.sentence == DELETED
