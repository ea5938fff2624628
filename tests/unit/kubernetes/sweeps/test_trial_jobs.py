"""Jobs of trials."""

from typing import Any

import msgspec
import pytest

from weir.kubernetes.crd.sweep_objects import SweepObject, SweepTrial
from weir.kubernetes.sweeps.trial_jobs import read_sweep, trial_job

TEMPLATE = {
    "metadata": {"labels": {"weir.dev/project": "a"}},
    "spec": {
        "template": {
            "metadata": {"labels": {"weir.dev/project": "a"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "train",
                        "command": ["python", "train.py"],
                        "env": [{"name": "A", "value": "b"}, {"name": "WEIR_SWEEP", "value": "theirs"}],
                    }
                ]
            },
        }
    },
}


def sweep(**spec: Any) -> SweepObject:
    fields = {
        "project": "a",
        "params": {"lr": "float:0..1"},
        "trials": 3,
        "rungs": [1, 3],
        "jobTemplate": TEMPLATE,
    }
    metadata = {"name": "digits", "namespace": "team", "uid": "u-1"}
    return msgspec.convert({"metadata": metadata, "spec": {**fields, **spec}}, SweepObject)


def job(of: SweepObject) -> dict[str, Any]:
    return trial_job(of, read_sweep(of), 2, SweepTrial('{"lr": 0.5}', target=1))


def test_a_job_has_the_parameters_and_the_rung_of_its_trial() -> None:
    made = job(sweep())
    metadata = made["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("digits-2-1", "team")
    assert metadata["labels"] == {
        "weir.dev/project": "a",
        "sweep.weir.dev/name": "digits",
        "sweep.weir.dev/trial": "2",
    }
    assert [each["uid"] for each in metadata["ownerReferences"]] == ["u-1"]
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "train.py", "--lr=0.5"]
    env = {each["name"]: each["value"] for each in container["env"]}
    assert len(container["env"]) == len(env)
    assert {
        "A": "b",
        "WEIR_SWEEP": "digits",
        "WEIR_SWEEP_TRIAL": "2",
        "WEIR_SWEEP_METRIC": "loss",
        "WEIR_SWEEP_RUNGS": "1,3",
        "WEIR_SWEEP_RUNG": "3",
        "WEIR_PARAM_LR": "0.5",
    }.items() <= env.items()
    assert "WEIR_CHECKPOINT_DIR" not in env
    assert TEMPLATE["spec"]["template"]["spec"]["containers"][0]["command"] == ["python", "train.py"]  # type: ignore[index]


def test_each_trial_has_a_directory_of_the_claim() -> None:
    pod = job(sweep(checkpointClaim="disk"))["spec"]["template"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "disk"}
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert mount["subPath"] == "digits-u-1/2"
    assert {"name": "WEIR_CHECKPOINT_DIR", "value": mount["mountPath"]} in pod["containers"][0]["env"]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"jobTemplate": {}}, "jobTemplate: has no container"),
        (
            {"jobTemplate": {"spec": {"template": {"spec": {"containers": [7]}}}}},
            "jobTemplate: has no container",
        ),
        ({"params": {"lr": "much"}}, "'much' is no range"),
        ({"rungs": [3, 3]}, "3 doesn't come after 3"),
        ({"sampler": "magic"}, "sampler"),
        ({"sampler": "cmaes"}, "more about each trial than an object can hold"),
        (
            {"sampler": "grid", "trials": None, "params": {"lr": "int:1..1001"}},
            "1,000 trials at most, and this has 1,001",
        ),
        ({"trials": 1000, "params": {"opt": f"choice:{'x' * 400},y"}}, "write at most"),
    ],
)
def test_a_sweep_that_can_not_be_read_is_named(spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_sweep(sweep(**spec))


@pytest.mark.parametrize(("stated", "made"), [(0, 3600), (7200, 7200), (None, None)])
def test_a_job_that_is_over_stays_until_its_results_are_read(stated: int | None, made: int | None) -> None:
    spec = {**TEMPLATE["spec"], **({} if stated is None else {"ttlSecondsAfterFinished": stated})}
    found = job(sweep(jobTemplate={**TEMPLATE, "spec": spec}))["spec"]
    assert found.get("ttlSecondsAfterFinished") == made
