"""A cluster with another version of Weir: a newer one has new fields and words, an older one fewer fields."""

import json
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from tests.unit.cli.cluster.fake_cluster import QUERY, FakeCluster, Object

from weir.api.answers import (
    EventPage,
    NodePage,
    PoolStatus,
    UsageReport,
    WhyAnswer,
    WorkloadDetail,
    WorkloadPage,
)
from weir.api.decision import DecisionAnswer
from weir.cli.main import main

NEW = "unheard-of"
"""A word that this version doesn't know."""
NAME = "vision/job-train"
METADATA = {"name": "job-train", "namespace": "vision"}
WORKLOAD = f"{QUERY}/namespaces/vision/workloads/job-train"
PROJECT = "/apis/weir.dev/v1alpha1/projects/vision"
READS = (
    *("list", "list -A -o wide", "list -A -o json", f"list --sort status --status {NEW}"),
    *("describe train", "describe train -o wide", "describe train -o json"),
    *("why train", "why train -o json", "why train --explain", "why train --explain -o json"),
    *("events", "events -o wide", "events train", "events train -o json"),
    *("nodes -o wide", "nodes -o json", "status", "status -o json", "top", "top --since 1h"),
    *("report usage", "project list"),
)
_SIMPLE: dict[Any, Any] = {str: NEW, int: 1, float: 1.5, bool: True, object: [NEW]}


def newer(annotation: Any) -> Any:
    """Return a value with all fields of this version and a new one, and a new word for each word of a list."""
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {name: newer(field.annotation) for name, field in annotation.model_fields.items()}
        return {**fields, "of_a_newer_version": {"deep": [1]}}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return NEW
    if origin is list:
        return [newer(parts[0])]
    if origin is dict:
        return {key: newer(parts[1]) for key in ("gpu", NEW)}
    return newer(next(each for each in parts if each is not type(None)))  # optional, or annotated


def newer_answers() -> dict[str, Object]:
    """Return the answers of a newer Weir by path."""
    named = {"name": NAME, "metadata": METADATA}
    row = {**newer(WorkloadDetail), **named}
    return {
        "workloads": {**newer(WorkloadPage), "items": [row], "next": None},
        "namespaces/vision/workloads/job-train": row,
        "namespaces/vision/workloads/job-train/why": {**newer(WhyAnswer), **named, "unfinished": False},
        "namespaces/vision/workloads/job-train/decision": newer(DecisionAnswer),
        "events": {**newer(EventPage), "next": None},
        "namespaces/vision/events": {**newer(EventPage), "next": None},
        "nodes": {**newer(NodePage), "next": None},
        "pools/cluster": newer(PoolStatus),
        "reports/usage": newer(UsageReport),
    }


def older_answers() -> dict[str, Object]:
    """Return the answers of an older Weir by path: the fields that every version has, and no others.

    A field that comes later is optional: an older Weir doesn't send it.
    """
    row = {
        "uid": 1,
        "name": NAME,
        "metadata": METADATA,
        "project": "vision",
        "user": "",
        "type": "train",
        "status": "running",
        "priority": 50,
        "preemptible": True,
        "devices": 2.0,
        "pods": 1,
        "pods_running": 1,
        "submitted_s": 1_000_000.0,
    }
    event = {"id": 1, "at_s": 1_000_000.0, "kind": "started", "sentence": f"{NAME} starts on n1."}
    device = {"index": 0, "model": None, "memory": 0, "allocated": 1.0}
    node = {"name": "n1", "devices": [device], "capacity": {"gpu": 1.0}, "allocated": {"gpu": 1.0}}
    victim = {"workload": NAME, "project": "vision", "gpus": 1.0, "lost": 0.0}
    score = {"node": "n1", "free_gpus": 1.0, "preference": 0}
    ranking = {"group": "worker", "fitting": 1, "nodes": [score]}
    usage = {
        "key": "vision",
        "allocated_gpu_s": 60.0,
        "used_gpu_s": None,
        "idle_gpu_s": None,
        "over_quota_gpu_s": 0.0,
        "waiting_s": 0.0,
        "workloads": 1,
        "ended": 0,
        "preempted": 0,
    }
    return {
        "workloads": {"total": 1, "items": [row]},
        "namespaces/vision/workloads/job-train": row,
        "namespaces/vision/workloads/job-train/why": {"name": NAME, "status": "pending", "reason": None},
        "namespaces/vision/workloads/job-train/decision": {
            "rankings": [ranking],
            "eligible": 1,
            "protected": 0,
            "victims": [victim],
        },
        "events": {"total": 1, "items": [event]},
        "namespaces/vision/events": {"total": 1, "items": [event]},
        "nodes": {"total": 1, "items": [node]},
        "pools/cluster": {
            "version": "0.0.1",
            "nodes": 1,
            "devices": 1,
            "allocated": 1.0,
            "running": 1,
            "pending": 0,
            "policy": "",
            "started_s": 1_000_000.0,
        },
        "reports/usage": {"since_s": 0.0, "until_s": 60.0, "by": "project", "rows": [usage]},
    }


NEWER_PROJECT = {
    "spec": {
        "quota": {"gpu": 4, f"example.com/{NEW}": 1},
        "times": {"maxRuntime": "2h", NEW: NEW},
        "namespaces": ["vision"],
        NEW: [NEW],
    },
    "status": {"phase": NEW, "allocated": {"gpu": "1"}, NEW: {}},
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("words", READS)
@pytest.mark.parametrize(
    ("answers", "project"), [(newer_answers, NEWER_PROJECT), (older_answers, {})], ids=["newer", "older"]
)
def test_a_read_shows_the_answer_of_another_version(
    answers: Callable[[], dict[str, Object]],
    project: Object,
    words: str,
    fake_cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path, answer in answers().items():
        fake_cluster.add(f"{QUERY}/{path}", answer)
    fake_cluster.add(PROJECT, {"metadata": {"name": "vision", "uid": "p1"}, **project})
    assert main(words.split()) == 0
    shown, summary = capsys.readouterr()
    if answers is newer_answers and words.startswith(("list", "describe", "events")):
        assert NEW in shown
    if answers is newer_answers and words == "list":
        assert f"1 {NEW}" in summary
    if words.endswith("json"):
        assert "of_a_newer_version" not in json.dumps(json.loads(shown))


def test_what_an_older_weir_doesnt_serve_is_refused_after_the_rest(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, answer in older_answers().items():
        if not path.endswith("/decision"):
            fake_cluster.add(f"{QUERY}/{path}", answer)
    assert main(["why", "train", "--explain"]) == 2
    answer = capsys.readouterr()
    assert "waits" in answer.out
    assert f"There is no {WORKLOAD}/decision." in answer.err


def test_one_project_that_cannot_be_read_hides_no_other(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, gpus in (("vision", 4), ("odd", NEW)):
        metadata = {"name": name, "uid": name}
        path = PROJECT.replace("vision", name)
        fake_cluster.add(path, {"metadata": metadata, "spec": {"quota": {"gpu": gpus}}})
    assert main(["project", "list"]) == 0
    shown = capsys.readouterr()
    assert any(line.startswith("vision") for line in shown.out.splitlines())
    assert f"project odd can't be read: '{NEW}' is not a quantity" in shown.out + shown.err
    assert main(["project", "set", "odd", "--gpus", "2"]) == 2
    assert "project odd can't be read" in capsys.readouterr().err
    assert not fake_cluster.written
