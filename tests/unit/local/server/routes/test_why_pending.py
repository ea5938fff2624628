"""Answers of why: the reason, the position in the queue, and suggestions that hold when they are followed."""

from getpass import getuser
from pathlib import Path
from typing import Any

from tests.unit.local.server.in_process_server import SMALL, Standing, standing

from weir.local.server.access.authorization import Person


async def suggested(stands: Standing, name: str) -> dict[str, dict[str, Any]]:
    """Suggestions by what they would change."""
    answer = await stands.why(name)
    found = {}
    for each in answer["suggestions"]:
        assert each["sentence"].endswith(".")
        found[next(iter(each["change"]), "time")] = each
    return found


async def fill(stands: Standing, gpus: int, **more: Any) -> None:
    await stands.submit("sleep", "3600", name="holds", gpus=gpus, preemptible=False, priority=100, **more)
    await stands.until("holds", "running")


async def test_fewer_devices_start_it_now(stands: Standing) -> None:
    await fill(stands, 1)
    await stands.submit("sleep", "3600", name="large", gpus=4)
    answer = await stands.get("workloads/large/why")
    assert answer["reason"]["why"] in {"insufficient_capacity", "no_eligible_victims"}
    assert (answer["position"], answer["waiting"]) == (1, 1)
    assert [row["name"] for row in answer["queues"]] == ["default"]
    change = (await suggested(stands, "large"))["gpus"]
    assert change["change"] == {"gpus": 3}
    assert "starts now" in change["sentence"]
    await stands.admin.post("/api/v1/workloads/large/stop")
    await stands.submit("sleep", "3600", name="smaller", gpus=3)
    await stands.until("smaller", "running")


async def test_the_reason_alone_comes_without_suggestions(stands: Standing) -> None:
    await fill(stands, 1)
    await stands.submit("sleep", "3600", name="large", gpus=4)
    full = await stands.why("large")
    alone, first = [
        await stands.get("workloads/large/why", **query) for query in ({"suggestions": "false"}, {})
    ]
    assert full["suggestions"]
    assert alone == full | {"suggestions": []}
    assert first == full, "they are kept"


async def test_the_reason_does_not_wait_for_suggestions_that_others_hold_up(stands: Standing) -> None:
    await fill(stands, 1)
    await stands.submit("sleep", "3600", name="large", gpus=4)
    async with stands.pool.suggesting.turn(Person("root", is_admin=True)):
        for wait in (0, 0.01):
            answer = await stands.get("workloads/large/why", wait=wait)
            assert (answer["unfinished"], answer["suggestions"]) == (True, [])
            assert answer["reason"]["why"] in {"insufficient_capacity", "no_eligible_victims"}
    assert "gpus" in await suggested(stands, "large")
    for wait in ("-1", "11", "nan", "soon"):
        answer = await stands.admin.get("/api/v1/workloads/large/why", params={"wait": wait})
        assert answer.status_code == 422, wait


async def test_suggestions_are_tried_again_once_the_pool_has_changed(stands: Standing) -> None:
    await fill(stands, 1)
    await stands.submit("sleep", "3600", name="large", gpus=4)
    assert (await suggested(stands, "large"))["gpus"]["change"] == {"gpus": 3}
    await stands.submit("sleep", "3600", name="more", gpus=1, preemptible=False, priority=100)
    await stands.until("more", "running")
    assert (await suggested(stands, "large"))["gpus"]["change"] == {"gpus": 2}


async def test_a_share_starts_where_others_share(stands: Standing) -> None:
    await fill(stands, 3)
    await stands.submit("sleep", "3600", name="shares", gpus=0.5)
    await stands.until("shares", "running")
    await stands.submit("sleep", "3600", name="whole", gpus=1)
    change = (await suggested(stands, "whole"))["gpus"]
    assert change["change"] == {"gpus": 0.5}
    await stands.submit("sleep", "3600", name="half", gpus=0.5)
    await stands.until("half", "running")


async def test_running_workload_says_why_further_pods_wait(stands: Standing) -> None:
    await fill(stands, 2)
    pods = [{"count": 4, "min": 1, "gpus": 1, **SMALL}]
    await stands.submit("sleep", "3600", name="grows", pods=pods)
    await stands.until("grows", "running")
    answer = await stands.get("workloads/grows/why")
    assert (answer["status"], answer["suggestions"]) == ("running", [])
    assert answer["reason"]["why"] in {"insufficient_capacity", "no_eligible_victims"}
    assert (await stands.get("workloads/holds/why"))["reason"] is None


async def test_ended_workload_has_no_decision(stands: Standing) -> None:
    await stands.submit("true", name="short", gpus=1)
    await stands.until("short", "succeeded")
    answer = await stands.admin.get("/api/v1/workloads/short/decision")
    assert answer.status_code == 409
    assert "short has ended: there is no decision on it." in answer.text
    assert (await stands.admin.get("/api/v1/workloads/nosuch/decision")).status_code == 404


async def test_fewer_pods_of_a_gang(stands: Standing) -> None:
    await fill(stands, 2)
    await stands.submit("sleep", "3600", name="gang", pods=[{"count": 4, "gpus": 1, **SMALL}])
    assert (await suggested(stands, "gang"))["pods"]["change"] == {"pods": 2}


async def test_being_preemptible_passes_the_quota_gate(stands: Standing) -> None:
    await stands.project("small", 1)
    await stands.submit("sleep", "3600", project="small", name="fixed", gpus=2, preemptible=False)
    answer = await stands.get("workloads/fixed/why")
    assert answer["reason"]["why"] == "non_preemptible_over_quota"
    found = await suggested(stands, "fixed")
    assert found["preemptible"]["change"] == {"preemptible": True}
    assert found["gpus"]["change"] == {"gpus": 1}


async def test_when_those_that_run_have_ended(stands: Standing) -> None:
    await fill(stands, 4, max_runtime="10m")
    await stands.submit("sleep", "3600", name="waits", gpus=2)
    answer = await stands.get("workloads/waits/why")
    found = await suggested(stands, "waits")
    holds = await stands.get("workloads/holds")
    assert "at the latest, when holds has ended" in found["time"]["sentence"]
    assert abs(found["time"]["at_s"] - (holds["started_s"] + 600)) < 60
    assert found["ended"]["change"] == {"ended": "holds"}
    assert answer["reason"]["sentence"]
    await stands.admin.post("/api/v1/workloads/holds/stop")
    await stands.until("waits", "running")


async def test_priority_before_those_of_its_project(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="low", gpus=4, priority=60)
    await stands.until("low", "running")
    await stands.submit("sleep", "3600", name="high", gpus=4, priority=50)
    change = (await suggested(stands, "high"))["priority"]
    assert change["change"] == {"priority": 61, "preemptible": True}
    assert f"once low of {getuser()} in default is evicted" in change["sentence"]


async def refused(stands: Standing, **more: Any) -> str:
    """The sentence with which a submission is refused."""
    body = {"project": "default", "command": ["true"], "name": "huge", **more}
    made = await stands.admin.post("/api/v1/workloads", json=body)
    assert made.status_code == 422, made.text
    (error,) = made.json()["errors"]
    return str(error["message"])


async def test_a_size_that_no_machine_has_is_refused_at_submit(stands: Standing) -> None:
    for pod, sentence in (
        ({"gpus": 9, **SMALL}, "pods[0]: a pod asks for 9 GPUs; the largest node offers 4; ask for less"),
        ({"gpus": 1, "cpu": "100m", "memory": "90Ti"}, "asks for 90Ti of memory; the largest node offers "),
        ({"gpus": 1, "cpu": "1000", "memory": "1Gi"}, "pods[0]: a pod asks for 1000 CPUs; the largest node "),
        ({"gpu_memory": "9Ti", **SMALL}, "it asks for 9Ti of GPU memory; the largest GPU has "),
        (
            {"gpus": 3, "count": 2, **SMALL},
            "pods: the workload needs 6 GPUs at once; the pool has 4 GPUs; ask for fewer or smaller pods",
        ),
    ):
        assert sentence in await refused(stands, pods=[pod])
    listed = await stands.get("workloads")
    assert listed["items"] == []


async def test_elastic_pods_beyond_the_machine_may_wait(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="grows", pods=[{"gpus": 1, "count": 8, "min": 2, **SMALL}])
    await stands.until("grows", "running")


async def test_members_priority_is_capped_for_the_project_and_for_a_person(stands: Standing) -> None:
    await stands.project("vision", 4)
    mia, ben = await stands.member("vision"), await stands.member("vision", user="ben")

    async def submit(member: Any, name: str, priority: int) -> Any:
        pods = [{"gpus": 1, **SMALL}]
        body = {"project": "vision", "command": ["true"], "name": name, "priority": priority, "pods": pods}
        return await member.post("/api/v1/workloads", json=body)

    too_high = await submit(mia, "a", 1_000_000)
    assert too_high.status_code == 422
    assert too_high.json()["errors"][0]["message"] == (
        "priority: 1000000 is above 125, the highest for mia in project vision; write 125 or less, or ask an "
        "administrator to raise it"
    )
    await stands.project("vision", 4, max_priority=80, max_priority_of={"ben": 60})
    assert [(await submit(mia, "b", 81)).status_code, (await submit(mia, "c", 80)).status_code] == [422, 201]
    assert [(await submit(ben, "d", 61)).status_code, (await submit(ben, "e", 60)).status_code] == [422, 201]
    assert (await submit(stands.admin, "f", 1_000_000)).status_code == 201
    row = await stands.get("projects/vision")
    assert (row["max_priority"], row["max_priority_of"]) == (80, {"ben": 60})


async def test_no_suggestion_exceeds_the_persons_priority(stands: Standing) -> None:
    await stands.project("vision", 4, max_priority=60)
    mia = await stands.member("vision")
    await stands.submit("sleep", "3600", project="vision", name="low", gpus=4, priority=60)
    await stands.until("low", "running")
    await stands.submit("sleep", "3600", project="vision", name="high", gpus=4, priority=50)
    answer = await stands.why("high", mia)
    assert not [each for each in answer["suggestions"] if "priority" in each["change"]]
    assert "priority" in await suggested(stands, "high")  # an administrator may


async def test_less_memory_and_fewer_cpus_are_suggested(stands: Standing) -> None:
    node = stands.pool.inventory.nodes[0]
    memory, cpus = node.capacity["memory"], node.capacity["cpu"] // 1000
    held = {"cpu": "1", "memory": "1Gi"}
    await stands.submit(
        "sleep", "3600", name="holds", pods=[{"gpus": 1, **held}], preemptible=False, priority=100
    )
    await stands.until("holds", "running")
    await stands.submit("sleep", "3600", name="whole", pods=[{"gpus": 1, "cpu": str(cpus), "memory": memory}])
    change = (await suggested(stands, "whole"))["memory"]
    assert change["change"].keys() == {"memory", "cpu"}
    assert change["change"]["cpu"] == str(cpus - 1)
    assert "starts now" in change["sentence"]
    await stands.submit("sleep", "3600", name="less", pods=[{"gpus": 1, **change["change"]}])
    await stands.until("less", "running")


async def test_over_committed_quotas_warn(stands: Standing) -> None:
    assert (await stands.get("projects/default"))["warnings"] == []
    made = await stands.project("extra", 8)
    sentence = "Quotas guarantee 12 GPUs together, the pool has 4 GPUs: not all of them can be met at once."
    assert made["warnings"] == [sentence]
    assert (await stands.get("projects/default"))["warnings"] == [sentence]


async def test_a_project_warns_of_what_its_department_over_commits(stands: Standing) -> None:
    made = await stands.admin.put("/api/v1/departments/lab", json={"name": "lab"})
    assert made.status_code == 201, made.text
    await stands.project("default", 2)
    (warning,) = (await stands.project("vision", 3, department="lab"))["warnings"]
    assert warning.startswith("Quotas guarantee 5 GPUs together, the pool has 4 GPUs")


async def test_a_quota_below_non_preemptible_work_warns(stands: Standing) -> None:
    await fill(stands, 2)
    made = await stands.project("default", 1)
    assert made["warnings"] == [
        "Non-preemptible work of default holds 2 GPUs, more than its quota of 1 GPU: that work stays until it ends."
    ]


async def test_an_evicted_workload_says_for_whom(stands: Standing) -> None:
    await stands.project("default", 0)
    await stands.project("speech", 4)
    ben = await stands.member("speech", user="ben")
    await stands.submit("sleep", "3600", name="borrows", gpus=4)
    await stands.until("borrows", "running")
    pods = [{"gpus": 4, **SMALL}]
    body = {"project": "speech", "command": ["sleep", "3600"], "name": "back", "pods": pods}
    assert (await ben.post("/api/v1/workloads", json=body)).status_code == 201
    await stands.until("back", "running")
    evicted = (await stands.until("borrows", "pending"))["evicted"]
    assert (evicted["by"], evicted["by_user"], evicted["by_project"]) == ("back", "ben", "speech")
    assert evicted["rule"] == "reclaim_quota"
    assert (await stands.get("workloads/borrows/why"))["evicted"] == evicted
    assert "default holds 4 GPUs with a quota of 0" in evicted["sentence"]
    kinds = {"quota_met", "stopped"}
    page = await stands.until_true(
        lambda answer: kinds <= {event["kind"] for event in answer["items"]}, "events"
    )
    (met,) = (event for event in page["items"] if event["kind"] == "quota_met")
    assert met["sentence"].startswith("speech got GPUs of its quota back after")
    report = await stands.until_true(lambda answer: answer["rules"], "history")
    rows = {row["key"]: row for row in report["rows"]}
    assert rows["speech"]["to_quota"]["p90_s"] == met["numbers"]["waited_s"]
    (rule,) = report["rules"]
    assert (rule["rule"], rule["count"], rows["default"]["evicted"]) == ("reclaim_quota", 1, 1)
    assert rule["lost_gpu_s"] == rows["default"]["lost_gpu_s"] > 0


async def test_what_runs_or_is_over_waits_for_nothing(stands: Standing, tmp_path: Path) -> None:
    await stands.submit("sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done", name="short")
    await stands.until("short", "running")
    assert (await stands.get("workloads/short/why", wait=10))["suggestions"] == []
    (tmp_path / "go").touch()
    await stands.until("short", "succeeded")
    assert (await stands.get("workloads/short/why"))["reason"]["why"] == "succeeded"
    assert (await stands.admin.get("/api/v1/workloads/nobody/why")).status_code == 404


async def test_failed_workload_says_when_it_is_tried_again(stands: Standing) -> None:
    """It isn't suspended, so it needn't be resumed."""
    await stands.submit("sh", "-c", "exit 3", name="fails", retries=5)
    row = await stands.until_true(
        lambda row: row["reason"] is not None and row["reason"]["why"] == "retrying", "workloads/fails"
    )
    assert row["status"] == "pending"
    assert row["reason"]["sentence"].startswith("it failed (")
    assert abs(row["reason"]["numbers"]["until_s"] - stands.pool.clock()) < 3600
    assert not (await suggested(stands, "fails")).get("suspended")


async def test_what_is_suspended_may_be_resumed(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="runs")
    await stands.admin.post("/api/v1/workloads/runs/suspend")
    await stands.until("runs", "pending")
    assert (await suggested(stands, "runs"))["suspended"]["change"] == {"suspended": False}


async def test_details_of_the_decision_name_what_protects_the_holder(stands: Standing) -> None:
    await fill(stands, 4)
    await stands.submit("sleep", "3600", name="waits", gpus=2)
    waiting = await stands.get("workloads/waits/decision")
    assert [ranking["fitting"] for ranking in waiting["rankings"]] == [0]
    assert [(row["workload"], row["protected"]) for row in waiting["victims"]] == [
        ("holds", "it is non-preemptible")
    ]
    running = await stands.get("workloads/holds/decision")
    assert (running["again"], running["rankings"][0]["fitting"]) == (True, 1)


async def test_another_project_or_a_larger_quota_would_cover_it(stands: Standing) -> None:
    await stands.project("small", 1)
    await stands.project("large", 3)
    await fill(stands, 2, project="default")
    await stands.submit("sleep", "3600", project="small", name="first", gpus=1, preemptible=False)
    await stands.until("first", "running")
    await stands.submit("sleep", "3600", project="small", name="fixed", gpus=1, preemptible=False)
    found = await suggested(stands, "fixed")
    assert found["project"]["change"] == {"project": "large"}
    assert found["project"]["sentence"].startswith("In project large instead of small it starts now")
    assert found["quota"]["change"] == {"quota": {"small": 2}}
    await stands.project("small", 2)
    await stands.until("fixed", "running")


async def test_no_department_is_suggested_as_another_project(stands: Standing) -> None:
    await stands.project("default", 0)
    await stands.admin.put("/api/v1/departments/research", json={"name": "research"})
    for name in ("small", "other"):
        await stands.project(name, 1, department="research")
    await stands.submit("sleep", "3600", project="small", name="fixed", gpus=2, preemptible=False)
    found = await suggested(stands, "fixed")
    assert found["quota"]["change"] == {"quota": {"small": 2}}
    assert "project" not in found


async def test_a_server_that_starts_again_still_says_for_whom(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", gpus=2, end_jobs=False) as before:
        await before.project("default", 0)
        await before.project("speech", 2)
        ben = await before.member("speech", user="ben")
        await before.submit("sleep", "3600", name="borrows", gpus=2)
        await before.until("borrows", "running")
        body = {
            "project": "speech",
            "command": ["sleep", "3600"],
            "name": "back",
            "pods": [{"gpus": 2, **SMALL}],
        }
        assert (await ben.post("/api/v1/workloads", json=body)).status_code == 201
        await before.until("back", "running")
        evicted = (await before.until("borrows", "pending"))["evicted"]
        await before.until_true(
            lambda page: "stopping" in {event["kind"] for event in page["items"]}, "events"
        )
    async with standing(tmp_path / "home", gpus=2) as after:
        (row,) = (row for row in (await after.get("workloads"))["items"] if row["name"] == "borrows")
        assert row["evicted"] == {**evicted, "at_s": row["evicted"]["at_s"]}
        assert (await after.get("workloads/borrows/why"))["evicted"] == row["evicted"]
        assert (await after.get("workloads/back"))["evicted"] is None
