"""Variables of gangs on a cluster, and the Service that gives their pods addresses."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster, Object

from weir.cli.main import main

INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
SERVICES = "/api/v1/namespaces/vision/services"
NAMES = {"RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


@pytest.fixture(autouse=True)
def project(fake_cluster: FakeCluster) -> None:
    project = {"metadata": {"name": "vision"}, "spec": {"namespaces": ["vision"]}}
    fake_cluster.objects["/apis/weir.dev/v1alpha1/projects/vision"] = project


def submit(*words: str, name: str = "train", code: int = 0) -> None:
    fixed = ("-p", "vision", "--gpus", "1", "--image", "trainer:1", "--name", name)
    assert main(["submit", *fixed, *words, "--", "python", "train.py"]) == code


def job_of(fake_cluster: FakeCluster, name: str = "train") -> Object:
    return fake_cluster.objects[f"{JOBS}/{name}"]


def services(fake_cluster: FakeCluster) -> list[Object]:
    return [each for path, each in fake_cluster.objects.items() if path.startswith(SERVICES)]


def pod_of(job: Object) -> Object:
    found: Object = job["spec"]["template"]["spec"]
    return found


def variables(job: Object) -> dict[str, Any]:
    """Return the variables of a Job's pods: the value, or the field that it comes from."""
    env = pod_of(job)["containers"][0].get("env", ())
    found = {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in env}
    assert len(found) == len(env), "no variable is there twice"
    return found


def refuse_services(fake_cluster: FakeCluster, text: str, status: int = 403) -> None:
    fake_cluster.refused = lambda _, path, __: (status, text) if path == SERVICES else None


def test_a_gang_gets_its_ranks_and_a_service_that_belongs_to_its_job(fake_cluster: FakeCluster) -> None:
    submit("--workers", "4")
    job, (service,) = job_of(fake_cluster), services(fake_cluster)
    subdomain = service["metadata"]["name"]
    assert pod_of(job)["subdomain"] == subdomain
    assert variables(job) == {
        "RANK": INDEX,
        "NODE_RANK": INDEX,
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": f"train-0.{subdomain}",
        "MASTER_PORT": "29500",
    }
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": "train"},
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
    assert service["metadata"]["ownerReferences"] == [owner]
    held, made, released = fake_cluster.written
    assert held[2]["spec"]["suspend"], "no pod starts before the Service exists"
    assert made[1] == SERVICES
    assert released == ("PATCH", f"{JOBS}/train", {"spec": {"suspend": False}})


@pytest.mark.parametrize("name", ["a" * 53, "7" * 53, "7"])
def test_the_service_of_a_long_name_and_of_one_that_begins_with_a_digit_is_valid(
    fake_cluster: FakeCluster, name: str
) -> None:
    submit("--workers", "2", name=name)
    (service,) = services(fake_cluster)
    subdomain = service["metadata"]["name"]
    assert len(subdomain) <= 63
    assert subdomain[0].isalpha()
    assert variables(job_of(fake_cluster, name))["MASTER_ADDR"] == f"{name}-0.{subdomain}"


@pytest.mark.parametrize("words", [(), ("--array", "0-7"), ("--elastic", "2:8")])
def test_single_pods_arrays_and_elastic_jobs_stay_as_they_are(
    fake_cluster: FakeCluster, words: tuple[str, ...]
) -> None:
    submit(*words)
    job = job_of(fake_cluster)
    assert not NAMES & variables(job).keys()
    assert "subdomain" not in pod_of(job)
    assert [method for method, _, _ in fake_cluster.written] == ["POST"]


def test_variables_of_a_person_win(fake_cluster: FakeCluster) -> None:
    submit("--workers", "2", "--env", "MASTER_PORT=1234", "--env", "WORLD_SIZE=16")
    found = variables(job_of(fake_cluster))
    assert (found["MASTER_PORT"], found["WORLD_SIZE"], found["RANK"]) == ("1234", "16", INDEX)
    assert found.keys() == NAMES


def test_an_address_of_a_person_needs_no_service(fake_cluster: FakeCluster) -> None:
    refuse_services(fake_cluster, "no")
    submit("--workers", "2", "--env", "MASTER_ADDR=10.0.0.1")
    found = variables(job_of(fake_cluster))
    assert (found["MASTER_ADDR"], found["WORLD_SIZE"], found.keys()) == ("10.0.0.1", "2", NAMES)
    assert "subdomain" not in pod_of(job_of(fake_cluster))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            'services is forbidden: User "ann" cannot create resource "services" in API group ""',
            "you lack the right `create` on `services` in the namespace vision.",
        ),
        ("exceeded quota: few", "the API server refuses their Service: exceeded quota: few."),
    ],
)
def test_without_services_a_gang_runs_and_gets_none_of_the_variables(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], text: str, answer: str
) -> None:
    refuse_services(fake_cluster, text)
    submit("--workers", "2", "--env", "A=b")
    job = job_of(fake_cluster)
    assert variables(job) == {"A": "b"}
    assert "suspend" not in job["spec"]
    err = capsys.readouterr().err
    assert answer in err
    assert err.count("weir: warning: the pods of a gang get no RANK, WORLD_SIZE, MASTER_ADDR") == 1


def test_a_service_that_is_refused_after_its_job_leaves_nothing(fake_cluster: FakeCluster) -> None:
    fake_cluster.refused = lambda method, path, body: (
        (403, "no more") if path == SERVICES and "ownerReferences" in body["metadata"] else None
    )
    submit("--workers", "2", code=2)
    assert not [path for path in fake_cluster.objects if path.startswith((JOBS, SERVICES))]


def test_a_job_that_can_neither_start_nor_be_removed_is_named(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.refused = lambda method, *_: (403, "no") if method in ("PATCH", "DELETE") else None
    submit("--workers", "2", code=1)
    assert "The Job train may be left: `weir stop train`." in capsys.readouterr().err


def test_gangs_of_a_batch_have_services_of_their_own(fake_cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "batch.yaml"
    path.write_text(
        "defaults: {project: vision, image: 'trainer:1', gpus: 1, command: sleep 1}\n"
        "workloads: [{name: one, workers: 2}, {name: two, workers: 3}, {name: alone}]\n"
    )
    assert main(["submit", "-f", str(path)]) == 0
    owners = {each["metadata"]["ownerReferences"][0]["name"] for each in services(fake_cluster)}
    assert owners == {"one", "two"}
    assert variables(job_of(fake_cluster, "two"))["WORLD_SIZE"] == "3"
    assert not variables(job_of(fake_cluster, "alone"))
    kinds = [path for method, path, _ in fake_cluster.written if method == "POST"]
    assert len(kinds) == 5


def test_a_gang_that_runs_again_meets_at_an_address_of_its_own(fake_cluster: FakeCluster) -> None:
    submit("--workers", "2", "--env", "MASTER_PORT=1234")
    job = job_of(fake_cluster)
    before, subdomain = variables(job), pod_of(job)["subdomain"]
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert main(["rerun", "vision/train"]) == 0
    again = job_of(fake_cluster, "train-r2")
    new = pod_of(again)["subdomain"]
    assert new != subdomain
    assert variables(again) == before | {"MASTER_ADDR": f"train-r2-0.{new}"}
    (service,) = (each for each in services(fake_cluster) if each["metadata"]["name"] == new)
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": "train-r2"}
    assert service["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]
    assert again["spec"]["suspend"] is False
    assert pod_of(job)["subdomain"] == subdomain, "the former Job stays as it was"
