"""Rights of people: a token of one project has none in another."""

import asyncio
import stat

import httpx
from tests.unit.local.server.in_process_server import Standing

SECRET = "hunter2-in-the-environment"


async def test_unknown_callers_learn_nothing(stands: Standing) -> None:
    await stands.submit(name="job")
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic eA=="},
        {"Authorization": "Bearer "},
    ):
        async with httpx.AsyncClient(
            transport=stands.transport, base_url="http://pool", headers=headers
        ) as anonymous:
            for path in (
                "status",
                "workloads",
                "workloads/job",
                "workloads/job/logs",
                "events",
                "stream",
                "tokens",
            ):
                answer = await anonymous.get(f"/api/v1/{path}")
                assert answer.status_code == 401, path
                assert answer.headers["content-type"] == "application/problem+json"
            assert (await anonymous.get("/metrics")).status_code == 401
            assert (await anonymous.post("/api/v1/workloads", json={})).status_code == 401
            assert (await anonymous.get("/healthz")).status_code == 200
            async with asyncio.timeout(120):  # a probe may be late on a busy machine
                while (status := (await anonymous.get("/readyz")).status_code) != 200:
                    assert status == 503
                    await asyncio.sleep(0.02)


async def test_a_member_sees_rows_of_others_and_no_more(stands: Standing) -> None:
    await stands.project("mine", 2)
    await stands.project("theirs", 2)
    command = ["sh", "-c", f"echo {SECRET}; sleep 3600"]
    await stands.submit(*command, project="theirs", name="job", env={"KEY": SECRET})
    await stands.until("job", "running")
    mia = await stands.member("mine")
    row = (await mia.get("/api/v1/workloads")).json()["items"][0]
    assert (row["name"], row["status"]) == ("job", "running")
    for path in (
        "workloads",
        "workloads/job",
        "workloads/job/why",
        "events",
        "nodes",
        "projects",
        "usage",
        "metrics",
    ):
        answer = await mia.get(f"/api/v1/{path}" if path != "metrics" else "/metrics")
        assert SECRET not in answer.text, path
    detail = (await mia.get("/api/v1/workloads/job")).json()
    assert (detail["command"], detail["env"], detail["directory"], detail["events"]) == (None, None, None, [])
    for private in ("logs", "decision"):
        assert (await mia.get(f"/api/v1/workloads/job/{private}")).status_code == 403
    events = (await mia.get("/api/v1/events")).json()["items"]
    assert {event["project"] for event in events} == {"mine"}
    for verb in ("stop", "suspend", "resume", "rerun"):
        assert (await mia.post(f"/api/v1/workloads/job/{verb}")).status_code == 403, verb
    answer = await mia.post("/api/v1/workloads", json={"project": "theirs", "command": ["true"]})
    assert answer.status_code == 403
    assert (await stands.get("workloads/job"))["status"] == "running"
    await stands.admin.post("/api/v1/workloads/job/stop")
    await stands.until("job", "stopped")
    assert (await mia.post("/api/v1/workloads/job/rerun")).status_code == 403
    assert SECRET not in (await mia.get("/api/v1/workloads/job")).text
    assert (await mia.get("/api/v1/workloads/job/logs")).status_code == 403


async def test_a_member_acts_in_their_project(stands: Standing) -> None:
    await stands.project("mine", 2)
    mia = await stands.member("mine")
    made = await mia.post(
        "/api/v1/workloads", json={"project": "mine", "command": ["sh", "-c", "echo hi"], "name": "own"}
    )
    assert (made.status_code, made.json()["user"]) == (201, "mia")
    await stands.until("own", "succeeded")
    assert (await mia.get("/api/v1/workloads/own/logs")).text == "hi\n"
    assert (await mia.get("/api/v1/workloads/own")).json()["command"] == ["sh", "-c", "echo hi"]
    assert {event["project"] for event in (await mia.get("/api/v1/events")).json()["items"]} == {"mine"}


async def test_only_an_administrator_changes_the_pool(stands: Standing) -> None:
    mia = await stands.member("default")
    body = {"name": "new", "quota": {"gpu": 1}}
    assert (await mia.put("/api/v1/projects/new", json=body)).status_code == 403
    assert (await mia.put("/api/v1/departments/new", json=body)).status_code == 403
    assert (await mia.delete("/api/v1/projects/default")).status_code == 403
    assert (await mia.post("/api/v1/tokens", json={"user": "eve", "role": "admin"})).status_code == 403
    assert (await mia.get("/api/v1/tokens")).status_code == 403
    assert (await mia.delete("/api/v1/tokens/1")).status_code == 403
    assert (await mia.get("/api/v1/snapshot")).status_code == 403


async def test_a_token_taken_back_is_good_for_nothing(stands: Standing) -> None:
    mia = await stands.member("default")
    listed = await stands.get("tokens")
    assert [(row["user"], row["projects"]) for row in listed["items"]] == [("mia", ["default"])]
    assert "token" not in listed["items"][0]
    assert (await mia.get("/api/v1/status")).status_code == 200
    gone = await stands.admin.delete(f"/api/v1/tokens/{listed['items'][0]['id']}")
    assert gone.status_code == 204
    assert (await mia.get("/api/v1/status")).status_code == 401
    unknown = await stands.admin.delete("/api/v1/tokens/12345")
    assert unknown.status_code == 404
    assert unknown.json()["detail"] == "There is no token 12345; `weir token list` shows which there are."


async def test_the_administrators_token_is_for_one_pair_of_eyes(stands: Standing) -> None:
    path = stands.pool.home / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stands.token.encode() not in b"".join(
        file.read_bytes() for file in stands.pool.home.glob("weir.db*")
    )


async def test_streams_tell_members_of_their_projects_events_only(stands: Standing) -> None:
    from weir.local.server.access.authorization import Person, Role

    await stands.project("mine", 2)
    await stands.project("theirs", 2)
    joined = stands.pool.stream.join(Person("mia", False, {"mine": Role.MEMBER}), None)
    assert joined is not None
    reader, _ = joined
    await stands.submit("true", project="theirs", name="other")
    await stands.submit("true", project="mine", name="own")
    await stands.until("other", "succeeded")
    await stands.until("own", "succeeded")
    await stands.until_true(lambda page: any(e["kind"] == "ended" for e in page["items"]), "events")
    reported = [message for message in reader.queue if message.kind == "event"]
    assert reported
    assert {message.project for message in reported} <= {"mine", None}
    reader.end()


async def test_names_of_others_can_be_left_out_of_metrics_and_use(stands: Standing) -> None:
    await stands.project("mine", 2)
    await stands.project("theirs", 2)
    for project in ("mine", "theirs"):
        await stands.submit(project=project, name=f"job-of-{project}")
        await stands.until(f"job-of-{project}", "running")
    mia = await stands.member("mine")
    assert "job-of-theirs" in (await mia.get("/metrics")).text
    stands.pool.hides_others = True
    reported = (await mia.get("/metrics")).text
    assert "job-of-mine" in reported
    assert "job-of-theirs" not in reported
    assert 'weir_workloads{project="theirs",status="running"} 1.0' in reported
    assert "job-of-theirs" in (await stands.admin.get("/metrics")).text
    assert (await mia.get("/api/v1/usage", params={"by": "user"})).status_code == 403
    assert (await mia.get("/api/v1/usage", params={"by": "project"})).status_code == 200
    for report in ("usage", "history"):
        for by in ("project", "department"):
            asked = {"by": by, "project": "mine,none"}
            (row,) = (await stands.admin.get(f"/api/v1/{report}", params=asked)).json()["rows"]
            assert (row["key"], row["workloads"]) == ("mine" if by == "project" else "", 1)
