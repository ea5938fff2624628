"""Settings in the cluster: checked whole, the last good ones in force, also after a restart."""

from typing import Any

import pytest

from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.api.reflector import Removed, Set
from weir.kubernetes.own.own_objects import QueueThing
from weir.kubernetes.own.scheduler_config import TEXT_MAX, Settings, settings_of
from weir.kubernetes.own.shapes import Unsound
from weir.model.policy import Policy
from weir.server.cluster_settings import ClusterSettings

BASE = Settings(Policy(gang_grace=7.0))
GOOD: dict[str, Any] = {"policy": {"preset": "throughput", "reserve_after": "2h"}}
BAD: dict[str, Any] = {"policy": {"preset": "thruput"}}


def thing(spec: dict[str, Any], name: str = "weir", status: dict[str, Any] | None = None) -> QueueThing:
    return QueueThing(Metadata(name, uid="u", generation=3), spec, status or {})


def changed(settings: ClusterSettings, spec: dict[str, Any], name: str = "weir") -> None:
    settings.deliver([Set(name, thing(spec, name))])


def test_a_policy_is_in_force_until_the_object_is_gone() -> None:
    settings = ClusterSettings("weir", BASE)
    calls: list[str] = []
    settings.changed = lambda: calls.append(settings.settings.policy.preset)
    changed(settings, GOOD)
    assert settings.settings.policy.reserve_after == 7200.0
    changed(settings, GOOD)
    settings.deliver([Removed("weir", "u")])
    assert settings.settings == BASE
    assert calls == ["throughput", "fair"], "told once for each change"


def test_a_bad_object_changes_nothing_and_says_why() -> None:
    settings, told = ClusterSettings("weir", BASE), []
    settings.tell = told.extend
    changed(settings, GOOD)
    changed(settings, BAD)
    assert settings.settings.policy.preset == "throughput"
    assert "preset" in settings.refused
    status, event = told[-2:]
    assert status.path.endswith("/schedulerconfigs/weir")
    (condition,) = status.patch["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Accepted", "False", "Refused")
    assert "throughput" in status.patch["status"]["inForce"]
    assert (event.reason, event.type, event.regarding.name) == ("Refused", "Warning", "weir")
    changed(settings, {})
    assert (settings.refused, settings.settings) == ("", BASE)


def test_a_restart_in_front_of_a_bad_object_keeps_what_was_in_force() -> None:
    kept = {"inForce": '{"policy": {"preset": "throughput"}}'}
    settings = ClusterSettings("weir", BASE, [thing(BAD, status=kept)])
    assert settings.settings.policy.preset == "throughput"
    assert settings.refused
    for status in (
        {},
        {"inForce": "{"},
        {"inForce": '{"policy": {"x": 1}}'},
        {"inForce": 5},
        {"inForce": "[]"},
    ):
        assert ClusterSettings("weir", BASE, [thing(BAD, status=status)]).settings == BASE


def test_an_object_of_another_name_is_told_that_nobody_reads_it() -> None:
    settings, told = ClusterSettings("weir", BASE), []
    settings.tell = told.extend
    changed(settings, GOOD, "other")
    assert settings.settings == BASE
    assert "reads the SchedulerConfig weir alone" in told[0].patch["status"]["message"]


def test_a_status_that_is_there_is_not_written_again() -> None:
    settings, told = ClusterSettings("weir", BASE), []
    settings.tell = told.extend
    changed(settings, GOOD)
    written = told[0].patch["status"]
    told.clear()
    settings.deliver([Set("weir", thing(GOOD, status=written))])
    assert told == []


def test_an_object_that_is_nested_deeply_or_has_thousands_of_mistakes_is_contained() -> None:
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"a": deep}
    many = {f"x{at}": at for at in range(10_000)}
    for spec in ({"policy": deep}, {"kinds": [deep]}, {"policy": many}, deep):
        settings, told = ClusterSettings("weir", BASE), []
        settings.tell = told.extend
        changed(settings, spec)
        assert settings.settings == BASE
        assert len(told[0].patch["status"]["message"]) < 5_000
        changed(settings, GOOD)
        assert settings.settings.policy.preset == "throughput"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"polcy": {}}, "spec.polcy isn't known: write spec.policy or spec.kinds"),
        ({"policy": {"gang_grace": -1}}, "gang_grace"),
        ({"policy": {"reserve_after": "soon"}}, "reserve_after"),
        ({"policy": []}, "spec.policy"),
        ({"policy": "fair"}, "spec.policy"),
        ({"kinds": [{"kind": "X"}]}, "spec"),
        ({"kinds": {"a": 1}}, "spec"),
        ({"policy": {"preset": "f" * TEXT_MAX}}, "larger than 256 KiB"),
    ],
)
def test_what_is_wrong_is_told(spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Unsound, match=sentence):
        settings_of(spec, BASE)
