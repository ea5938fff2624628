"""Events of workloads by their objects: the same key whenever one is read again, and topics as on a machine."""

import pytest

from weir.kubernetes.notifications.workload_events import deletion_of, events_of
from weir.kubernetes.writes.statuses.stated_events import StatedEvent

from .rules import NOW_S, ended, running, workload


def events(thing: object) -> list[StatedEvent]:
    return list(events_of("u", "vision/train", thing, NOW_S))  # type: ignore[arg-type]


def test_a_running_workload_has_started_once_for_each_run() -> None:
    (first,) = events(running())
    assert (set(first.topics), first.sentence) == ({"start"}, "vision/train starts on n1.")
    (moved,) = events(running(at="2026-01-31T12:05:00Z"))  # another of its pods is the oldest now
    assert moved.id == first.id
    (again,) = events(running(at="2026-01-31T12:05:00Z", life={"restarts": 1}))
    assert again.id != first.id


@pytest.mark.parametrize(
    ("status", "topics", "sentence"),
    [
        (
            {"phase": "Succeeded", "life": {"ranSeconds": 90.0}},
            {"end"},
            "vision/train succeeded after running for 1m30s.",
        ),
        ({"phase": "Failed"}, {"end", "failure"}, "vision/train failed."),
        ({"phase": "Stopped"}, {"end"}, "vision/train was stopped."),
        (
            {"phase": "Stopped", "reason": {"why": "withdrawn", "sentence": "Its person stopped it."}},
            {"end"},
            "vision/train was stopped: its person stopped it.",
        ),
        (
            {"phase": "Stopped", "reason": {"why": "max_runtime", "sentence": "It ran for 1h."}},
            {"end", "failure"},
            "vision/train was stopped: it ran for 1h.",
        ),
    ],
)
def test_an_end_by_a_time_rule_is_a_failure_as_on_a_machine(
    status: dict[str, object], topics: set[str], sentence: str
) -> None:
    (event,) = events(ended(**status))
    assert (set(event.topics), event.sentence) == (topics, sentence)


def test_an_eviction_and_each_step_of_the_idle_rules_are_events() -> None:
    eviction = {"at": "2026-01-31T12:01:00Z", "rule": "preempt", "sentence": "Big needs 4 GPUs."}
    (evicted,) = events(workload(phase="Pending", lastEviction=eviction))
    assert (set(evicted.topics), evicted.sentence) == (
        {"eviction"},
        "vision/train is evicted: big needs 4 GPUs.",
    )
    idle = {"run": 1, "notices": 1, "noticedSeconds": 600.0}
    (noticed,) = events(workload(idleWarning="It is suspended at noon.", life={"idle": idle}))
    assert (noticed.kind, set(noticed.topics), noticed.at_s) == ("idle_warning", {"idle", "warning"}, NOW_S)
    (lost,) = events(workload(idleWarning="Any may take it.", life={"idle": {**idle, "unprotected": True}}))
    assert (lost.kind, lost.id != noticed.id) == ("protection_lost", True)
    (held,) = events(workload(phase="Pending", since="2026-01-31T12:01:00Z", suspendedFor="idle for 2h"))
    assert (held.kind, set(held.topics), held.sentence) == (
        "idle_suspended",
        {"idle"},
        "vision/train is suspended: idle for 2h.",
    )


def test_gpus_that_an_eviction_returned_to_a_quota_are_an_event_of_the_start() -> None:
    returned_at = "2026-01-31T12:00:30Z"
    found = events(running(quotaReturnedAt=returned_at))
    assert [(each.kind, set(each.topics)) for each in found] == [
        ("started", {"start"}),
        ("quota_met", {"quota"}),
    ]
    assert found[1].sentence == "vision got GPUs of its quota back for vision/train."
    earlier = running(at="2026-01-31T12:00:10Z", quotaReturnedAt=returned_at)
    assert [each.kind for each in events(earlier)] == ["started"]


def test_a_past_event_has_the_key_that_it_had_while_the_status_stated_it() -> None:
    (started,) = events(running())
    past = [{"id": "start 0", "at": "2026-01-31T12:01:00Z", "kind": "started", "topics": ["start"]}]
    again, end = sorted(events(ended(pastEvents=past)), key=lambda each: each.at_s)
    assert (again.id, again.at_s, set(again.topics)) == (started.id, started.at_s, set(started.topics))
    assert end.kind == "ended"


def test_a_deletion_is_the_end_and_the_end_has_one_key() -> None:
    (event,) = events(ended())
    assert deletion_of("u", "vision/train", ended(), NOW_S).id == event.id


def test_an_object_that_gets_another_owner_has_other_events() -> None:
    first, second = running(), running()
    first.spec.owner.uid, second.spec.owner.uid = "o1", "o2"
    assert events(first)[0].id != events(second)[0].id
