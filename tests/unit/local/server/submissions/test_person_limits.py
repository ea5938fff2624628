"""Limits of a person in a project: what is refused at once, what waits, and what `weir why` says."""

from typing import Any

from tests.unit.local.server.in_process_server import SMALL, Standing

from weir.cli.queues.options import LimitOptions, limit_fields


def work(name: str, gpus: float = 1, **more: Any) -> dict[str, Any]:
    pods = more.pop("pods", [{"gpus": gpus, **SMALL}])
    return {"project": "team", "command": ["sleep", "3600"], "name": name, "pods": pods, **more}


async def limited(stands: Standing, of: dict[str, Any] | None = None, **limits: Any) -> None:
    await stands.project("team", 4, person_limits=limits, person_limits_of=of or {})


async def test_running_gpus_of_a_person_are_limited(stands: Standing) -> None:
    await limited(stands, {"ben": {"gpus": 3}}, gpus=2)
    mia, ben = await stands.member("team"), await stands.member("team", user="ben")
    for name in ("first", "second"):
        assert (await mia.post("/api/v1/workloads", json=work(name))).status_code == 201
        await stands.until(name, "running")
    assert (await mia.post("/api/v1/workloads", json=work("third"))).status_code == 201
    answer = await stands.until_true(
        lambda found: found["reason"] is not None and found["reason"]["why"] == "person_limit",
        "workloads/third/why",
    )
    assert answer["reason"]["sentence"] == (
        "mia may use 2 GPUs at once in project team, 2 are in use, and this requests 1; "
        "it waits for an end among first, second"
    )
    numbers = answer["reason"]["numbers"]
    assert (numbers["limit"], numbers["have"], numbers["want"], numbers["most"]) == ("gpus", 2000, 1000, 2000)
    row = await stands.get("workloads/third")
    assert row["status"] == "pending"
    assert (await ben.post("/api/v1/workloads", json=work("other", gpus=2))).status_code == 201
    await stands.until("other", "running")
    too_large = await mia.post("/api/v1/workloads", json=work("large", gpus=3))
    assert too_large.status_code == 422
    assert (
        "pods: the workload asks for 3 GPUs in all, and mia may use 2 at once" in too_large.json()["detail"]
    )
    assert (await mia.post("/api/v1/workloads/first/stop")).status_code == 200
    await stands.until("third", "running")


async def test_sessions_and_running_workloads_wait_for_their_own_limit(stands: Standing) -> None:
    await limited(stands, sessions=1, running=2)
    mia = await stands.member("team")
    for name, type_ in (("one", "build"), ("two", "build"), ("three", "train"), ("four", "train")):
        made = await mia.post("/api/v1/workloads", json=work(name, gpus=0.5, type=type_))
        assert made.status_code == 201, made.text
    await stands.until("one", "running")
    await stands.until("three", "running")
    for name in ("two", "four"):
        answer = await stands.get(f"workloads/{name}/why")
        assert answer["reason"]["why"] == "person_limit"
        assert "mia may have 2 workloads running at once in project team" in answer["reason"]["sentence"]
    await mia.post("/api/v1/workloads/three/stop")
    await stands.until("four", "running")
    two = await stands.get("workloads/two/why")
    assert two["reason"]["numbers"]["limit"] in ("running", "sessions")
    await mia.post("/api/v1/workloads/one/stop")
    await stands.until("two", "running")


async def test_raising_a_limit_lets_work_start(stands: Standing) -> None:
    await limited(stands, running=1)
    mia = await stands.member("team")
    for name in ("one", "two"):
        assert (await mia.post("/api/v1/workloads", json=work(name))).status_code == 201
    await stands.until("one", "running")
    assert (await stands.get("workloads/two"))["status"] == "pending"
    await limited(stands, {"mia": {"running": 0}}, running=1)
    await stands.until("two", "running")
    shown = await stands.get("projects/team")
    assert shown["person_limits"]["running"] == 1
    assert shown["person_limits_of"]["mia"]["running"] == 0
    await limited(stands, running=1)
    assert (await stands.get("workloads/two"))["status"] == "running", "what runs goes on"


async def test_pending_work_and_run_time_are_checked_at_once(stands: Standing) -> None:
    await limited(stands, pending=1, max_runtime="2h", running=1)
    mia, ben = await stands.member("team"), await stands.member("team", user="ben")
    assert (await mia.post("/api/v1/workloads", json=work("one"))).status_code == 201
    await stands.until("one", "running")
    assert (await mia.post("/api/v1/workloads", json=work("two"))).status_code == 201
    refused = await mia.post("/api/v1/workloads", json=work("three"))
    assert refused.status_code == 429
    assert "You have 1 pending workloads in project team, and one person may have 1" in refused.text
    assert (await ben.post("/api/v1/workloads", json=work("four"))).status_code == 201
    too_long = await ben.post("/api/v1/workloads", json=work("five", max_runtime="3h"))
    assert too_long.status_code in (422, 429)
    assert (await stands.get("workloads/one"))["max_runtime_s"] == 7200.0
    default = await stands.admin.post("/api/v1/workloads", json={**work("free"), "project": "default"})
    assert default.json()["max_runtime_s"] is None


async def test_run_time_above_the_longest_names_it(stands: Standing) -> None:
    await limited(stands, {"mia": {"max_runtime": "30m"}}, max_runtime="2h")
    mia = await stands.member("team")
    too_long = await mia.post("/api/v1/workloads", json=work("five", max_runtime="1h"))
    assert too_long.status_code == 422
    assert "max_runtime: 1h is above 30m, the maximum run time of mia in project team" in too_long.text


async def test_recovered_pool_keeps_the_limits(stands: Standing) -> None:
    """The limits are part of the quota tree that the store keeps."""
    await limited(stands, gpus=2, sessions=1, pending=5)
    (queue,) = [each for each in stands.pool.store.queues() if each.name == "team"]
    limits = queue.limits_of("mia")
    assert (limits.gpus_milli, limits.sessions, limits.pending, limits.running) == (2000, 1, 5, None)


def test_options_of_the_command_line_are_fields() -> None:
    options = LimitOptions(
        person_limit=("gpus=4", "max-runtime=24h"), person_limit_of=("mia:gpus=8", "mia:running=2")
    )
    assert limit_fields(options) == {
        "person_limits": {"gpus": 4, "max_runtime": "24h"},
        "person_limits_of": {"mia": {"gpus": 8, "running": 2}},
    }
    for wrong in (
        LimitOptions(person_limit=("nodes=4",)),
        LimitOptions(person_limit=("gpus",)),
        LimitOptions(person_limit_of=("gpus=4",)),
    ):
        try:
            limit_fields(wrong)
        except ValueError as error:
            assert "--person-limit" in str(error)
        else:
            raise AssertionError(wrong)


async def test_named_priorities_stand_for_numbers(stands: Standing) -> None:
    await stands.project("team", 4, max_priority="normal", max_priority_of={"ben": "urgent"})
    mia, ben = await stands.member("team"), await stands.member("team", user="ben")
    made = await mia.post("/api/v1/workloads", json=work("one", priority="low"))
    assert (made.status_code, made.json()["priority"]) == (201, 25)
    refused = await mia.post("/api/v1/workloads", json=work("two", priority="high"))
    assert refused.status_code == 422
    assert "priority: 75 is above 50, the highest for mia in project team" in refused.text
    made = await ben.post("/api/v1/workloads", json=work("two", priority="high"))
    assert made.json()["priority"] == 75
    raised = await ben.post("/api/v1/workloads/two/priority", json={"priority": "urgent"})
    assert raised.json()["priority"] == 99
    unknown = await ben.post("/api/v1/workloads", json=work("three", priority="hihg"))
    assert unknown.status_code == 422
    assert "write a number, or one of low, normal, high, urgent" in unknown.text
