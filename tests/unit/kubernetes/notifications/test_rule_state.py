"""The outbox of one rule: its events, its messages, and its limits."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.crd.notification_objects import (
    DELIVERIES_MAX,
    KIND,
    QUEUED_MAX,
    SENTENCE_MAX,
    TOLD_MAX,
)
from weir.kubernetes.notifications.rule_state import MESSAGE_SIZE_MAX, TRIED_MAX, RuleState
from weir.kubernetes.notifications.workload_events import events_of
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry
from weir.kubernetes.state.owners.pod_info import NAME_MAX
from weir.kubernetes.writes.statuses.stated_events import StatedEvent
from weir.model.notifications import OutboxMessage

from .rules import CREATED, NOW_S, ended, read_rule, rule, running, workload

SPEC = workload().spec


def state_of(written: dict[str, Any]) -> RuleState:
    return RuleState(read_rule(written), NOW_S)


def take(state: RuleState, thing: Any) -> bool:
    name = thing.metadata.name
    events = events_of(thing.metadata.uid, f"vision/{name}", thing, NOW_S)
    return state.take(events, thing.spec, thing.metadata.uid, f"vision/{name}")


def event(number: int, at_s: float = NOW_S) -> StatedEvent:
    return StatedEvent(f"{number:010x}", at_s, "started", ("start",), f"job-{number} starts.")


def reread(state: RuleState, written: dict[str, Any], now_s: float = NOW_S) -> RuleState:
    """Return the state of the next leader, which has the status alone."""
    status = msgspec.json.decode(msgspec.json.encode(state.status))
    return RuleState(read_rule({**written, "status": status}), now_s)


def claimed(state: RuleState, now_s: float = NOW_S) -> OutboxMessage:
    message = state.claim(now_s).message
    assert message is not None
    return message


def test_an_event_is_queued_once_and_only_if_rule_and_workload_match() -> None:
    state = state_of(rule(user="mia", project="vision"))
    assert take(state, running())
    assert not take(state, running())
    assert not take(state, running("other", user="tom"))
    other = running("third")
    other.spec.project = "speech"
    assert not take(state, other)
    assert not take(state, running("old", at="2026-01-31T11:59:00Z")), "it is older than the rule"
    assert [each.workload for each in state.status.queued] == ["vision/train"]


def test_an_event_of_the_first_second_of_a_rule_counts_and_none_before() -> None:
    state = state_of(rule())
    assert not take(state, running("before", at="2026-01-31T11:59:59Z"))
    assert take(state, running("same", at=CREATED))


def test_a_notification_has_the_number_that_lists_have() -> None:
    state, thing = state_of(rule()), running()
    thing.spec.owner.uid = "owner-1"
    take(state, thing)
    assert [each.uid for each in state.status.queued] == [WorkloadIndexEntry.of(thing).number]


def test_the_next_leader_goes_on_with_the_status_alone() -> None:
    written = rule()
    state = state_of(written)
    take(state, running())
    message = claimed(state)
    following = reread(state, written)
    assert not take(following, running()), "the status has its key"
    assert claimed(following).key == message.key, "each attempt carries the same key"
    following.conclude(message.key, NOW_S, "")
    last = reread(following, written)
    assert last.claim(NOW_S).message is None
    assert last.status.pending == 0
    assert [each.state for each in last.status.deliveries] == ["delivered"]


def test_a_change_of_the_rule_counts_from_then_on() -> None:
    state = state_of(rule(topics=["end"]))
    take(state, ended("old"))
    changed = read_rule(rule(topics=["start", "end"], generation=2))
    assert state.respecify(changed, NOW_S)
    assert not take(state, running("before")), "it started before the change"
    assert take(state, running("after", at=moment(NOW_S + 1)))
    assert [each.workload for each in state.status.queued] == ["vision/old", "vision/after"]
    assert not state.respecify(read_rule(rule(topics=["end"])), NOW_S), "a late watch has an older rule"
    away = reread(state, rule(generation=3), NOW_S + 60)
    assert not take(away, running("while-away", at=moment(NOW_S + 30))), "it was changed without a leader"


def test_digests_and_refused_messages_wait_and_others_go_on() -> None:
    state = state_of(rule(digest="1h"))
    state.take([event(1)], SPEC, "u", "vision/a")
    assert state.claim(NOW_S).next_s == NOW_S + 3600
    later_s = NOW_S + 3601
    state.take([event(2)], SPEC, "u", "vision/b")
    assert claimed(state, later_s).size == 2
    plain = state_of(rule())
    keys = set()
    for number in range(TRIED_MAX + 1):
        plain.take([event(number)], SPEC, "u", "vision/a")
        claim = plain.claim(NOW_S)
        if number == TRIED_MAX:
            assert claim.message is None
            assert claim.next_s is not None, "no new message is made while five are refused"
            break
        assert claim.message is not None
        keys.add(claim.message.key)
        plain.retry(claim.message.key, NOW_S + 60, "the receiver answered 500")
    assert len(keys) == TRIED_MAX
    assert (plain.status.phase, plain.status.message) == ("Failing", "the receiver answered 500")


def test_a_message_that_is_given_up_is_listed_with_its_error() -> None:
    state = state_of(rule())
    take(state, running())
    state.conclude(claimed(state).key, NOW_S, "the receiver answered 410")
    (delivery,) = state.status.deliveries
    assert (delivery.state, delivery.error, delivery.about) == (
        "failed",
        "the receiver answered 410",
        "vision/train starts on n1.",
    )


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"digest": "soon"}, "soon"),
        ({"quiet": "at night"}, "22:00-07:00"),
        ({"channel": "mail", "address": "=?utf-8?q?x?=@lab.example"}, "no mail address"),
        ({"channel": "pager"}, "no channel"),
    ],
)
def test_a_rule_that_cant_be_read_says_what_to_write(spec: dict[str, Any], sentence: str) -> None:
    assert sentence in state_of(rule(**spec)).unreadable


def test_ten_thousand_events_leave_a_bounded_status() -> None:
    state = state_of(rule())
    for number in range(10_000):
        state.take([event(number, NOW_S + number)], SPEC, "u", f"vision/job-{number}")
    status = state.status
    assert (status.pending, status.dropped) == (QUEUED_MAX, 10_000 - QUEUED_MAX)
    assert len(msgspec.json.encode(status)) < 300_000


def test_the_error_of_an_attempt_is_shortened() -> None:
    state = state_of(rule())
    take(state, running())
    key = claimed(state).key
    state.retry(key, NOW_S, "x" * 100_000)
    (message,) = state.status.messages
    assert len(state.status.message) == len(message.error) == SENTENCE_MAX
    state.conclude(key, NOW_S, "x" * 100_000)
    (delivery,) = state.status.deliveries
    assert len(state.status.message) == len(delivery.error) == SENTENCE_MAX


def test_a_late_event_tells_the_next_leader_nothing_twice() -> None:
    written = rule()
    state = state_of(written)
    events = [event(number, NOW_S + number) for number in range(TOLD_MAX + 100)]
    state.take(events, SPEC, "u", "vision/a")
    state.take([event(10**6, NOW_S - 60)], SPEC, "u", "vision/late")
    following = reread(state, written)
    following.take(events, SPEC, "u", "vision/a")
    assert (following.status.pending, following.status.dropped) == (
        state.status.pending,
        state.status.dropped,
    )


def test_a_term_remembers_only_workloads_that_exist() -> None:
    state = state_of(rule())
    take(state, running())
    assert not take(state, running())
    state.forget("uid-train")
    assert not state._told


@given(some.lists(some.sampled_from(["burst", "send", "crash", "refuse"]), max_size=30))
def test_nothing_is_lost_or_doubled_and_the_status_stays_bounded(steps: list[str]) -> None:
    """Each event is pending, in a message that is over, or counted as dropped, whatever leaders end in between."""
    written = rule()
    state, number, now_s = state_of(written), 0, NOW_S
    delivered: list[str] = []
    for step in steps:
        now_s += 10
        if step == "burst":
            for number in range(number + 1, number + 91):  # noqa: B020 - goes on counting
                state.take([event(number, now_s)], SPEC, "u", f"vision/job-{number}")
        elif step == "crash":
            state = reread(state, written, now_s)
            state.take([event(number, now_s - 10)], SPEC, "u", f"vision/job-{number}")  # it sees it again
        elif (message := state.claim(now_s).message) is not None:
            if step == "send":
                delivered += [each.workload or "" for each in message.notifications]
                state.conclude(message.key, now_s, "")
            else:
                state.retry(message.key, now_s + 5, "no")
        status = state.status
        assert status.pending == len(status.queued) + sum(len(each.notifications) for each in status.messages)
        assert status.pending <= QUEUED_MAX
        assert len(status.told) <= TOLD_MAX
        assert len(status.deliveries) <= DELIVERIES_MAX
        assert len(msgspec.json.encode(status)) < 300_000
    pending = [each.workload for each in state.status.queued]
    pending += [each.workload for message in state.status.messages for each in message.notifications]
    told = [*delivered, *pending]
    assert len(told) == len(set(told))
    assert len(told) + state.status.dropped >= number


# The schema


def too_long(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Return the paths whose texts or lists are longer than the schema allows."""
    if isinstance(value, dict):
        fields = schema["properties"]
        return [each for key in value for each in too_long(value[key], fields[key], f"{path}.{key}")]
    if isinstance(value, list):
        found = [path] if len(value) > schema.get("maxItems", len(value)) else []
        return found + [each for one in value for each in too_long(one, schema["items"], f"{path}[]")]
    return [path] if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)) else []


def test_the_api_server_takes_the_longest_status() -> None:
    (kind,) = (each for each in definitions() if each["spec"]["names"]["kind"] == KIND)
    schema = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    state, name = state_of(rule()), f"{'n' * 63}/{'w' * NAME_MAX}"
    spec = workload(project="p" * 253).spec
    for turn in range(DELIVERIES_MAX + 2):
        at = range(turn * TOLD_MAX, (turn + 1) * TOLD_MAX)
        long = [replace(event(number), sentence="s" * 9999) for number in at]
        state.take(long, spec, "uid-1", name)
        key = claimed(state).key
        if turn <= DELIVERIES_MAX:
            state.conclude(key, NOW_S, "e" * 9999)
        else:
            state.retry(key, NOW_S + 60, "e" * 9999)
    state.check("r" * 9999, "m" * 9999)
    assert len(state.status.queued) == len(state.status.messages[0].notifications) == MESSAGE_SIZE_MAX
    assert too_long(msgspec.to_builtins(state.status), schema) == []
