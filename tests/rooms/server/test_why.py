"""Why: the reason, the place in the line, and suggestions, each of which holds when it is followed."""

from typing import Any

from .standing import SMALL, Standing


async def suggested(stands: Standing, name: str) -> dict[str, dict[str, Any]]:
    """Suggestions by what they would change."""
    said = await stands.get(f"workloads/{name}/why")
    found = {}
    for each in said["suggestions"]:
        assert each["sentence"].endswith(".")
        found[next(iter(each["change"]), "time")] = each
    return found


async def fill(stands: Standing, gpus: int, **more: Any) -> None:
    await stands.submit("sleep", "60", name="holds", gpus=gpus, preemptible=False, priority=100, **more)
    await stands.until("holds", "running")


async def test_fewer_devices_start_it_now(stands: Standing) -> None:
    await fill(stands, 1)
    await stands.submit("sleep", "60", name="large", gpus=4)
    said = await stands.get("workloads/large/why")
    assert said["reason"]["why"] in {"no_room", "not_takeable"}
    assert (said["position"], said["waiting"]) == (1, 1)
    assert [row["name"] for row in said["queues"]] == ["default"]
    change = (await suggested(stands, "large"))["gpus"]
    assert change["change"] == {"gpus": 3}
    assert "starts now" in change["sentence"]
    await stands.admin.post("/api/v1/workloads/large/stop")
    await stands.submit("sleep", "60", name="smaller", gpus=3)
    await stands.until("smaller", "running")


async def test_a_share_starts_where_others_share(stands: Standing) -> None:
    await fill(stands, 3)
    await stands.submit("sleep", "60", name="shares", gpus=0.5)
    await stands.until("shares", "running")
    await stands.submit("sleep", "60", name="whole", gpus=1)
    change = (await suggested(stands, "whole"))["gpus"]
    assert change["change"] == {"gpus": 0.5}
    await stands.submit("sleep", "60", name="half", gpus=0.5)
    await stands.until("half", "running")


async def test_fewer_pods_of_a_gang(stands: Standing) -> None:
    await fill(stands, 2)
    await stands.submit("sleep", "60", name="gang", pods=[{"count": 4, "gpus": 1, **SMALL}])
    assert (await suggested(stands, "gang"))["pods"]["change"] == {"pods": 2}


async def test_being_preemptible_passes_the_quota_gate(stands: Standing) -> None:
    await stands.project("small", 1)
    await stands.submit("sleep", "60", project="small", name="fixed", gpus=2, preemptible=False)
    said = await stands.get("workloads/fixed/why")
    assert said["reason"]["why"] == "non_preemptible_over_quota"
    found = await suggested(stands, "fixed")
    assert found["preemptible"]["change"] == {"preemptible": True}
    assert found["gpus"]["change"] == {"gpus": 1}


async def test_when_those_that_run_have_ended(stands: Standing) -> None:
    await fill(stands, 4, max_runtime="10m")
    await stands.submit("sleep", "60", name="waits", gpus=2)
    said = await stands.get("workloads/waits/why")
    found = await suggested(stands, "waits")
    holds = await stands.get("workloads/holds")
    assert abs(found["time"]["at_s"] - (holds["started_s"] + 600)) < 2
    assert found["ended"]["change"] == {"ended": "holds"}
    assert said["reason"]["sentence"]
    await stands.admin.post("/api/v1/workloads/holds/stop")
    await stands.until("waits", "running")


async def test_priority_before_those_of_its_project(stands: Standing) -> None:
    await stands.submit("sleep", "60", name="low", gpus=4, priority=60)
    await stands.until("low", "running")
    await stands.submit("sleep", "60", name="high", gpus=4, priority=50)
    change = (await suggested(stands, "high"))["priority"]
    assert change["change"] == {"priority": 61, "preemptible": True}
    assert "low" in change["sentence"]


async def test_what_nothing_helps_gets_no_suggestion(stands: Standing) -> None:
    await stands.submit("sleep", "60", name="huge", pods=[{"gpus": 1, "cpu": "100", "memory": "90Ti"}])
    said = await stands.get("workloads/huge/why")
    assert (said["reason"]["why"], said["suggestions"]) == ("no_node_matches", [])


async def test_what_runs_or_is_over_waits_for_nothing(stands: Standing) -> None:
    await stands.submit("sleep", "0.3", name="short")
    await stands.until("short", "running")
    assert (await stands.get("workloads/short/why"))["suggestions"] == []
    await stands.until("short", "succeeded")
    assert (await stands.get("workloads/short/why"))["reason"]["why"] == "succeeded"
    assert (await stands.admin.get("/api/v1/workloads/nobody/why")).status_code == 404


async def test_what_is_suspended_may_be_resumed(stands: Standing) -> None:
    await stands.submit("sleep", "60", name="runs")
    await stands.admin.post("/api/v1/workloads/runs/suspend")
    await stands.until("runs", "pending")
    assert (await suggested(stands, "runs"))["held"]["change"] == {"held": False}
