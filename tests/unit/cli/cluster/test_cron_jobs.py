"""Schedules on a cluster: the rows of CronJobs."""

from typing import Any

import msgspec
import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.api.schedules import ScheduleRow
from weir.cli.cluster.cron_jobs import CronView
from weir.cli.cluster.cron_jobs import _row as schedule_row
from weir.cli.main import main


def row(template: Any) -> ScheduleRow:
    meta = {"name": "nightly", "namespace": "team", "labels": {"weir.dev/project": "vision"}}
    spec = {"schedule": "0 2 * * *", "timeZone": "Etc/UTC", "jobTemplate": template}
    return schedule_row(msgspec.convert({"metadata": meta, "spec": spec}, CronView))


def test_a_schedule_names_the_creator_whom_the_webhook_wrote() -> None:
    assert row({"metadata": {"annotations": {"weir.dev/user": "mia"}}}).user == "mia"


@pytest.mark.parametrize("template", [{}, {"metadata": None}, {"metadata": {"annotations": None}}])
def test_a_schedule_from_before_the_webhook_has_no_creator(template: Any) -> None:
    assert row(template).user == ""


JOBS = "/apis/batch/v1/namespaces/vision/jobs"


def add_cron_job(cluster: FakeCluster, policy: str, *active: str) -> None:
    template = {
        "metadata": {"labels": {"weir.dev/project": "vision"}, "annotations": {"weir.dev/user": "mia"}},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    cluster.objects["/apis/batch/v1/namespaces/vision/cronjobs/nightly"] = {
        "metadata": {
            "name": "nightly",
            "namespace": "vision",
            "uid": "c1",
            "labels": {"weir.dev/project": "vision"},
        },
        "spec": {"schedule": "0 2 * * *", "concurrencyPolicy": policy, "jobTemplate": template},
        "status": {"active": [{"name": name} for name in active]},
    }


@pytest.mark.parametrize("policy", ["Allow", "Replace"])
def test_a_run_on_request_is_a_job_of_the_cron_job(
    policy: str, fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_cron_job(fake_cluster, policy, "nightly-1")
    fake_cluster.add_job("nightly-1")
    assert main(["schedule", "run", "vision/nightly"]) == 0
    *deleted, (method, path, job) = fake_cluster.written
    assert [(way, where) for way, where, _ in deleted] == (
        [("DELETE", f"{JOBS}/nightly-1")] if policy == "Replace" else []
    )
    assert (method, path) == ("POST", JOBS)
    name = job["metadata"]["name"]
    assert capsys.readouterr().out == f"vision/job-{name}\n"
    assert name.startswith("nightly-")
    assert job["metadata"]["labels"] == {"weir.dev/project": "vision"}
    assert job["metadata"]["annotations"] == {
        "weir.dev/user": "mia",
        "cronjob.kubernetes.io/instantiate": "manual",
    }
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c1", "controller": True}
    assert job["metadata"]["ownerReferences"] == [owner]
    assert job["spec"] == {"template": {"spec": {"containers": []}}}


def test_a_run_on_request_is_refused_while_an_earlier_one_forbids_it(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_cron_job(fake_cluster, "Forbid", "nightly-1")
    assert main(["schedule", "run", "vision/nightly"]) == 2
    sentence = "vision/job-nightly-1 isn't over, and this schedule forbids two runs at a time."
    assert capsys.readouterr().err == f"weir: {sentence}\n"
    assert fake_cluster.written == []


def test_a_schedule_is_shown(fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    add_cron_job(fake_cluster, "Forbid")
    assert main(["schedule", "show", "vision/nightly"]) == 0
    assert "vision/nightly in vision" in capsys.readouterr().out
