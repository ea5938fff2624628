"""Departments and projects over REST."""

import asyncio
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing

from weir.store.errors import StoreFailed


async def test_a_fresh_pool_has_a_project_with_all_of_the_machine(stands: Standing) -> None:
    page = await stands.get("projects")
    assert [(row["name"], row["quota"]) for row in page["items"]] == [("default", {"gpu": 4.0})]


@pytest.mark.parametrize("kind", ["project", "department"])
@pytest.mark.parametrize(
    ("method", "path"), [("get", ""), ("delete", ""), ("get", "/members"), ("delete", "/members/ada")]
)
async def test_unknown_queue_is_refused_with_the_list_of_those_there_are(
    method: str, path: str, kind: str, stands: Standing
) -> None:
    answer = await stands.admin.request(method, f"/api/v1/{kind}s/nope{path}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == f"There is no {kind} nope; `weir {kind} list` shows which there are."


@pytest.mark.parametrize("path", ["secrets", "templates"])
async def test_unknown_project_of_secrets_and_templates_is_refused_alike(path: str, stands: Standing) -> None:
    answer = await stands.admin.get(f"/api/v1/projects/nope/{path}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "There is no project nope; `weir project list` shows which there are."


async def test_what_is_set_is_what_is_answered(stands: Standing) -> None:
    await stands.admin.put("/api/v1/departments/lab", json={"name": "lab"})
    made = await stands.project(
        "vision", 3, department="lab", limit={"gpu": 4, "memory": "8Gi"}, weight={"gpu": 2}, priority=7
    )
    assert (made["kind"], made["parent"], made["priority"]) == ("project", "lab", 7)
    assert made["quota"] == {"gpu": 3.0}
    assert made["limit"] == {"gpu": 4.0, "memory": float(8 << 30)}
    lab = await stands.get("departments/lab")
    assert lab["quota"] == {"gpu": 3.0}, "without a gpu quota it has what is below it"
    await stands.project("speech", 1, department="lab")
    assert (await stands.get("departments/lab"))["quota"] == {"gpu": 4.0}
    await stands.admin.delete("/api/v1/projects/speech")
    assert (await stands.get("departments/lab"))["quota"] == {"gpu": 3.0}
    await stands.project("vision", 1)
    assert (await stands.get("projects/vision"))["parent"] is None
    assert (await stands.get("departments/lab"))["quota"] == {"gpu": 0.0}


async def test_a_department_follows_those_below_it_only_if_it_states_no_quota(stands: Standing) -> None:
    put = stands.admin.put
    await put("/api/v1/departments/stated", json={"name": "stated", "quota": {"gpu": 2}})
    await put("/api/v1/departments/follows", json={"name": "follows"})
    for name in ("stated", "follows"):
        await stands.project(f"{name}-a", 2, department=name)
        await stands.project(f"{name}-b", 1, department=name)
    rows = {row["name"]: row for row in (await stands.get("departments"))["items"]}
    assert (rows["stated"]["quota"], rows["stated"]["follows"]) == ({"gpu": 2.0}, False)
    assert (rows["follows"]["quota"], rows["follows"]["follows"]) == ({"gpu": 3.0}, True)


async def test_what_is_held_and_shared_is_shown_up_the_tree(stands: Standing) -> None:
    await stands.admin.put("/api/v1/departments/lab", json={"name": "lab"})
    await stands.project("vision", 2, department="lab")
    await stands.submit(project="vision", name="runs", gpus=2)
    await stands.until("runs", "running")
    for path in ("projects/vision", "departments/lab"):
        row = await stands.get(path)
        assert (row["allocated"]["gpu"], row["share"]["gpu"], row["running"]) == (2.0, 2.0, 1)
    status = await stands.get("status")
    assert (status["devices"], status["allocated"], status["running"], status["virtual"]) == (4, 2.0, 1, True)
    nodes = await stands.get("nodes")
    devices = nodes["items"][0]["devices"]
    assert [device["workloads"] for device in devices].count(["runs"]) == 2


async def test_what_would_be_no_tree_is_refused(stands: Standing) -> None:
    put = stands.admin.put
    await put("/api/v1/departments/a", json={"name": "a"})
    await put("/api/v1/departments/b", json={"name": "b", "parent": "a"})
    refused = {
        "departments/a": {"name": "a", "parent": "b"},
        "projects/x": {"name": "x", "department": "nobody"},
        "projects/a": {"name": "a"},
        "departments/default": {"name": "default"},
        "projects/y": {"name": "z"},
        "projects/a b": {"name": "a b"},
        "projects/w": {"name": "w", "quota": {"wings": 1}},
        "projects/v": {"name": "v", "quota": {"gpu": 3}, "limit": {"gpu": 2}},
        "projects/u": {"name": "u", "created": "-1h"},
        "projects/t": {"name": "t", "quota": {"gpu": "many"}},
    }
    for path, body in refused.items():
        reply = await put(f"/api/v1/{path}", json=body)
        assert reply.status_code == 422, (path, reply.text)
        assert reply.json()["errors"], path


async def test_amounts_finer_than_their_unit_are_refused_and_sums_of_floats_are_not(stands: Standing) -> None:
    body = {"name": "x", "quota": {"gpu": 0.0001, "memory": "1500m"}, "limit": {"cpu": "100u"}}
    for reply in (
        await stands.admin.put("/api/v1/projects/x", json=body),
        await stands.admin.post("/api/v1/projects/x/preview", json=body),
    ):
        assert reply.status_code == 422
        assert {error["field"]: error["message"] for error in reply.json()["errors"]} == {
            "quota.gpu": "quota.gpu: 0.0001 is finer than 0.001, the smallest share of a device; write 0.001",
            "quota.memory": "quota.memory: '1500m' is not a whole number of bytes; write 2, or a unit, "
            "such as 1.5Gi",
            "limit.cpu": "limit.cpu: '100u' is finer than 0.001, the smallest share of a core; write 0.001",
        }
    made = await stands.project("x", 0.1 + 0.2, limit={"gpu": "0.30000000000000004"})
    assert (made["quota"], made["limit"]) == ({"gpu": 0.3}, {"gpu": 0.3})


async def test_what_holds_something_isnt_deleted(stands: Standing) -> None:
    await stands.project("vision", 2)
    await stands.submit(project="vision", name="runs")
    assert (await stands.admin.delete("/api/v1/projects/vision")).status_code == 409
    assert (await stands.admin.delete("/api/v1/departments/vision")).status_code == 404
    await stands.admin.post("/api/v1/workloads/runs/stop")
    await stands.until("runs", "stopped")
    assert (await stands.admin.delete("/api/v1/projects/vision")).status_code == 200
    assert (await stands.admin.get("/api/v1/projects/vision")).status_code == 404
    reply = await stands.admin.post("/api/v1/workloads", json={"project": "vision", "command": ["true"]})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["field"] == "project"


async def test_a_page_of_projects(stands: Standing) -> None:
    for at in range(4):
        await stands.project(f"p{at}", 0)
    first = await stands.get("projects", limit=3)
    rest = await stands.get("projects", limit=3, after=first["next"])
    names = [row["name"] for row in first["items"] + rest["items"]]
    assert (sorted(names), first["total"], rest["next"]) == (["default", "p0", "p1", "p2", "p3"], 5, None)


async def test_preview_of_a_quota_tells_the_next_decision_and_changes_nothing(stands: Standing) -> None:
    await stands.project("owner", 0)
    await stands.project("borrower", 0)
    for index in range(4):
        await stands.submit("sleep", "3600", project="borrower", name=f"borrows-{index}")
        await stands.until(f"borrows-{index}", "running")
    await stands.submit("sleep", "3600", project="owner", name="waits", gpus=4)
    await stands.until_true(lambda row: row["reason"], "workloads/waits")
    entry = {"name": "owner", "quota": {"gpu": 4}}
    answer = await stands.admin.post("/api/v1/projects/owner/preview", json=entry)
    assert answer.status_code == 200, answer.text
    seen = answer.json()
    assert [(row["workload"], row["gpus"]) for row in seen["starts"]] == [("waits", 4.0)]
    assert {row["project"] for row in seen["stops"]} == {"borrower"}
    assert len(seen["stops"]) == 4
    assert all("waits" in row["sentence"] for row in seen["stops"]), seen
    assert (await stands.get("workloads/waits"))["status"] == "pending"
    assert (await stands.get("projects/owner"))["quota"]["gpu"] == 0
    same = await stands.admin.post(
        "/api/v1/projects/owner/preview", json={"name": "owner", "quota": {"gpu": 0}}
    )
    assert same.json()["stops"] == same.json()["starts"] == []
    assert (await stands.admin.put("/api/v1/projects/owner", json=entry)).status_code == 200
    await stands.until("waits", "running")
    stopped = {row["workload"] for row in seen["stops"]}
    assert {
        name
        for name in (f"borrows-{at}" for at in range(4))
        if (await stands.get(f"workloads/{name}"))["status"] == "pending"
    } == stopped
    member = await stands.member("owner")
    assert (await member.post("/api/v1/projects/owner/preview", json=entry)).status_code == 403
    wrong = await stands.admin.post(
        "/api/v1/projects/owner/preview", json={"name": "owner", "department": "none"}
    )
    assert wrong.status_code == 422


async def test_change_of_settings_that_others_have_changed_since_is_refused(stands: Standing) -> None:
    await stands.project("vision", 1)
    read = await stands.get("projects/vision")
    path, version = "/api/v1/projects/vision", {"version": read["version"]}
    first = await stands.admin.put(path, json={"name": "vision", "quota": {"gpu": 2}}, params=version)
    assert first.status_code == 200
    assert first.json()["version"] != read["version"]
    second = await stands.admin.put(path, json={"name": "vision", "priority": 7}, params=version)
    assert (second.status_code, second.json()["detail"]) == (
        409,
        "The project vision was changed meanwhile: read it again, and repeat your change.",
    )
    assert (await stands.get("projects/vision"))["quota"] == {"gpu": 2.0}
    await stands.admin.delete(path)
    gone = await stands.admin.put(path, json={"name": "vision"}, params=version)
    assert (gone.status_code, gone.json()["detail"]) == (409, "The project vision was deleted meanwhile.")


async def test_version_stays_while_workloads_come_and_go(stands: Standing) -> None:
    await stands.project("vision", 1)
    before = (await stands.get("projects/vision"))["version"]
    await stands.submit(project="vision", name="runs", gpus=1)
    await stands.until("runs", "running")
    assert (await stands.get("projects/vision"))["version"] == before


@pytest.mark.parametrize("kind", ["project", "department"])
async def test_of_two_that_create_one_name_the_second_is_refused(stands: Standing, kind: str) -> None:
    async def create(gpus: int) -> tuple[int, str]:
        body = {"name": "race", "quota": {"gpu": gpus}}
        answer = await stands.admin.put(f"/api/v1/{kind}s/race", json=body, params={"version": "new"})
        return answer.status_code, answer.json().get("detail", "")

    answers = await asyncio.gather(create(1), create(2))
    assert sorted(answers) == [(201, ""), (409, f"There is a {kind} race already: write another name.")]
    made = 1 if answers[0][0] == 201 else 2
    assert (await stands.get(f"{kind}s/race"))["quota"] == {"gpu": float(made)}


async def test_department_follows_its_projects_in_the_same_write(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash or a full disk after the first write leaves no quota that follows others wrongly."""
    await stands.admin.put("/api/v1/departments/lab", json={"name": "lab"})
    await stands.project("vision", 3, department="lab")
    store, writes = stands.pool.store, 0
    write = store.set_queue

    def first_write_alone(*args: Any, **more: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes > 1:
            raise StoreFailed("The disk is full: nothing was changed.", is_full=True)
        return write(*args, **more)

    monkeypatch.setattr(store, "set_queue", first_write_alone)
    await stands.project("vision", 1, department="lab")
    assert {each.name: each.quota for each in store.queues()}["lab"] == {"gpu": 1000}
    assert (await stands.admin.delete("/api/v1/projects/vision")).status_code == 200
    assert {each.name: each.quota for each in store.queues()}["lab"] == {"gpu": 0}
    assert (await stands.get("departments/lab"))["quota"] == {"gpu": 0.0}
