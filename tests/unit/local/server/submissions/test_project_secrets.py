"""Secrets by reference: a job gets the value, and nothing else in the home or in an answer has it."""

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest
from tests.unit.local.server.in_process_server import Standing, standing

from weir.api.submissions import Submission
from weir.local.files import secret_files
from weir.local.records.pod_files import signed
from weir.model.policy import LifecyclePolicy, Policy

VALUE = "hunter2-of-the-secret-store"
PRINTS = ["sh", "-c", 'test "$KEY" = "$EXPECTED" && echo it fits']


async def test_job_gets_the_value_and_nothing_else_holds_it(stands: Standing) -> None:
    await stands.project("vision", 2)
    mia = await stands.member("vision", role="lead")
    path = "/api/v1/projects/vision/secrets"
    set_ = await mia.put(f"{path}/wandb", json={"value": VALUE})
    assert (set_.status_code, set_.json()["user"]) == (200, "mia")
    job = await stands.submit(
        "sh", "-c", f'case $KEY in {VALUE[:5]}*{VALUE[-5:]}) echo it fits;; esac; sleep 3600',
        project="vision", name="job", secrets={"KEY": "wandb"},
    )  # fmt: skip
    assert job["secrets"] == {"KEY": "wandb"}
    await stands.until("job", "running")
    async with asyncio.timeout(120):
        while (await mia.get("/api/v1/workloads/job/logs")).text != "it fits\n":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    answers = [
        await who.get(each)
        for who in (stands.admin, mia)
        for each in ("/api/v1/workloads/job", "/api/v1/events", path, "/api/v1/workloads", "/metrics")
    ]
    assert (await mia.get("/api/v1/workloads/job")).json()["secrets"] == {"KEY": "wandb"}
    assert (await mia.get(path)).json()["items"][0]["name"] == "wandb"
    assert all(answer.status_code == 200 and VALUE not in answer.text for answer in answers)
    await stands.until_true(lambda page: page["total"] >= 2, "events")
    held_in = [
        file.relative_to(stands.pool.home)
        for file in stands.pool.home.rglob("*")
        if VALUE.encode() in content(file)
    ]
    assert held_in == [Path("secrets/vision.json")]
    assert stat.S_IMODE((stands.pool.home / "secrets/vision.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((stands.pool.home / "secrets").stat().st_mode) == 0o700


def content(file: Path) -> bytes:
    """Return the bytes of a file; none of a link, a directory, or a file that is gone by now."""
    try:
        return file.read_bytes() if file.is_file() and not file.is_symlink() else b""
    except FileNotFoundError:
        return b""


async def test_secrets_are_their_projects(stands: Standing) -> None:
    await stands.project("mine", 1)
    await stands.project("theirs", 1)
    await stands.admin.put("/api/v1/projects/theirs/secrets/key", json={"value": VALUE})
    mia = await stands.member("mine")
    path = "/api/v1/projects/theirs/secrets"
    assert (await mia.get(path)).status_code == 403
    assert (await mia.put(f"{path}/key", json={"value": "x"})).status_code == 403
    assert (await mia.delete(f"{path}/key")).status_code == 403
    body = {"project": "mine", "command": ["true"], "secrets": {"KEY": "key"}}
    refused = await mia.post("/api/v1/workloads", json=body)
    assert refused.status_code == 422
    assert "project mine has no secret key" in refused.json()["detail"]
    deleted = (await stands.admin.delete("/api/v1/projects/theirs")).json()
    assert deleted["secrets"] == ["key"]
    await stands.project("theirs", 1)
    assert (await stands.get("projects/theirs/secrets"))["items"] == []


BAD_SECRETS: tuple[object, ...] = (
    {"A B": "key"}, {"WEIR_X": "key"}, {"CUDA_VISIBLE_DEVICES": "key"}, {"KEY": "missing"}, {"IN_ENV": "key"}, ["key"],
)  # fmt: skip


async def test_what_cant_be_handed_over_is_refused_at_submit(stands: Standing) -> None:
    await stands.admin.put("/api/v1/projects/default/secrets/key", json={"value": VALUE})
    for secrets in BAD_SECRETS:
        body = {"project": "default", "command": ["true"], "secrets": secrets, "env": {"IN_ENV": "x"}}
        refused = await stands.admin.post("/api/v1/workloads", json=body)
        assert refused.status_code == 422, secrets
        assert "secrets" in refused.json()["detail"]
    assert not (await stands.get("workloads"))["items"]


BAD_BODIES = [
    f'{{"value": "{VALUE}"', f'{{"value": ["{VALUE}"]}}', f'{{"other": "{VALUE}"}}', f'{{"value": "{VALUE}\\u0000"}}',
    f'{{"value": "{VALUE}\\ud800"}}', f'"{VALUE}"', '{"value": ""}', '{"value": "' + VALUE + "x" * 70_000 + '"}', "[" * 50_000,
]  # fmt: skip


async def test_value_that_cant_be_one_is_refused_without_repeating_it(stands: Standing) -> None:
    path = "/api/v1/projects/default/secrets/key"
    for body in BAD_BODIES:
        refused = await stands.admin.put(path, content=body)
        assert refused.status_code == 422, body[:100]
        assert VALUE not in refused.text
    assert VALUE not in (stands.pool.home / "audit.jsonl").read_text()
    for name in ("..", "a b", "x" * 64, "%2e%2e%2fdefault", ".hidden"):
        reply = await stands.admin.put(f"/api/v1/projects/default/secrets/{name}", json={"value": "x"})
        assert reply.status_code in (404, 405, 422)
    assert not (stands.pool.home / "secrets").exists()


async def test_deleted_secret_holds_pending_jobs_until_it_is_set_again(stands: Standing) -> None:
    path = "/api/v1/projects/default/secrets/key"
    await stands.admin.put(path, json={"value": "first"})
    await stands.submit(name="all", gpus=4)
    await stands.until("all", "running")
    await stands.submit(*PRINTS, name="waits", secrets={"KEY": "key"}, env={"EXPECTED": "second"})
    assert (await stands.admin.delete(path)).status_code == 204
    row = await stands.until_true(
        lambda row: row["reason"] and row["reason"]["why"] == "suspended", "workloads/waits"
    )
    assert "its secret key isn't set" in row["reason"]["sentence"]
    resumed = await stands.admin.post("/api/v1/workloads/waits/resume")
    assert resumed.status_code == 409
    assert "its secret key isn't set" in resumed.json()["detail"]
    await stands.admin.post("/api/v1/workloads/all/stop")
    await stands.until("all", "stopped")
    assert (await stands.get("workloads/waits"))["status"] == "pending"
    await stands.admin.put(path, json={"value": "second"})
    await stands.until("waits", "succeeded")
    assert (await stands.admin.get("/api/v1/workloads/waits/logs")).text == "it fits\n"


async def test_running_job_whose_secret_is_deleted_runs_on_and_isnt_started_again_without_it(
    stands: Standing,
) -> None:
    path = "/api/v1/projects/default/secrets/key"
    await stands.admin.put(path, json={"value": "first"})
    await stands.submit(name="runs", secrets={"KEY": "key"})
    await stands.until("runs", "running")
    await stands.admin.delete(path)
    assert (await stands.get("workloads/runs"))["status"] == "running"
    (pod,) = stands.pool.backend.pods()
    supervisor = signed(pod.directory)
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)  # its start counts as lost, and it would start again
    row = await stands.until_true(lambda row: row["status"] == "pending" and row["reason"], "workloads/runs")
    assert "its secret key isn't set" in row["reason"]["sentence"]
    await stands.admin.put(path, json={"value": "first"})
    await stands.until("runs", "running")


async def test_job_whose_secrets_cannot_be_read_now_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a home may have another owner for a while, such as after a restore by root."""
    read, home = secret_files.read, tmp_path / "home"
    rules = Policy(life=LifecyclePolicy(pause_first=1.0, max_pause=1.0))

    def broken(path: str) -> dict[str, dict[str, object]]:
        raise PermissionError(13, "Permission denied", path)

    async with standing(home, gpus=1, policy=rules, end_jobs=False) as stands:
        set_ = await stands.admin.put("/api/v1/projects/default/secrets/key", json={"value": "v"})
        assert set_.status_code == 200
        await stands.submit(name="all")
        await stands.submit("sh", "-c", "test $KEY = v", name="waits", secrets={"KEY": "key"})
    monkeypatch.setattr(secret_files, "read", broken)
    async with standing(home, gpus=1, policy=rules) as stands:
        await stands.until("all", "running")
        assert (await stands.get("workloads/waits"))["reason"]["why"] != "suspended"
        await stands.admin.post("/api/v1/workloads/all/stop")
        page = await stands.until_true(
            lambda page: any("could not be started" in row["sentence"] for row in page["items"]),
            "events?workload=waits&limit=1000",
        )
        lost = next(row for row in page["items"] if "could not be started" in row["sentence"])
        assert "its secrets can't be read: Permission denied" in lost["sentence"]
        refused = await stands.admin.put("/api/v1/projects/default/secrets/key", json={"value": "w"})
        assert refused.status_code == 503
        monkeypatch.setattr(secret_files, "read", read)
        assert (await stands.until("waits", "succeeded", "failed"))["status"] == "succeeded"


async def test_values_of_an_environment_are_their_users_and_administrators(stands: Standing) -> None:
    mia, ben = await stands.member("default"), await stands.member("default", user="ben")
    body = {
        "project": "default",
        "command": ["true"],
        "name": "job",
        "env": {"KEY": VALUE, "PATH": os.environ["PATH"]},
    }
    made = await mia.post("/api/v1/workloads", json=body)
    assert made.json()["env"]["KEY"] == VALUE
    await stands.until("job", "succeeded")
    assert (await mia.get("/api/v1/workloads/job")).json()["env"]["KEY"] == VALUE
    assert (await stands.get("workloads/job"))["env"]["KEY"] == VALUE
    seen = (await ben.get("/api/v1/workloads/job")).json()
    assert seen["env"] == {"KEY": "(hidden)", "PATH": "(hidden)"}
    again = await ben.post("/api/v1/workloads/job/rerun")
    assert again.status_code == 403
    assert "was submitted by mia" in again.json()["detail"]
    assert VALUE not in again.text
    assert (await mia.post("/api/v1/workloads/job/rerun")).status_code == 201
    await stands.until("job", "succeeded")
    stands.pool.store.delete_launch_specs(stands.pool.clock() + 60)
    gone = (await mia.get("/api/v1/workloads/job")).json()
    assert (gone["command"], gone["env"]) == (None, None)
    refused = await mia.post("/api/v1/workloads/job/rerun")
    assert refused.status_code == 409
    assert "--keep-details" in refused.json()["detail"]


def test_a_submission_names_secrets_by_variable() -> None:
    asked = Submission.model_validate({"project": "p", "command": ["x"], "secrets": {"KEY": "wandb"}})
    assert asked.secrets == {"KEY": "wandb"}
