"""Patches and answers of reviews, one at a time."""

from typing import Any

import pytest

from weir.kubernetes.admission.reviews import PodRules, QuotaTree, defaulting_patch, review_errors
from weir.kubernetes.crd.queue_tree import QueueObject

READING = PodRules(
    "weir", {"nvidia.com/gpu"}.__contains__, lambda _pod, answer: ["odd"] if answer.min_pods == 13 else []
)


def known(**namespaces_of: list[str]) -> QuotaTree:
    projects = {name: QueueObject(name, {"namespaces": each}, 1.0) for name, each in namespaces_of.items()}
    topologies = {"net": QueueObject("net", {"levels": ["rack", "host"]})}
    return QuotaTree({"d": QueueObject("d", {})}, projects, topologies)


ONE = known(vision=["ns"])


def pod(gpus: int = 1, *, words: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"annotations": words or {}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}], **spec},
    }


def owned(one: dict[str, Any], kind: str) -> dict[str, Any]:
    references = [{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": True}]
    return {**one, "metadata": {**one["metadata"], "ownerReferences": references}}


def asked(thing: dict[str, Any], kind: str = "Pod", namespace: str = "ns", **more: Any) -> dict[str, Any]:
    return {"kind": {"kind": kind}, "namespace": namespace, "operation": "CREATE", "object": thing, **more}


def scheduler(thing: dict[str, Any], namespace: str = "ns") -> str:
    ops = defaulting_patch(asked(thing, namespace=namespace), ONE, READING)
    return next((op["value"] for op in ops if op["path"] == "/spec/schedulerName"), "")


@pytest.mark.parametrize(
    ("thing", "ours"),
    [
        (pod(), True),
        (pod(0), False),
        (pod(0, words={"weir.dev/gpu-memory": "1Gi"}), True),
        (pod(0, words={"gpu-fraction": "0.5"}), True),
        (pod(0, words={"project": "x"}), False),
        (pod(schedulerName="default-scheduler"), True),
        (pod(schedulerName="kai-scheduler"), False),
        (pod(nodeName="n"), False),
        (owned(pod(), "DaemonSet"), False),
        (owned(pod(), "Job"), True),
        ({"metadata": {}, "spec": {"initContainers": pod()["spec"]["containers"], "containers": []}}, True),
    ],
)
def test_whose_pods_they_become(thing: dict[str, Any], ours: bool) -> None:
    assert scheduler(thing) == ("weir" if ours else "")
    assert scheduler(thing, "elsewhere") == ""


def test_the_only_project_is_written_where_no_owner_can_state_it() -> None:
    def label(thing: dict[str, Any], queues: QuotaTree = ONE) -> list[str]:
        return [
            op["value"]
            for op in defaulting_patch(asked(thing), queues, READING)
            if op["path"].endswith("~1project")
        ]

    assert label(pod()) == ["vision"]
    assert label(pod(words={"weir.dev/project": "vision"})) == []
    assert label(pod(words={"project": "not-ours"})) == ["vision"]
    assert label(owned(pod(), "Job")) == []
    assert label(pod(), known(a=["ns"], b=["ns"])) == []


def test_an_object_beyond_all_measure_is_refused_and_not_read() -> None:
    def unread(_pod: Any, _said: Any) -> list[str]:
        raise AssertionError("it was read")

    reading = PodRules("weir", {"nvidia.com/gpu"}.__contains__, unread)
    reported = ["the spec has more than 10000 keys and list entries: make it smaller"]
    many = {f"a.io/r{at}": "1" for at in range(10_000)}
    large = pod(tolerations=[{"key": f"k{at}"} for at in range(5_000)])
    wide = pod(nodeSelector=many)
    for one in (large, wide):
        assert review_errors(asked(one), ONE, reading) == reported
        assert review_errors(asked(one, oldObject=one, operation="UPDATE"), ONE, reading) == []
        assert review_errors(asked(one, namespace="elsewhere"), ONE, reading) == []
    queue = {"metadata": {"name": "q"}, "spec": {"quota": many}}
    assert review_errors(asked(queue, "Project", name="q"), ONE, READING) == reported


@pytest.mark.parametrize("key", ["gpus", "start"])
def test_a_template_with_a_key_that_weir_writes_is_refused_where_it_is_new(key: str) -> None:
    bad = job(pod(words={f"weir.dev/{key}": "1"}))
    reported = [f"weir.dev/{key} is written by Weir alone: leave it out of the pods' template"]
    assert review_errors(asked(bad, "Job"), ONE, READING) == reported
    assert review_errors(asked(bad, "Job", oldObject=bad, operation="UPDATE"), ONE, READING) == []
    assert review_errors(asked(pod(words={f"weir.dev/{key}": "1"})), ONE, READING) == []


def job(template: dict[str, Any], **more: Any) -> dict[str, Any]:
    template["spec"].setdefault("restartPolicy", "Never")
    return {"metadata": {"name": "j", **more.pop("metadata", {})}, "spec": {"template": template, **more}}


def test_a_preemption_is_no_failure() -> None:
    def paths(thing: dict[str, Any], namespace: str = "ns") -> list[str]:
        return [op["path"] for op in defaulting_patch(asked(thing, "Job", namespace), ONE, READING)]

    both = ["/spec/podFailurePolicy", "/spec/podReplacementPolicy"]
    assert paths(job(pod())) == both
    assert paths(job(pod(0), metadata={"labels": {"weir.dev/project": "vision"}})) == both
    assert paths(job(pod(), podFailurePolicy={"rules": []})) == []
    assert paths(job(pod(), podFailurePolicy={"rules": [{}]})) == []
    assert paths(job(pod(restartPolicy="OnFailure"))) == []
    assert paths(job(pod(0))) == []
    assert paths(job(pod()), "elsewhere") == []


def test_an_indexed_job_pauses_for_each_index_by_itself_and_fails_as_before() -> None:
    def added(**more: Any) -> dict[str, Any]:
        ops = defaulting_patch(
            asked(job(pod(), podFailurePolicy={"rules": [{}]}, **more), "Job"), ONE, READING
        )
        return {op["path"].removeprefix("/spec/"): op["value"] for op in ops}

    indexed = {"completionMode": "Indexed", "completions": 4}
    assert added(**indexed) == {"backoffLimitPerIndex": 6, "maxFailedIndexes": 0}
    assert added(**indexed, backoffLimit=0) == {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
    assert added(completions=4) == {}
    for stated in ({"backoffLimitPerIndex": 1}, {"maxFailedIndexes": 2}, {"successPolicy": {"rules": [{}]}}):
        assert added(**indexed, **stated) == {}
    for odd in ({"completions": 100_001}, {"completions": "4"}, {"backoffLimit": -1}, {"backoffLimit": True}):
        assert added(**(indexed | odd)) == {}


def test_the_creator_of_a_pod_or_a_job_is_written_and_no_other_person() -> None:
    def named(thing: dict[str, Any], kind: str = "Pod", user: str = "mia@example.com") -> list[Any]:
        ops = defaulting_patch(asked(thing, kind, userInfo={"username": user}), ONE, READING)
        return [(op["path"], op["value"]) for op in ops if op["path"].startswith("/metadata/annotations")]

    key = "/metadata/annotations/weir.dev~1user"
    new = [("/metadata/annotations", {}), (key, "mia@example.com")]
    assert named(pod()) == new
    assert named(job(pod()), "Job") == new
    stated = job(pod(), metadata={"annotations": {"weir.dev/user": "ada"}})
    assert named(stated, "Job") == new[1:]
    assert named(owned(pod(), "Job"), user="system:serviceaccount:kube-system:job-controller") == []
    assert (
        named(owned(stated, "CronJob"), "Job", "system:serviceaccount:kube-system:cronjob-controller") == []
    )
    assert named(pod(0)) == []
    assert named(pod(), user="") == []


def answer(
    thing: dict[str, Any], kind: str = "Pod", namespace: str = "ns", queues: QuotaTree = ONE, **more: Any
) -> list[str]:
    return review_errors(asked(thing, kind, namespace, **more), queues, READING)


def test_what_is_wrong_with_pods() -> None:
    assert answer(pod()) == []
    assert answer(pod(words={"weir.dev/min-pods": "13"})) == ["odd"]
    assert "weir.dev/topology: the topology net has no level rak; did you mean rack?" in answer(
        pod(words={"weir.dev/topology": "net:required=rak"})
    )
    assert "there is no project vison; did you mean vision?" in answer(pod(words={"runai/queue": "vison"}))[0]
    # not ours: only what is surely meant for us
    assert answer(pod(0, words={"gpu-memory": "much"}), namespace="elsewhere") == []
    assert (
        "weir.dev/nope isn't known" in answer(pod(0, words={"weir.dev/nope": "1"}), namespace="elsewhere")[0]
    )
    # what a controller makes may be named on what made it
    both = known(a=["ns"], b=["ns"])
    assert "several projects" in answer(pod(), queues=both)[0]
    assert answer(owned(pod(), "Job"), queues=both) == []
    assert answer(job(pod(), metadata={"labels": {"weir.dev/project": "b"}}), "Job", queues=both) == []


def test_a_change_is_refused_for_what_it_makes_wrong_alone() -> None:
    wrong, worse = pod(words={"weir.dev/nope": "1"}), pod(words={"weir.dev/nope": "1", "weir.dev/no": "1"})
    assert answer(job(wrong), "Job", operation="UPDATE", oldObject=job(wrong)) == []
    assert len(answer(job(worse), "Job", operation="UPDATE", oldObject=job(wrong))) == 1


def test_queues() -> None:
    def of(kind: str, name: str, spec: dict[str, Any], operation: str = "CREATE") -> list[str]:
        request = {"kind": {"kind": kind}, "name": name, "operation": operation, "object": {"spec": spec}}
        return review_errors(request, there, READING)

    departments = {"a": QueueObject("a", {}, 1), "b": QueueObject("b", {"parent": "a"}, 2)}
    there = QuotaTree(departments, {"p": QueueObject("p", {"department": "b"}, 3)})
    assert of("Project", "q", {"department": "b"}) == []
    assert of("Project", "q", {"department": "c"}) == ["there is no department c; write one of a, b"]
    assert of("Project", "q", {"quota": {"gpu": "0.0001"}}) == [
        "quota.gpu: '0.0001' is finer than 0.001, the smallest share of a device; write 0.001"
    ]
    assert "a is the name of a department already" in of("Project", "a", {})[0]
    assert "p is the name of a project already" in of("Department", "p", {})[0]
    assert "circle" in of("Department", "a", {"parent": "b"}, "UPDATE")[0]
    assert of("Department", "a", {"priority": 7}, "UPDATE") == []
    assert of("Department", "a", {}, "DELETE") == ["the department a isn't empty: move or delete b first"]
    assert of("Project", "p", {}, "DELETE") == []
    assert (
        "limit of gpu is below its quota" in of("Project", "q", {"quota": {"gpu": 2}, "limit": {"gpu": 1}})[0]
    )
