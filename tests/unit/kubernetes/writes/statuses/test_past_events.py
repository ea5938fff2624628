"""Past events: a status that overwrites an event lists it, also after a change of the leader."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.kubernetes.notifications.rules import NOW_S, read_rule, rule

from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import PAST_EVENTS_MAX, OwnerFields, WorkloadObject, WorkloadSpec
from weir.kubernetes.notifications.rule_state import RuleState
from weir.kubernetes.notifications.workload_events import events_of
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.translate.kinds import GangKey
from weir.kubernetes.writes.operations import stated
from weir.kubernetes.writes.statuses.stated_events import PastEvents
from weir.model.reasons import EvictionCause, EvictionRule

KEY = GangKey("vision", "batch/v1", "Job", "train", "j1")
UID = "w1"


class Life:
    """A workload, its object as the API server has it, and the leader that writes it."""

    def __init__(self, *, has_rules: bool = True) -> None:
        self.has_rules = has_rules
        self.now_s, self.run, self.serial = NOW_S, -1, 0
        self.status: dict[str, Any] = {"phase": "Pending"}  # what is to be written next
        self.object = WorkloadObject(
            Metadata("job-train", UID, "vision"), WorkloadSpec(OwnerFields(KEY.uid), project="vision")
        )
        self.happened: list[str] = []  # kinds of the events
        self.lead()

    def lead(self) -> None:
        """Let another leader go on: it knows the object alone."""
        self.gang = Gang(KEY)
        self.gang.project = "vision"
        self.past = PastEvents()
        self.past.has_rules = lambda _: self.has_rules

    def begin(self) -> None:
        self.run += 1
        life = {"restarts": self.run}
        self.status |= {"phase": "Running", "startedAt": moment(self.now_s), "nodes": ["n1"], "life": life}
        self.happened.append("started")

    def evict(self) -> None:
        cause = EvictionCause(EvictionRule.PREEMPT, "vision/big", f"Stopped at {self.now_s:.0f}")
        self.past.evicted(self.gang, cause, self.now_s)
        last = {"at": moment(self.now_s), "rule": "preempt", "sentence": cause.sentence}
        self.status |= {"phase": "Pending", "startedAt": None, "nodes": [], "lastEviction": last}
        self.happened.append("stopping")

    def idle(self) -> None:
        self.serial += 1
        step = {"run": self.run, "notices": self.serial}
        life = {"restarts": max(0, self.run), "idle": step}
        self.status |= {"idleWarning": f"Notice {self.serial}.", "life": life}
        self.happened.append("idle_warning")

    def busy(self) -> None:
        self.status |= {"idleWarning": None}

    def write(self) -> None:
        """Write the status as the status writer does, and see the object."""
        status = dict(self.status)
        self.past.add_to(status, self.gang, self.object, self.now_s)
        merged = stated({**msgspec.to_builtins(self.object.status), **status})
        self.object = msgspec.structs.replace(
            self.object, status=msgspec.convert(merged, type(self.object.status))
        )

    def events(self) -> list[Any]:
        return list(events_of(UID, "vision/job-train", self.object, self.now_s))


def test_an_eviction_is_listed_once_the_next_one_overwrites_it() -> None:
    life = Life()
    life.begin()
    life.write()
    life.evict()
    life.write()
    assert [each.id for each in life.object.status.past_events] == ["start 0"]
    life.now_s += 5
    life.begin()
    life.write()
    life.now_s += 5
    life.evict()
    life.write()
    assert [each.kind for each in life.object.status.past_events] == ["started", "stopping", "started"]
    assert [each.kind for each in life.events()].count("stopping") == 2


def test_two_evictions_before_a_write_are_both_stated() -> None:
    life = Life()
    life.begin()
    life.write()
    life.evict()
    assert life.past.has_news(life.gang)
    life.now_s += 1
    life.evict()
    life.write()
    assert not life.past.has_news(life.gang)
    assert [each.kind for each in life.events()].count("stopping") == 2


def test_nothing_is_listed_where_no_rule_is() -> None:
    life = Life(has_rules=False)
    life.begin()
    life.write()
    life.evict()
    assert not life.past.has_news(life.gang)
    life.write()
    assert "pastEvents" not in msgspec.to_builtins(life.object.status) or not life.object.status.past_events
    status: dict[str, Any] = dict(life.status)
    life.past.add_to(status, life.gang, life.object, life.now_s)
    assert status == life.status, "not even a field"
    assert not life.past._events


def test_another_owner_begins_without_past_events() -> None:
    life = Life()
    life.begin()
    life.write()
    life.evict()
    life.write()
    life.object.status.quota_returned_at = moment(NOW_S)
    life.gang = Gang(GangKey("vision", "batch/v1", "Job", "train", "j2"))
    status: dict[str, Any] = {"phase": "Pending"}
    life.past.add_to(status, life.gang, life.object, life.now_s)
    assert status == {"phase": "Pending", "pastEvents": None, "quotaReturnedAt": None}


def test_an_eviction_for_a_quota_is_kept_of_the_workload_that_gets_it() -> None:
    life = Life()
    cause = EvictionCause(EvictionRule.RECLAIM_QUOTA, "vision/job-train", "s")
    returned = life.past.returns_quota(life.gang, cause, life.now_s)
    assert returned == {"quotaReturnedAt": moment(life.now_s)}
    assert life.past.returns_quota(life.gang, cause, life.now_s) == {}, "of several pods it is written once"
    other = EvictionCause(EvictionRule.PREEMPT, "vision/job-train", "s")
    assert life.past.returns_quota(life.gang, other, life.now_s + 1) == {}
    life.begin()
    life.write()
    assert {each.kind for each in life.events()} == {"started", "quota_met"}
    life.now_s += 10
    life.evict()
    life.lead()
    life.write()
    assert {each.kind for each in life.events()} == {"started", "quota_met", "stopping"}


def test_the_list_is_bounded_and_keeps_the_newest() -> None:
    life = Life()
    for _ in range(40):
        life.now_s += 10
        life.begin()
        life.write()
        life.evict()
        life.write()
    past = life.object.status.past_events
    assert len(past) == PAST_EVENTS_MAX
    assert [each.at for each in past] == sorted(each.at for each in past)
    assert past[-1].id == "start 39"
    assert len(msgspec.json.encode(past)) < 16_000


class Told(Life):
    """A life of which a rule tells, whose status is stored rarely."""

    def __init__(self) -> None:
        super().__init__()
        self.written = rule(topics=["start", "eviction", "idle"])
        self.stored, self.unstored = self.written, 0
        self.state = RuleState(read_rule(self.written), NOW_S - 60)

    def tell(self) -> None:
        self.state.take(self.events(), self.object.spec, UID, "vision/job-train")

    def store(self) -> None:
        self.tell()
        status = msgspec.json.decode(msgspec.json.encode(self.state.status))
        self.stored, self.unstored = {**self.written, "status": status}, 0

    def crash(self) -> None:
        """End the process: the next one has what is stored."""
        self.lead()
        self.state = RuleState(read_rule(self.stored), self.now_s)

    def begin_or_evict(self) -> None:
        self.unstored += 1
        if self.status["phase"] == "Running":
            self.evict()
        else:
            self.busy()
            self.begin()

    def idle(self) -> None:
        self.unstored += 1
        super().idle()


@given(
    some.lists(
        some.sampled_from(["begin_or_evict", "idle", "busy", "tell", "store", "lead", "crash"]), max_size=40
    )
)
def test_each_event_that_a_status_stated_has_rules_once_whatever_is_killed(steps: list[str]) -> None:
    life = Told()
    for step in steps:
        life.now_s += 10
        getattr(life, step)()
        life.write()
        if life.unstored >= PAST_EVENTS_MAX:
            life.store()
    life.tell()
    assert sorted(each.kind for each in life.state.status.queued) == sorted(life.happened)


@pytest.mark.parametrize("sentence", ["x" * 5000, "line\nbreak \x1b[31m"])
def test_a_sentence_of_a_past_event_is_short_and_printable(sentence: str) -> None:
    life = Life()
    life.past.evicted(life.gang, EvictionCause(EvictionRule.PREEMPT, "vision/b", sentence), life.now_s)
    life.begin()
    life.write()
    (past,) = life.object.status.past_events
    assert len(past.sentence) <= 500
    assert past.sentence.isprintable()
