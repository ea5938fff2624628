"""The writer of the history: what the API server shows is stored once, whatever happens to the database."""

import time
from threading import Event, current_thread
from typing import Any

import pytest

from weir.api.answers import EventFilter
from weir.kubernetes.history import records as records_module
from weir.kubernetes.history import unstored as unstored_module
from weir.kubernetes.history import writer as module
from weir.kubernetes.history.retention import retention_of
from weir.store.cluster.reader import ClusterHistoryReader
from weir.store.cluster.writer import ClusterHistory
from weir.store.records import UsageSamples

from .replica import CLUSTER, Make, counted, kinds, stamp, stored, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EVERY_S", 0.01), ("PAUSE_S", 0.01), ("PAUSE_S_MAX", 0.02), ("LAST_WRITE_S", 60.0)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(unstored_module, "REWRITTEN_WITHIN_S", 0.1)


def test_next_leader_stores_what_the_one_before_did_not_and_nothing_twice(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    first, second = make(lambda: url), make(lambda: url)
    reason = {"why": "insufficient_capacity", "sentence": "it waits"}
    for each in (first, second):
        each.set("done", "Running")
        each.set("waits", "Pending", reason=reason)
        each.set("gone", "Running")
        each.tell("e1", "done")
    writer = first.lead()
    until(lambda: bool(writer.written_s))
    for each in (first, second):
        each.set("done", "Succeeded", endedAt=stamp())
        each.tell("e2", "done")
    writer.close()  # before or after it has stored the last change
    second.remove("gone")  # of which the first one knows nothing
    second.set("waits", "Pending", reason=reason)
    writer = second.lead()
    until(lambda: stored(reader) == {"ns/done": "succeeded", "ns/gone": "stopped"})
    until(lambda: kinds(reader) == ["e1", "e2", "it waits"])
    writer.close()
    third = make(lambda: url)  # it has never heard of what is gone, and `waits` was deleted meanwhile
    third.set("done", "Succeeded", endedAt=stamp())
    third.tell("e2", "done")
    writer = third.lead()
    until(lambda: len(stored(reader)) == 3)
    writer.close()
    assert stored(reader)["ns/waits"] == "stopped"
    assert kinds(reader) == ["e1", "e2", "it waits"]
    assert counted(reader) == (3, 3)


def test_the_end_that_the_next_leader_stored_outlasts_a_late_write_of_the_one_before(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(lambda: url), make(lambda: url)
    for each in (first, second):
        each.set("gone", "Running")
    slow = first.lead()
    until(lambda: bool(slow.written_s))
    writes, goes_on, write = Event(), Event(), ClusterHistory.write

    def late(self: ClusterHistory, changed: Any, told: Any) -> None:
        if changed and current_thread() is slow._thread:
            writes.set()
            assert goes_on.wait(120)
        write(self, changed, told)

    monkeypatch.setattr(ClusterHistory, "write", late)
    first.set("gone", "Stopping")  # the last that the first leader hears of it
    assert writes.wait(120)
    second.remove("gone")
    writer = second.lead()
    until(lambda: stored(reader) == {"ns/gone": "stopped"})
    goes_on.set()
    slow.close()
    writer.close()
    assert stored(reader) == {"ns/gone": "stopped"}


def test_changes_wait_for_a_database_that_is_away_and_a_gap_is_reported(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unstored_module, "REMOVED_MAX", 3)
    addresses = ["sqlite:////no/such/directory/history.db"]
    replica = make(lambda: addresses[-1])
    writer = replica.lead()
    until(lambda: "No such file" in writer.trouble)
    for at in range(5):
        replica.set(f"w{at}", "Running")
        replica.remove(f"w{at}")
    replica.set("live", "Running")
    replica.tell("e1", "w4")
    addresses.append(url)  # the Secret names another database from now on
    until(lambda: not writer.trouble and bool(writer.written_s))
    until(lambda: stored(reader) == dict.fromkeys(("ns/w2", "ns/w3", "ns/w4"), "stopped"))
    writer.close()
    (gap,) = reader.gaps(time.time() - 3600, time.time() + 3600)
    assert "2 deleted workloads" in gap
    assert "e1" in kinds(reader)


def test_a_failure_of_any_kind_leaves_the_thread_running(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    failures = ["postgresql://h:port/x", "", "mysql://h/x", url]
    replica = make(lambda: failures.pop(0) if len(failures) > 1 else url)
    replica.set("a", "Failed", endedAt=stamp())
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    writer.close()
    assert stored(reader) == {"ns/a": "failed"}


def test_a_secret_that_cannot_be_read_is_trouble_and_no_end(make: Make, url: str) -> None:
    def read() -> str:
        raise ValueError("--database-file: /x can't be read: No such file or directory")

    writer = make(read).lead()
    until(lambda: "--database-file" in writer.trouble)
    writer.close()


def test_record_that_cannot_be_made_keeps_no_other_from_being_stored(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = module.workload_record

    def record(workload: Any, *args: Any, **more: Any) -> Any:
        if workload.name.startswith("bad"):
            raise KeyError(workload.name)
        return found(workload, *args, **more)

    monkeypatch.setattr(module, "workload_record", record)
    replica = make(lambda: url)
    for name in ("bad", "good", "bad-later"):
        replica.set(name, "Failed", endedAt=stamp())
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    assert stored(reader) == {"ns/good": "failed"}
    for name in ("bad-later", "good"):
        replica.remove(name)
    replica.set("next", "Failed", endedAt=stamp())
    until(lambda: stored(reader) == {"ns/good": "failed", "ns/next": "failed"})
    writer.close()
    assert not writer.trouble


def test_event_that_states_a_time_to_come_is_of_now(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    replica = make(lambda: url)
    replica.set("a", "Running")
    replica.tell("later", "a", "9999-01-01T00:00:00Z")
    replica.tell("now", "a")
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    writer.close()
    assert kinds(reader) == ["later", "now"]
    now_s = time.time()
    for each in reader.events(EventFilter(), 0, 9).items:
        assert each.at_s <= now_s
        assert each.id <= (int(now_s * 1000) + 1) << 11


def test_event_that_precedes_its_workload_is_stored_with_it(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    replica = make(lambda: url)
    replica.tell("start", "late")
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    replica.set("late", "Running")
    until(lambda: kinds(reader) == ["start"])
    (event,) = reader.events(EventFilter(), 0, 9).items
    assert (event.workload, event.project) == ("ns/late", "vision")


def test_event_of_no_workload_is_stored_in_the_end(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "KNOWN_WITHIN_S", 1.0)
    replica = make(lambda: url)
    replica.tell("stray", "none")
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    until(lambda: kinds(reader) == ["stray"])


def test_what_a_standby_dropped_long_ago_was_stored_by_its_leader(
    make: Make, url: str, reader: ClusterHistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unstored_module, "REMOVED_MAX", 3)
    leader, standby = make(lambda: url), make(lambda: url)
    writer = leader.lead()
    until(lambda: bool(writer.written_s))
    writer.close()
    standby.workloads._clock = lambda: time.time() - 2 * 3600
    for at in range(5):
        standby.set(f"old-{at}", "Running")
        standby.remove(f"old-{at}")
    standby.workloads._clock = time.time
    assert not standby.unstored.take(time.time()).workloads  # keys of what is gone would add up on a standby
    for at in range(4):
        standby.set(f"new-{at}", "Running")
        standby.remove(f"new-{at}")
    writer = standby.lead()
    until(lambda: bool(writer.written_s))
    writer.close()
    (gap,) = reader.gaps(time.time() - 3600, time.time() + 3600)
    assert " 1 deleted workloads" in gap


def test_history_goes_on_after_a_leader_whose_clock_was_ahead(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    later_s = (time.time() + 2 * 86400) // 60 * 60
    history = ClusterHistory(url, CLUSTER, retention_of(86400.0))
    history.sample(UsageSamples(later_s - 60, later_s, []))
    history.close()
    replica = make(lambda: url)
    replica.set("a", "Running", startedAt=stamp())
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    writer.close()
    now_s = time.time()
    assert (reader.stored()[1] or later_s) < now_s
    (gap,) = reader.gaps(now_s - 600, now_s + 1)
    assert "clock was ahead" in gap


def test_a_wrong_wall_clock_deletes_nothing(make: Make, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied: list[float] = []
    monkeypatch.setattr(ClusterHistory, "tidy", lambda _, now_s, _unstored: tidied.append(now_s) or 0)
    replica, clock_s = make(lambda: url), time.time() - 3600.0
    replica.clock = lambda: clock_s
    replica.lead()
    until(lambda: bool(tidied))
    assert set(tidied) == {clock_s}, "the clock of the process says what is old"


def test_an_event_keeps_the_time_of_an_api_server_that_is_ahead_of_the_wall_clock(
    make: Make, url: str, reader: ClusterHistoryReader
) -> None:
    replica, at_s = make(lambda: url), int(time.time()) + 300.0
    replica.clock = lambda: at_s + 2.0
    replica.set("train", "Running")
    replica.tell("e1", "train", stamp(at_s))
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    until(lambda: "e1" in kinds(reader))
    times = {event.sentence: event.at_s for event in reader.events(EventFilter(), 0, 10).items}
    assert times["e1"] == at_s
