"""Rows of the sweeps of a cluster."""

import json
from typing import Any

import msgspec
import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.cluster.sweep_rows import sweep_detail, sweep_row
from weir.cli.main import main
from weir.kubernetes.crd.sweep_objects import SweepObject

CONTAINER = {"name": "main", "image": "train", "command": ["python", "train.py"]}
SPEC: dict[str, Any] = {
    "project": "a",
    "params": {"lr": "float:0..1"},
    "trials": 4,
    "rungs": [1, 3],
    "gpus": "1",
    "jobTemplate": {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}},
}
REACHED = [{"rung": 0, "step": 1, "at": "2026-01-01T00:00:00Z", "value": 0.5}]
TRIALS = [
    {"params": '{"lr": 0.1}', "job": "u-0"},
    {"params": '{"lr": 0.2}', "job": "u-1"},
    {"params": '{"lr": 0.3}', "state": "parked", "results": REACHED},
    {"params": '{"lr": 0.4}', "state": "failed"},
]
OVER = {"phase": "Finished", "endedAt": "2026-01-01T00:00:00Z"}


def sweep(phase: str) -> SweepObject:
    metadata = {"name": "digits", "namespace": "team", "uid": "u"}
    status = {"phase": phase, "trials": TRIALS}
    return msgspec.convert({"metadata": metadata, "spec": SPEC, "status": status}, SweepObject)


@pytest.mark.parametrize(
    ("phase", "states", "parked"),
    [
        ("Running", ["running", "pending", "parked", "failed"], 1),
        ("Stopped", ["running", "stopped", "stopped", "failed"], 0),
        ("Failed", ["running", "stopped", "stopped", "failed"], 0),
    ],
)
def test_no_trial_of_a_sweep_that_is_over_waits(phase: str, states: list[str], parked: int) -> None:
    running = {"digits-0-0"}
    detail = sweep_detail(sweep(phase), running)
    assert [row.state for row in detail.trial_rows] == states
    assert (detail.running, detail.parked, detail.rung_rows[0].parked) == (1, parked, parked)
    assert sweep_row(sweep(phase), running).parked == parked


@pytest.mark.parametrize(("projects", "found"), [("a", ["one"]), ("a, b", ["one", "two"]), ("d", [])])
def test_sweeps_of_several_projects_are_listed(
    projects: str, found: list[str], fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, project in (("one", "a"), ("two", "b"), ("three", "c")):
        metadata = {"name": name, "namespace": "vision", "uid": name}
        body = {"metadata": metadata, "spec": {**SPEC, "project": project}, "status": OVER}
        fake_cluster.add(f"/apis/weir.dev/v1alpha1/sweeps/{name}", body)
    assert main(["sweep", "list", "-p", projects, "-o", "json"]) == (0 if found else 2)
    said = capsys.readouterr()
    if found:
        assert [row["name"].rpartition("/")[2] for row in json.loads(said.out)] == found
    else:
        assert "there is no project d" in said.err


def test_a_sweep_names_the_creator_whom_the_webhook_wrote() -> None:
    found = sweep("Running")
    assert sweep_row(found, ()).user == ""
    found.spec.job_template["metadata"] = {"annotations": {"weir.dev/user": "mia"}}
    assert sweep_row(found, ()).user == sweep_detail(found, ()).user == "mia"
