"""The Events that a replica keeps: few, and small ones, whatever the API server takes."""

from typing import Any

import msgspec

from weir.api.answers import EventFilter
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.workloads import event_index as module
from weir.kubernetes.query.workloads.event_index import NAME_MAX, NOTE_MAX, EventIndex, matching_events
from weir.kubernetes.query.workloads.index import WorkloadIndex
from weir.kubernetes.query.workloads.rows import EventView


def event(name: str, namespace: str = "ns", **more: Any) -> ObjectSet[EventView]:
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "regarding": {"kind": "Workload", "namespace": namespace, "name": "job-a"},
        "reason": "Started",
        "note": "It started.",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        **more,
    }
    return ObjectSet(f"{namespace}/{name}", msgspec.convert(body, EventView))


def index() -> EventIndex:
    return EventIndex(WorkloadIndex(), clock=lambda: 1_767_225_600.0)


def test_long_texts_are_kept_in_part() -> None:
    """Anyone with the right to create Events could fill the memory of Weir otherwise."""
    events = index()
    long = "x" * 1_000_000
    regarding = {"kind": "Pod", "namespace": "ns", "name": long}
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "annotations": {"a": long}, "labels": {"a": long}}
    events.deliver([event("a", note=long, reason=long, regarding=regarding, metadata=metadata)])
    assert len(msgspec.json.encode([each[0] for each in events.all()])) < 4_000
    (row,) = matching_events(events.all(), EventFilter("ns"), 0, 100)[1]
    assert (len(row.sentence), len(row.pod or "")) == (NOTE_MAX, NAME_MAX)


def test_events_are_of_their_namespace_and_as_many_as_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 5)
    events = index()
    for at in range(8):
        events.deliver([event(f"e{at}", "a" if at % 2 else "b")])
    assert len(events) == 5
    assert {row.workload for row in matching_events(events.all(), EventFilter("a"), 0, 100)[1]} == {"a/job-a"}
    assert [row.sentence for row in matching_events(events.all(), EventFilter("c"), 0, 100)[1]] == []


def test_a_flood_of_one_namespace_displaces_no_event_of_another(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 10)
    events, dropped = index(), []
    events.dropped = lambda key, _at_s: dropped.append(key)
    events.deliver([event(f"calm{at}", "calm") for at in range(4)])
    events.deliver([event(f"flood{at}", "flood") for at in range(100)])
    assert len(events) == 10
    assert [f"calm/calm{at}" for at in range(4)] + [
        f"flood/flood{at}" for at in range(94, 100)
    ] == events.keys()
    assert dropped == [f"flood/flood{at}" for at in range(94)]


def test_old_events_go_whatever_their_namespace() -> None:
    now_s = [1_767_225_600.0]
    events = EventIndex(WorkloadIndex(), clock=lambda: now_s[0])
    events.deliver([event("a", "one"), event("b", "two")])
    now_s[0] += module.KEPT_S + 1
    events.deliver([event("c", "two", eventTime="2026-01-01T06:00:01.000000Z")])
    assert events.keys() == ["two/c"]


def test_event_of_a_pod_is_attributed_to_its_workload_after_that_was_deleted() -> None:
    workloads = WorkloadIndex()
    events = EventIndex(workloads, clock=lambda: 1_767_225_600.0)
    spec = {"project": "vision", "owner": {"name": "train"}}
    body = {"metadata": {"name": "job-train", "namespace": "ns", "uid": "u"}, "spec": spec}
    workloads.deliver([ObjectSet("ns/job-train", msgspec.convert(body, WorkloadObject))])
    workloads.deliver([ObjectRemoved("ns/job-train", "u")])
    regarding = {"kind": "Pod", "namespace": "ns", "name": "train-x7k2p"}
    events.deliver([event("late", regarding=regarding)])
    (row,) = matching_events(events.all(), EventFilter(workload="ns/job-train"), 0, 100)[1]
    assert (row.project, row.pod) == ("vision", "train-x7k2p")
    assert workloads.get("ns", "train") is None


def test_numbers_of_events_are_in_the_order_of_time_and_exact_in_a_browser() -> None:
    events = index()
    times = [f"2026-01-01T00:00:{second:02}.{part:03}000Z" for second in range(3) for part in (0, 1, 999)]
    events.deliver([event(f"e{at}", eventTime=written) for at, written in enumerate(times)])
    numbers = [row.id for row in matching_events(events.all(), EventFilter(), 0, 100)[1]]
    assert numbers == sorted(set(numbers), reverse=True)
    assert all(number == int(float(number)) < 2**53 for number in numbers)


def test_a_page_has_the_newest_events_and_the_number_of_all() -> None:
    events = index()
    stamps = [f"2025-12-31T23:59:{at // 5:02}.000000Z" for at in range(50)]  # five Events each second
    events.deliver([event(f"e{at}", eventTime=stamp) for at, stamp in enumerate(stamps)])
    total, whole = matching_events(events.all(), EventFilter(), 0, 100)
    assert total == len(whole) == 50
    assert [row.id for row in whole] == sorted((row.id for row in whole), reverse=True)
    pages = [matching_events(events.all(), EventFilter(), start, 20) for start in (0, 20, 40, 60)]
    assert [count for count, _ in pages] == [50] * 4
    assert [row for _, page in pages for row in page] == whole
    since = EventFilter(since_s=whole[9].at_s)
    assert matching_events(events.all(), since, 0, 100) == (10, whole[:10])


def test_events_by_a_clock_that_is_behind_belong_to_the_new_namespace_in_the_order_of_their_times() -> None:
    events = index()
    created = {"name": "", "namespace": "ns", "creationTimestamp": "2025-12-31T23:59:41Z"}
    for name, part in (("second", 95), ("first", 91), ("third", 99)):
        metadata = {**created, "name": name, "uid": name}
        events.deliver(
            [event(name, eventTime=f"2025-12-31T23:59:40.{part}0000Z", note=name, metadata=metadata)]
        )
    namespace_s = 1_767_225_581.0  # created in the same second as the Events
    total, rows = matching_events(events.all(), EventFilter("ns", since_s=namespace_s), 0, 100)
    assert (total, [row.sentence for row in rows]) == (3, ["third", "second", "first"])
    assert {row.at_s for row in rows} == {namespace_s}
