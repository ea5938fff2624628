"""Conditions for the first start: a time, and what became of other workloads."""

import asyncio
import itertools
import time
from pathlib import Path

from tests.unit.local.server.in_process_server import Standing, reconnect, standing

PREVIEW = "/api/v1/previews"


async def status_of(stands: Standing, name: str) -> str:
    return str((await stands.get(f"workloads/{name}"))["status"])


async def why_of(stands: Standing, name: str) -> tuple[str, str]:
    reason = (await stands.until_true(lambda row: row["reason"] is not None, f"workloads/{name}"))["reason"]
    return reason["why"], reason["sentence"]


async def test_workload_starts_once_the_other_succeeded(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="data")
    await stands.submit("true", name="train", after_any=["data"])
    assert await why_of(stands, "train") == ("dependency", "it waits for data to end")
    await stands.submit("true", name="eval", after_ok=["train"])
    row = await stands.get("workloads/eval")
    assert [(each["name"], each["condition"]) for each in row["dependencies"]] == [("train", "succeeded")]
    await stands.until("data", "running")
    assert await status_of(stands, "train") == "pending"  # though three of four GPUs are free
    await stands.admin.post("/api/v1/workloads/data/stop")
    await stands.until("eval", "succeeded")
    ended = {name: (await stands.get(f"workloads/{name}"))["ended_s"] for name in ("data", "train", "eval")}
    started = {name: (await stands.get(f"workloads/{name}"))["first_started_s"] for name in ("train", "eval")}
    assert ended["data"] <= started["train"]
    assert ended["train"] <= started["eval"]


async def test_workload_is_stopped_when_its_condition_cannot_be_met(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="data")
    await stands.submit("true", name="train", after_ok=["data"])
    await stands.submit("true", name="eval", after_ok=["train"])
    await stands.submit("true", name="alarm", after_not_ok=["data"])
    await stands.admin.post("/api/v1/workloads/data/stop")
    await stands.until("alarm", "succeeded")
    stopped = await stands.until("train", "stopped")
    assert stopped["reason"]["sentence"] == "train was to start only if data succeeds, and data was stopped."
    assert (await stands.until("eval", "stopped"))["first_started_s"] is None
    events = (await stands.get("events?workload=train"))["items"]
    assert sum("only if data succeeds" in event["sentence"] for event in events) == 1


async def test_after_waits_for_a_start_only(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="server", gpus=4)
    await stands.submit("sleep", "3600", name="later", gpus=4)
    await stands.submit("true", name="client", gpus=0, after=["later"])
    await stands.until("server", "running")
    assert await why_of(stands, "client") == ("dependency", "it waits for later to start")
    await stands.admin.post("/api/v1/workloads/server/stop")
    await stands.until("client", "succeeded")
    await stands.until("later", "running")


async def test_conditions_met_or_impossible_at_the_submission(stands: Standing) -> None:
    await stands.submit("true", name="data")
    await stands.until("data", "succeeded")
    made = await stands.submit("true", name="train", after_ok=["data"], after_any=["data"], after=["data"])
    assert made["dependencies"] == []
    await stands.until("train", "succeeded")
    for key, name, sentence in (
        ("after_not_ok", "data", "after_not_ok: data succeeded already, so this could never start"),
        ("after_any", "dta", "after_any: there is no workload dta"),
        ("after", "train2", "after: there is no workload train2"),
    ):
        body = {"project": "default", "command": ["true"], "name": "train2", key: [name]}
        refused = await stands.admin.post("/api/v1/workloads", json=body)
        assert refused.status_code == 422
        assert sentence in refused.json()["detail"]
        assert refused.json()["errors"][0]["field"] == f"{key}[0]"
    body = {"project": "default", "command": ["true"], "after": [f"w{at}" for at in range(65)]}
    refused = await stands.admin.post("/api/v1/workloads", json=body)
    assert "65 workloads are named; name at most 64" in refused.json()["detail"]


async def test_a_later_workload_of_the_same_name_means_nothing(stands: Standing) -> None:
    first = await stands.submit("sleep", "3600", name="data")
    await stands.submit("true", name="train", after_ok=["data"])
    await stands.admin.post("/api/v1/workloads/data/stop")
    await stands.until("train", "stopped")
    await stands.submit("true", name="data")
    await stands.until("data", "succeeded")
    row = await stands.get("workloads/train")
    assert row["status"] == "stopped"
    assert row["dependencies"][0]["uid"] == first["uid"]
    rerun = await stands.admin.post("/api/v1/workloads/train/rerun")
    assert rerun.status_code == 201  # it names the newest now, which succeeded
    await stands.until("train", "succeeded")


async def test_begin_time(stands: Standing) -> None:
    at_s = time.time() + 3600
    made = await stands.submit("true", name="night", begin=at_s)
    assert abs(made["begin_s"] - at_s) < 1
    why, sentence = await why_of(stands, "night")
    assert (why, sentence[:13]) == ("begin_time", "it begins at ")
    soon_s = time.time() + 1.0
    await stands.submit("true", name="soon", begin=soon_s)
    row = await stands.until("soon", "succeeded")
    assert row["first_started_s"] >= soon_s
    await stands.submit("true", name="past", begin="2001-02-03T04:05")
    await stands.until("past", "succeeded")
    assert await status_of(stands, "night") == "pending"
    for begin in ("tomorrow", "2026-13-01T00:00", 1e12, -1, True, "9" * 100):
        body = {"project": "default", "command": ["true"], "begin": begin}
        refused = await stands.admin.post("/api/v1/workloads", json=body)
        assert refused.status_code == 422
        assert "is no time; write a time such as 2026-12-01T18:00" in refused.json()["detail"]


async def test_preview_says_which_condition_is_not_met(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="data")
    for more, why in (
        ({"after_ok": ["data"]}, "dependency"),
        ({"begin": time.time() + 3600}, "begin_time"),
        ({"begin": 0}, None),
    ):
        body = {"project": "default", "command": ["true"], **more}
        answer = (await stands.admin.post(PREVIEW, json=body)).json()
        assert answer["starts"] is (why is None)
        assert (answer["reason"] or {}).get("why") == why
    refused = await stands.admin.post(
        PREVIEW, json={"project": "default", "command": ["true"], "after": ["nobody"]}
    )
    assert refused.status_code == 422


async def test_resume_starts_without_the_conditions(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="data")
    await stands.submit("true", name="train", after_ok=["data"], begin=time.time() + 3600)
    why = await stands.why("train")
    assert any(
        each["change"] == {"suspended": False} and "without its conditions" in each["sentence"]
        for each in why["suggestions"]
    )
    await stands.admin.post("/api/v1/workloads/train/suspend")
    resumed = await stands.admin.post("/api/v1/workloads/train/resume")
    assert resumed.status_code == 200  # that ended the suspension alone
    assert await status_of(stands, "train") == "pending"
    resumed = await stands.admin.post("/api/v1/workloads/train/resume")
    assert resumed.status_code == 200
    await stands.until("train", "succeeded")
    again = await stands.admin.post("/api/v1/workloads/data/resume")
    assert again.status_code == 409


async def test_conditions_survive_another_control(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="data")
    await stands.submit("true", name="train", after_ok=["data"])
    await stands.submit("true", name="alarm", after_not_ok=["data"])
    await stands.submit("true", name="night", begin=time.time() + 3600)
    await reconnect(stands)
    assert (await why_of(stands, "train"))[0] == "dependency"
    assert (await why_of(stands, "night"))[0] == "begin_time"
    await stands.admin.post("/api/v1/workloads/data/stop")
    await stands.until("train", "stopped")
    await stands.until("alarm", "succeeded")


async def test_conditions_met_while_no_server_ran(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with standing(home, end_jobs=False) as stands:
        await stands.submit("sleep", "1", name="data")
        await stands.submit("true", name="train", after_ok=["data"])
        await stands.submit("true", name="eval", after_ok=["train"])
        await stands.submit("true", name="alarm", after_not_ok=["train"])
        await stands.until("data", "running", "succeeded")
    await asyncio.sleep(0)
    async with standing(home) as stands:
        await stands.until("eval", "succeeded")
        await stands.until("alarm", "stopped")


async def test_chain_of_many_runs_in_order(stands: Standing) -> None:
    names = [f"step-{at}" for at in range(20)]
    await stands.submit("sleep", "0.5", name=names[0], gpus=0)
    for before, name in itertools.pairwise(names):
        await stands.submit("true", name=name, gpus=0, after_ok=[before])
    await stands.until(names[-1], "succeeded")
    rows = [await stands.get(f"workloads/{name}") for name in names]
    assert all(before["ended_s"] <= row["first_started_s"] for before, row in itertools.pairwise(rows))


async def test_array_that_waits_for_a_condition_may_be_resumed(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="data")
    await stands.submit("true", name="parts", array="1-3", after_ok=["data"])
    (suggestion,) = (await stands.get("workloads/parts/why"))["suggestions"]
    assert suggestion["sentence"] == "If it is resumed without its conditions, its indices are queued."
    assert suggestion["change"] == {"suspended": False}
    await stands.admin.post("/api/v1/workloads/parts/resume")
    await stands.until("parts", "succeeded")
