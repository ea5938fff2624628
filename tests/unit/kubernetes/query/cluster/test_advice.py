"""Remedies on a cluster, in the words of the object that makes the pods."""

import pytest

from weir.api.answers import Suggestion
from weir.kubernetes.crd.objects import OwnerFields
from weir.kubernetes.query.cluster.advice import Owner, advised

CLASSES = {90: "urgent"}
MADE_AGAIN = "its pods can't be changed: delete the Job and make it again with"


def how(change: dict[str, object], kind: str = "Job", version: str = "batch/v1", *answer: str) -> str | None:
    owner = Owner("team", OwnerFields("u1", version, kind, "train"), answer)
    suggestion = Suggestion(sentence="", change=change)
    return advised(suggestion, "team/job-train", owner, "amd.com/gpu", CLASSES).how


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpus": 4}, f"{MADE_AGAIN} amd.com/gpu: 4 in the limits of its containers"),
        (
            {"cpu": "2", "memory": "4Gi"},
            f"{MADE_AGAIN} cpu: 2, memory: 4Gi in the requests of its containers",
        ),
        ({"memory": "4Gi"}, f"{MADE_AGAIN} memory: 4Gi in the requests of its containers"),
        ({"priority": 90}, f"{MADE_AGAIN} priorityClassName: urgent"),
        ({"priority": 91}, ""),
        ({"pods": 3}, "kubectl annotate -n team job train weir.dev/min-pods=3 --overwrite"),
        ({"preemptible": True}, "kubectl annotate -n team job train weir.dev/preemptible=true --overwrite"),
        (
            {"topology": {"name": "net", "preferred": "rack"}},
            "kubectl annotate -n team job train weir.dev/topology=net:preferred=rack --overwrite",
        ),
        ({"suspended": False}, "weir resume team/job-train"),
        ({"ended": "other"}, ""),
    ],
)
def test_of_a_job(change: dict[str, object], words: str) -> None:
    assert how(change) == words


def test_of_a_kind_whose_pods_can_be_changed() -> None:
    assert how({"gpus": 4}, "Deployment", "apps/v1") == (
        "kubectl edit -n team deployment train: amd.com/gpu: 4 in the limits of its containers"
    )
    assert how({"pods": 2}, "PyTorchJob", "kubeflow.org/v1") == (
        "kubectl annotate -n team pytorchjob.kubeflow.org train weir.dev/min-pods=2 --overwrite"
    )
    assert how({"suspended": False}, "JobSet", "jobset.x-k8s.io/v1alpha2") == ""


def test_what_the_pods_say_themselves_is_no_matter_of_their_owner() -> None:
    assert how({"pods": 2}, "Job", "batch/v1", "weir.dev/min-pods") == (
        f'{MADE_AGAIN} the annotation weir.dev/min-pods: "2"'
    )


def test_a_workload_that_another_program_resumes_has_no_command() -> None:
    owner = Owner("team", OwnerFields("u1", "batch/v1", "Job", "train"), (), "Kueue resumes it")
    found = advised(Suggestion(sentence="", change={"suspended": False}), "t/job-train", owner, "", CLASSES)
    assert found.how == "Kueue resumes it"


def test_a_suspended_owner_of_another_kind_is_resumed_by_its_own_field() -> None:
    owner = Owner("team", OwnerFields("u1", "ray.io/v1", "RayJob", "train"), (), "", "kubectl patch a rayjob")
    found = advised(Suggestion(sentence="", change={"suspended": False}), "t/r", owner, "", CLASSES)
    assert found.how == "kubectl patch a rayjob"
