"""Settings in the cluster: checked whole, the last good ones in force, also after a restart."""

import re
from typing import Any

import pytest

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.crd.scheduler_config import TEXT_MAX, settings_of
from weir.kubernetes.crd.scheduler_settings import SchedulerSettings, SharedNodeRules, ShareMemoryRules
from weir.kubernetes.crd.schemas import InvalidObject
from weir.kubernetes.crd.without_project import WithoutProject
from weir.kubernetes.process.config_watcher import ConfigWatcher
from weir.model.policy import DEFAULT_PRESET, Policy

BASE = SchedulerSettings(Policy(gang_grace=7.0))
GOOD: dict[str, Any] = {"policy": {"preset": "throughput", "reserve_after": "2h"}}
BAD: dict[str, Any] = {"policy": {"preset": "thruput"}}


def thing(spec: dict[str, Any], name: str = "weir", status: dict[str, Any] | None = None) -> QuotaObject:
    return QuotaObject(Metadata(name, uid="u", generation=3), spec, status or {})


def changed(settings: ConfigWatcher, spec: dict[str, Any], name: str = "weir") -> None:
    settings.deliver([ObjectSet(name, thing(spec, name))])


def test_a_policy_is_in_force_until_the_object_is_gone() -> None:
    settings = ConfigWatcher("weir", BASE)
    calls: list[str] = []
    settings.changed = lambda: calls.append(settings.settings.policy.preset)
    changed(settings, GOOD)
    assert settings.settings.policy.reserve_after == 7200.0
    changed(settings, GOOD)
    settings.deliver([ObjectRemoved("weir", "u")])
    assert settings.settings == BASE
    assert calls == ["throughput", DEFAULT_PRESET], "told once for each change"


def test_a_bad_object_changes_nothing_and_says_why() -> None:
    settings, reported = ConfigWatcher("weir", BASE), []
    settings.tell = reported.extend
    changed(settings, GOOD)
    changed(settings, BAD)
    assert settings.settings.policy.preset == "throughput"
    assert "preset" in settings.refused
    status, event = reported[-2:]
    assert status.path.endswith("/schedulerconfigs/weir")
    (condition,) = status.patch["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Accepted", "False", "Refused")
    assert "throughput" in status.patch["status"]["inForce"]
    assert (event.reason, event.type, event.regarding.name) == ("Refused", "Warning", "weir")
    changed(settings, {})
    assert (settings.refused, settings.settings) == ("", BASE)


def test_a_restart_in_front_of_a_bad_object_keeps_what_was_in_force() -> None:
    kept = {"inForce": '{"policy": {"preset": "throughput"}}'}
    settings = ConfigWatcher("weir", BASE, [thing(BAD, status=kept)])
    assert settings.settings.policy.preset == "throughput"
    assert settings.refused
    for status in (
        {},
        {"inForce": "{"},
        {"inForce": '{"policy": {"x": 1}}'},
        {"inForce": 5},
        {"inForce": "[]"},
    ):
        assert ConfigWatcher("weir", BASE, [thing(BAD, status=status)]).settings == BASE


def test_an_object_of_another_name_says_that_it_is_ignored() -> None:
    settings, reported = ConfigWatcher("weir", BASE), []
    settings.tell = reported.extend
    changed(settings, GOOD, "other")
    assert settings.settings == BASE
    assert "reads only the SchedulerConfig weir" in reported[0].patch["status"]["message"]


def test_a_status_that_is_there_is_not_written_again() -> None:
    settings, reported = ConfigWatcher("weir", BASE), []
    settings.tell = reported.extend
    changed(settings, GOOD)
    written = reported[0].patch["status"]
    reported.clear()
    settings.deliver([ObjectSet("weir", thing(GOOD, status=written))])
    assert reported == []


def test_an_object_that_is_nested_deeply_or_has_thousands_of_mistakes_is_contained() -> None:
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"a": deep}
    many = {f"x{at}": at for at in range(10_000)}
    for spec in ({"policy": deep}, {"kinds": [deep]}, {"policy": many}, deep):
        settings, reported = ConfigWatcher("weir", BASE), []
        settings.tell = reported.extend
        changed(settings, spec)
        assert settings.settings == BASE
        assert len(reported[0].patch["status"]["message"]) < 5_000
        changed(settings, GOOD)
        assert settings.settings.policy.preset == "throughput"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"polcy": {}}, "spec.polcy isn't known: write spec.policy, spec.kinds"),
        ({"policy": {"gang_grace": -1}}, "gang_grace"),
        ({"policy": {"reserve_after": "soon"}}, "reserve_after"),
        ({"policy": []}, "spec.policy"),
        ({"policy": "fair"}, "spec.policy"),
        ({"kinds": [{"kind": "X"}]}, "spec"),
        ({"kinds": {"a": 1}}, "spec"),
        ({"policy": {"preset": "f" * TEXT_MAX}}, "larger than 256 KiB"),
    ],
)
def test_mistakes_of_settings_are_reported(spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidObject, match=sentence):
        settings_of(spec, BASE)


def test_devices_shared_nodes_and_work_without_a_project_are_settings() -> None:
    spec = {
        "deviceResources": [
            {"resource": "nvidia.com/gpu"},
            {"resource": "nvidia.com/mig-1g*", "gpuWeight": "1/7"},
        ],
        "overcommitGrace": "90s",
        "sharedNodes": {"max": 2, "idle": "1h"},
        "shareMemory": {"onExcess": "evict", "grace": "30s"},
        "withoutProject": {"action": "queue", "project": "shared", "namespaceLabels": {"tier": "research"}},
    }
    found = settings_of(spec, BASE)
    assert found.devices.resources == ("nvidia.com/gpu", "nvidia.com/mig-1g*")
    weights = [found.devices.gpu_weight_milli(name) for name in ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")]
    assert weights == [1000, 142]
    assert found.overcommit_grace_s == 90.0
    assert found.shared_nodes == SharedNodeRules(max=2, wait=60.0, idle=3600.0)
    assert found.share_memory == ShareMemoryRules(on_excess="evict", grace=30.0)
    assert settings_of({"shareMemory": {}}, BASE).share_memory == ShareMemoryRules()
    assert found.without_project == WithoutProject("queue", "shared", (("tier", "research"),))
    assert found.needs_new_instance(BASE)
    live = settings_of({"overcommitGrace": 1, "sharedNodes": {"max": 1}}, BASE)
    assert not live.needs_new_instance(BASE)


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        ({"deviceResources": [{"resource": "card"}]}, "'card' is no resource of a device plugin"),
        ({"deviceResources": [{"resource": "a.io/b", "gpuWeight": 0}]}, "no weight of a device"),
        ({"deviceResources": [{"resource": "a.io/b", "gpuWeight": "1/0"}]}, "1/0"),
        ({"deviceResources": [{"resource": "a.io/b"}] * 2}, "names a.io/b twice"),
        ({"deviceResources": [{"resource": f"a.io/{at}"} for at in range(17)]}, "16"),
        ({"sharedNodes": {"max": -1}}, "max"),
        ({"overcommitGrace": "soon"}, "soon"),
        ({"withoutProject": {"action": "queue"}}, "names no project"),
        ({"withoutProject": {"action": "refuse", "project": "x"}}, "goes with the action queue"),
        ({"withoutProject": {"exemptNamespaces": ["A_b"]}}, "A_b"),
        ({"devices": []}, "spec.deviceResources"),
    ],
)
def test_settings_that_cant_be_used_are_refused_with_what_to_write(
    spec: dict[str, Any], reported: str
) -> None:
    with pytest.raises(InvalidObject, match=re.escape(reported)):
        settings_of(spec, BASE)


def test_an_event_reminds_of_devices_that_the_manifests_dont_name() -> None:
    settings, reported = ConfigWatcher("weir", BASE), []
    settings.tell = reported.extend
    changed(settings, {"deviceResources": [{"resource": "a.io/card", "gpuWeight": "0.5"}]})
    assert reported[-1].note.endswith("`weir kube manifests --devices a.io/card=0.5`.")
    changed(settings, {"deviceResources": [{"resource": "nvidia.com/gpu", "gpuWeight": 2}]})
    assert "--devices" not in reported[-1].note


def usage(**source: Any) -> dict[str, Any]:
    return {"usage": {"prometheus": {"url": "https://p:9090", **source}}}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (usage(url="ftp://p"), "url"),
        (usage(url="https://mia:s3cret@p"), "holds a user or a password"),
        (usage(url="https://p?x=1"), "isn't the address of a server"),
        (usage(url="https://"), "isn't the address of a server"),
        (usage(url="https://p:99999"), "isn't the address of a server"),
        (usage(url="https://p/a b"), "characters that no URL has"),
        (usage(interval="5s"), "from 10s to 60s"),
        (usage(interval="2m"), "from 10s to 60s"),
        (usage(activityMetric='x"} or up'), "activityMetric"),
        ({"usage": {"promtheus": {}}}, "promtheus"),
    ],
)
def test_a_source_of_use_that_cannot_be_read_is_refused(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        settings_of(spec, BASE)
    assert why in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_the_condition_of_the_use_is_written_when_it_changes_and_only_then() -> None:
    settings, reported = ConfigWatcher("weir", BASE), []
    settings.tell = reported.extend

    def conditions() -> dict[str, tuple[str, str, str]]:
        written = reported[-2].patch["status"]["conditions"]
        return {each["type"]: (each["status"], each["reason"], each["message"]) for each in written}

    changed(settings, {})
    assert set(conditions()) == {"Accepted"}
    changed(settings, usage())
    assert settings.settings.usage.url == "https://p:9090"
    assert conditions()["UsageRead"][0] == "True"
    settings.set_usage_trouble("it doesn't answer in time")
    message = "The use of GPUs is unknown: it doesn't answer in time."
    assert conditions()["UsageRead"] == ("False", "PrometheusFailed", message)
    assert conditions()["Accepted"][0] == "True"
    known = len(reported)
    settings.set_usage_trouble("it doesn't answer in time")
    assert len(reported) == known
    settings.deliver([ObjectSet("weir", thing(usage(), status=reported[-2].patch["status"]))])
    assert len(reported) == known, "the object has this status"


def test_the_condition_names_the_nodes_where_they_report_instead_of_a_server() -> None:
    settings, reported = ConfigWatcher("weir", BASE), []
    settings.tell = reported.extend
    changed(settings, {})
    settings.set_usage_trouble("no node has reported", nodes_report=True)
    (condition,) = [
        each for each in reported[-2].patch["status"]["conditions"] if each["type"] == "UsageRead"
    ]
    assert (condition["status"], condition["reason"]) == ("False", "NoNodeReports")
    changed(settings, usage())
    conditions = {each["type"]: each for each in reported[-2].patch["status"]["conditions"]}
    assert conditions["UsageRead"]["reason"] == "PrometheusFailed", "a server that is named counts alone"


def test_a_hostile_status_of_an_object_is_replaced() -> None:
    for hostile in ({"conditions": 5}, {"conditions": ["x", 1]}, {"conditions": [{"type": "Accepted"}]}):
        settings, reported = ConfigWatcher("weir", BASE), []
        settings.tell = reported.extend
        settings.deliver([ObjectSet("weir", thing(usage(), status=hostile))])
        assert len(reported[0].patch["status"]["conditions"]) == 2


def test_a_condition_has_the_time_of_the_api_server() -> None:
    settings, reported = ConfigWatcher("weir", BASE, clock=lambda: 1_000_000_000.5), []
    settings.tell = reported.extend
    changed(settings, GOOD)
    (condition,) = reported[0].patch["status"]["conditions"]
    assert condition["lastTransitionTime"] == "2001-09-09T01:46:40Z"
