"""Workloads over REST: submitted, listed, described, stopped, suspended, run again; what is refused."""

import asyncio
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.unit.local.server.in_process_server import Standing, standing

from weir.control.journal import WorkloadRecord
from weir.local.server.output import pod_logs
from weir.local.supervisor.output import read_on
from weir.model.policy import LifecyclePolicy, Policy
from weir.state.runtime_history import name_prefix
from weir.store.errors import StoreFailed


async def test_a_job_runs_and_its_end_is_recorded(stands: Standing) -> None:
    made = await stands.submit("sh", "-c", "echo out; exit 0", name="first")
    assert (made["name"], made["status"], made["command"]) == (
        "first",
        "pending",
        ["sh", "-c", "echo out; exit 0"],
    )
    done = await stands.until("first", "succeeded")
    assert done["ended_s"] >= done["submitted_s"]
    assert [event["kind"] for event in done["events"]][-1] == "submitted"
    assert {"started", "ended"} <= {event["kind"] for event in done["events"]}
    page = await stands.get("workloads", all=True)
    assert [row["name"] for row in page["items"]] == ["first"]
    assert (await stands.get("workloads"))["items"] == []
    log = await stands.admin.get("/api/v1/workloads/first/logs")
    assert (log.status_code, log.text) == (200, "out\n")


async def test_stated_memory_and_cores_are_described(stands: Standing) -> None:
    stated = await stands.submit(name="stated", pods=[{"gpus": 1, "cpu": 0.5, "memory": 64 << 20}])
    assert (stated["pod_cpu"], stated["pod_memory"]) == (0.5, 64 << 20)
    described = await stands.get("workloads/stated")
    assert (described["pod_cpu"], described["pod_memory"]) == (0.5, 64 << 20)
    left_open = await stands.submit(name="left-open", pods=[{"gpus": 1}])
    assert (left_open["pod_cpu"], left_open["pod_memory"]) == (None, None)


async def test_it_is_listed_the_moment_it_is_submitted(stands: Standing) -> None:
    made = await stands.submit()
    assert [row["name"] for row in (await stands.get("workloads"))["items"]] == [made["name"]]
    assert made["name"].startswith("train-")
    assert name_prefix(made["name"]) == "train", "those without a name are alike to the engine"


async def test_lists_are_filtered_and_paged_newest_first(stands: Standing) -> None:
    await stands.project("shut", 0, limit={"gpu": 0})
    names = [(await stands.submit(project="shut", name=f"wait-{at}"))["name"] for at in range(7)]
    await stands.submit(name="runs")
    seen: list[str] = []
    after = ""
    while after is not None:
        page = await stands.get("workloads", project="shut", limit=3, after=after)
        assert page["total"] == 7
        seen += [row["name"] for row in page["items"]]
        after = page["next"]
    assert seen == names[::-1]
    await stands.until("runs", "running")
    assert [row["name"] for row in (await stands.get("workloads", status="running"))["items"]] == ["runs"]
    assert [row["name"] for row in (await stands.get("workloads", q="IT-3"))["items"]] == ["wait-3"]
    both = await stands.get("workloads", status="pending,running", type="train", all=True)
    assert both["total"] == 8
    assert {row["status"] for row in both["items"]} == {"pending", "running"}


async def test_reasons_come_with_the_list(stands: Standing) -> None:
    await stands.project("shut", 0, limit={"gpu": 0})
    await stands.submit(project="shut", name="waits")
    row = await stands.until_true(lambda row: row["reason"], "workloads/waits")
    assert row["reason"]["why"] == "over_limit"


async def test_stopping_ends_what_waits_and_what_runs(stands: Standing) -> None:
    await stands.project("shut", 0, limit={"gpu": 0})
    await stands.submit(project="shut", name="waits")
    await stands.submit("sleep", "3600", name="runs")
    await stands.until("runs", "running")
    answer = await stands.admin.post("/api/v1/workloads/waits/stop")
    assert (answer.status_code, answer.json()["status"]) == (200, "stopped")
    await stands.admin.post("/api/v1/workloads/runs/stop")
    assert (await stands.until("runs", "stopped"))["reason"]["why"] == "stopped"
    again = await stands.admin.post("/api/v1/workloads/runs/stop")
    assert again.status_code == 409


async def test_suspended_gives_its_capacity_back_and_goes_on_when_resumed(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="runs", gpus=4)
    await stands.until("runs", "running")
    await stands.admin.post("/api/v1/workloads/runs/suspend")
    held = await stands.until("runs", "pending")
    assert held["reason"]["why"] == "suspended"
    assert "suspended by" in held["reason"]["sentence"]
    await stands.submit("true", name="next", gpus=4)
    await stands.until("next", "succeeded")
    await stands.admin.post("/api/v1/workloads/runs/resume")
    row = await stands.until("runs", "running")
    assert row["restarts"] == 1


async def test_only_what_has_ended_is_run_again(stands: Standing) -> None:
    made = await stands.submit("sh", "-c", "test -z $X", name="once", env={"X": ""})
    await stands.until("once", "succeeded")
    again = await stands.admin.post("/api/v1/workloads/once/rerun")
    assert again.status_code == 201, again.text
    assert (again.json()["name"], again.json()["command"]) == ("once", made["command"])
    assert again.json()["uid"] > made["uid"]
    await stands.until("once", "succeeded")
    await stands.submit("sleep", "3600", name="on")
    assert (await stands.admin.post("/api/v1/workloads/on/rerun")).status_code == 409
    assert (await stands.admin.post("/api/v1/workloads/nobody/rerun")).status_code == 404


async def test_a_name_is_taken_while_its_workload_lives(stands: Standing) -> None:
    await stands.submit(name="mine")
    answer = await stands.admin.post(
        "/api/v1/workloads", json={"project": "default", "command": ["true"], "name": "mine"}
    )
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0]["field"] == "name"


async def test_all_mistakes_are_reported_at_once_by_field(stands: Standing) -> None:
    body = {
        "project": "nobody",
        "name": "a/b",
        "command": ["\0"],
        "env": {"1X": "a", "WEIR_POD": "b"},
        "directory": "relative",
        "pods": [{"gpus": 1.5}, {"gpu_models": ["H900"], "nodes": ["far"], "resources": {"wings": 2}}],
    }
    answer = await stands.admin.post("/api/v1/workloads", json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["pods[0].gpus"]
    body["pods"][0]["gpus"] = 1  # type: ignore[index]
    answer = await stands.admin.post("/api/v1/workloads", json=body)
    messages = {error["field"]: error["message"] for error in answer.json()["errors"]}
    model = "no node has a GPU of the model H900; no GPU here has a model, so leave it out"
    assert messages["pods[1].gpu_models[0]"] == f"gpu_models: {model}"
    assert set(messages) == {
        "project",
        "name",
        "command[0]",
        "env.1X",
        "env.WEIR_POD",
        "directory",
        "pods[1].gpu_models[0]",
        "pods[1].nodes[0]",
        "pods[1].resources.wings",
    }
    assert (await stands.get("workloads"))["total"] == 0


async def test_what_is_no_submission_is_refused_as_a_problem(stands: Standing) -> None:
    for body in (
        b"",
        b"{",
        b"[]",
        b"1",
        b'{"project": 1}',
        b'{"command": "\\ud800"}',
        b"\xff",
        b'{"pods":[' * 4000,
    ):
        answer = await stands.admin.post("/api/v1/workloads", content=body)
        assert answer.status_code == 422, body
        assert answer.json()["status"] == 422
    for path in (
        "workloads?limit=0",
        "workloads?after=x",
        "workloads?status=odd",
        "events?after=-1",
        "usage?since=x",
    ):
        assert (await stands.admin.get(f"/api/v1/{path}")).status_code == 422, path
    assert (await stands.admin.get("/api/v1/nothing")).status_code == 404
    assert (await stands.admin.delete("/api/v1/status")).status_code == 405


async def test_logs_follow_over_a_restart_until_the_end(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo begun; test -e again && exit 0; touch again; sleep 3600"
    is_followed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def noted(path: str, position: int, most: int) -> tuple[bytes, int]:
        found = read_on(path, position, most)
        if found[0]:
            loop.call_soon_threadsafe(is_followed.set)
        return found

    monkeypatch.setattr(pod_logs, "read_on", noted)
    await stands.submit("sh", "-c", script, name="talks", directory=str(stands.pool.home))
    await stands.until("talks", "running")
    lines: list[str] = []

    async def follow() -> None:
        async with stands.admin.stream("GET", "/api/v1/workloads/talks/logs?follow=true") as answer:
            async for line in answer.aiter_lines():
                lines.append(line)

    following = asyncio.create_task(follow())
    while not (stands.pool.home / "again").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await asyncio.wait_for(is_followed.wait(), 120)
    await stands.admin.post("/api/v1/workloads/talks/suspend")
    await stands.until("talks", "pending")
    await stands.admin.post("/api/v1/workloads/talks/resume")
    await asyncio.wait_for(following, 120)
    assert lines == ["begun", "begun"]
    first = await stands.admin.get("/api/v1/workloads/talks/logs?start=1&tail=1")
    assert first.text == "begun\n"
    assert (await stands.admin.get("/api/v1/workloads/talks/logs?start=9")).status_code == 404
    assert (await stands.admin.get("/api/v1/workloads/talks/logs?pod=nobody/0")).status_code == 422


async def test_the_last_lines_of_a_long_log(stands: Standing) -> None:
    await stands.submit("seq", "1", "50000", name="long")
    await stands.until("long", "succeeded")
    tail = (await stands.admin.get("/api/v1/workloads/long/logs?tail=3")).text
    assert tail == "49998\n49999\n50000\n"
    assert (await stands.admin.get("/api/v1/workloads/long/logs")).text.count("\n") == 50000
    assert (await stands.admin.get("/api/v1/workloads/long/logs?tail=0")).text == ""


async def test_a_gang_shows_its_pods(stands: Standing) -> None:
    pods = [{"name": "worker", "count": 3, "gpus": 1, "cpu": "100m", "memory": "16Mi"}]
    await stands.submit("sleep", "3600", name="gang", pods=pods)
    row = await stands.until("gang", "running")
    row = await stands.until_true(lambda row: row["pods_running"] == 3, "workloads/gang")
    assert [pod["name"] for pod in row["pod_rows"]] == [f"gang/worker/{at}" for at in range(3)]
    assert sorted(device for pod in row["pod_rows"] for device in pod["devices"]) == [0, 1, 2]
    started = [event for event in row["events"] if event["kind"] == "started"]
    assert len(started) == 1
    assert started[0]["numbers"]["pods"] == 3


async def test_a_failure_says_how(stands: Standing) -> None:
    await stands.submit("sh", "-c", "exit 3", name="fails", retries=0)
    row = await stands.until("fails", "failed")
    reported = {event["kind"]: event["sentence"] for event in row["events"]}
    assert reported["failed"] == "Pod fails/0/0 failed: it ended with exit code 3."
    assert reported["ended"] == row["reason"]["sentence"] == "It ended with exit code 3."
    assert [event["kind"] for event in row["events"]].count("failed") == 1
    assert not {"gang_failed", "stopping"} & set(reported)
    assert row["reason"]["why"] == "failed"


async def test_what_cant_be_written_down_is_refused_and_not_there(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_records: object, _asked: object) -> "Future[WorkloadRecord]":
        future: Future[WorkloadRecord] = Future()
        future.set_exception(StoreFailed("The disk is full.", is_full=True))
        return future

    with monkeypatch.context() as patched:
        patched.setattr(stands.pool.store.workloads, "submit_all", full)
        answer = await stands.admin.post(
            "/api/v1/workloads", json={"project": "default", "command": ["true"]}
        )
    assert answer.status_code == 503
    assert "The disk is full." in answer.json()["detail"]
    assert (await stands.get("workloads"))["total"] == 0
    await stands.submit("true", name="later")
    await stands.until("later", "succeeded")


async def test_a_stop_has_one_event_of_its_request_and_one_of_its_outcome(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="long")
    await stands.until("long", "running")
    await stands.admin.post("/api/v1/workloads/long/stop")
    row = await stands.until("long", "stopped")
    reported = [(event["kind"], event["numbers"].get("user")) for event in row["events"][:-2]]
    assert [kind for kind, _ in reported] == ["ended", "withdrawn"]
    assert row["reason"]["sentence"] == f"long was stopped by {reported[1][1]}."


async def test_only_what_is_suspended_is_resumed(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="runs")
    refused = await stands.admin.post("/api/v1/workloads/runs/resume")
    assert refused.status_code == 409
    assert "isn't suspended" in refused.json()["detail"]


async def test_what_failed_waits_by_itself_and_says_until_when(tmp_path: Path) -> None:
    rules = LifecyclePolicy(pause_first=3600.0, max_pause=3600.0)
    async with standing(tmp_path / "home", policy=Policy(life=rules)) as stands:
        await stands.submit("sh", "-c", "exit 3", name="fails")
        row = await stands.until_true(lambda row: row["reason"] is not None, "workloads/fails")
        assert "tried again" in row["reason"]["sentence"]
        answer = await stands.why("fails")
        assert answer["reason"]["sentence"] == row["reason"]["sentence"]
        (waits,) = answer["suggestions"]
        assert waits["sentence"].startswith("If it waits, it is tried again in ")
        assert waits["at_s"] == answer["reason"]["numbers"]["until_s"]
