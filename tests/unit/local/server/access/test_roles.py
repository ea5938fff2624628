"""Roles over REST: what tokens of viewers, members and leads can do, and quotas that a lead divides."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import SMALL, Standing, standing

from weir.local.server.access.account_mode import AccountMode, PoolAccounts
from weir.local.server.access.unix_accounts import UnixAccount, UnixAccounts

SECRET = "in-the-output"


async def test_member_acts_on_own_work_alone(stands: Standing) -> None:
    await stands.project("team", 2)
    mia = await stands.member("team")
    ben = await stands.member("team", user="ben")
    lead = await stands.member("team", user="ann", role="lead")
    viewer = await stands.member("team", user="vic", role="viewer")
    body = {
        "project": "team",
        "command": ["sh", "-c", f"echo {SECRET}; sleep 3600"],
        "name": "job",
        "env": {"KEY": "hidden-value"},
    }
    assert (await viewer.post("/api/v1/workloads", json=body)).status_code == 403
    assert (await mia.post("/api/v1/workloads", json=body)).status_code == 201
    await stands.until("job", "running")
    for other in (ben, viewer):
        for verb in ("stop", "suspend", "resume"):
            refused = await other.post(f"/api/v1/workloads/job/{verb}")
            assert refused.status_code == 403, verb
            assert "you can't change work of others: its leads can." in refused.json()["detail"]
        assert (await other.post("/api/v1/workloads/job/priority", json={"priority": 1})).status_code == 403
        assert (await other.get("/api/v1/workloads/job/logs")).status_code == 403
        detail = (await other.get("/api/v1/workloads/job")).json()
        assert detail["env"] == {"KEY": "(hidden)"}
    async with asyncio.timeout(120):
        while SECRET not in (await lead.get("/api/v1/workloads/job/logs")).text:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (await lead.get("/api/v1/workloads/job")).json()["env"] == {"KEY": "(hidden)"}
    assert (await lead.post("/api/v1/workloads/job/suspend")).status_code == 200
    assert (await ben.post("/api/v1/workloads/job/resume")).status_code == 403
    assert (await mia.post("/api/v1/workloads/job/resume")).status_code == 200
    assert (await mia.post("/api/v1/workloads/job/stop")).status_code == 200
    lines = (await stands.get("audit", outcome="refused"))["items"]
    assert len([line for line in lines if line["user"] in ("ben", "vic")]) >= 11


async def test_projects_to_submit_to_are_those_of_members_and_leads(stands: Standing) -> None:
    for name in ("nlp", "team", "vision"):
        await stands.project(name, 1)
    mia = await stands.member("nlp", "team")
    viewer = await stands.member("team", user="vic", role="viewer")
    lead = await stands.member("vision", user="ann", role="lead")
    every = ["default", "nlp", "team", "vision"]
    for person, names in ((mia, ["nlp", "team"]), (viewer, []), (lead, ["vision"]), (stands.admin, every)):
        found = (await person.get("/api/v1/projects", params={"may_submit": "true"})).json()
        assert (sorted(row["name"] for row in found["items"]), found["total"]) == (names, len(names))
        assert (await person.get("/api/v1/projects")).json()["total"] == len(every)


async def test_secrets_are_changed_by_who_set_them(stands: Standing) -> None:
    await stands.project("team", 2)
    mia = await stands.member("team")
    ben = await stands.member("team", user="ben")
    lead = await stands.member("team", user="ann", role="lead")
    path = "/api/v1/projects/team/secrets/KEY"
    assert (await mia.put(path, json={"value": "a"})).status_code == 200
    assert (await ben.put(path, json={"value": "b"})).status_code == 403
    assert (await ben.delete(path)).status_code == 403
    assert (await lead.put(path, json={"value": "c"})).status_code == 200
    assert (await mia.delete(path)).status_code == 403, "it is the lead's now"
    assert (await lead.delete(path)).status_code == 204


ACCOUNTS = {
    uid: UnixAccount(name, uid, f"/home/{name}", frozenset(groups))
    for uid, name, groups in (
        (1001, "mia", ("mia", "staff")),
        (1002, "ben", ("ben",)),
        (1003, "ann", ("ann",)),
        (1004, "root2", ("weir-admin",)),
    )
}
MIA, BEN, ANN, ADMIN = ACCOUNTS
LAB = {"name": "lab", "quota": {"gpu": 3}}


def look_up(which: int | str) -> UnixAccount | None:
    return next((each for each in ACCOUNTS.values() if which in (each.uid, each.name)), None)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Standing]:
    """A pool for everyone of a machine with four accounts."""
    accounts = PoolAccounts(
        mode=AccountMode.UNIX_ACCOUNTS, owner="weir", owner_uid=999, unix=UnixAccounts(look_up)
    )
    async with standing(tmp_path / "home", accounts=accounts) as stands:
        yield stands


async def test_lead_divides_what_the_department_has(machine: Standing) -> None:
    admin, lead = machine.peer(ADMIN), machine.peer(ANN)
    assert (await admin.put("/api/v1/departments/lab", json=LAB)).status_code == 201
    other = {"name": "other", "quota": {"gpu": 1}}
    assert (await admin.put("/api/v1/departments/other", json=other)).is_success
    await machine.project("one", 2, department="lab")
    await machine.project("two", 1, department="lab", max_priority=60)

    async def sets(name: str, gpus: Any, **more: Any) -> tuple[int, str]:
        body = {"name": name, "quota": {"gpu": gpus}, "department": "lab", **more}
        answer = await lead.put(f"/api/v1/projects/{name}", json=body)
        return answer.status_code, answer.json().get("detail", "")

    assert (await sets("one", 1))[0] == 403
    added = await admin.put("/api/v1/departments/lab/members/ann", json={"role": "lead"})
    assert added.json() == {"member": "ann", "role": "lead", "scope": "lab"}
    assert (await sets("one", 1))[0] == 200
    assert (await sets("two", 2, max_priority=60))[0] == 200
    status, detail = await sets("one", 2)
    assert status == 422
    assert "quota.gpu: lab has 1 left for one; write that or less" in detail
    assert (await sets("three", 1))[0] == 422
    assert (await sets("three", 0))[0] == 201
    await lead.put("/api/v1/projects/three", json={"name": "three", "department": "lab"})
    assert machine.pool.inventory.queues_by_name["three"].quota["gpu"] == 0, "the lab has no more"
    for more, words in (
        ({"max_priority": 61}, "raise the highest priority"),
        ({"max_priority": 60, "max_priority_of": {"ann": 99}}, "raise the highest priority"),
        ({"max_priority": 60, "priority": 200}, "change its priority"),
        ({"max_priority": 60, "times": {"max_runtime": "9d"}}, "change its time limits"),
    ):
        status, detail = await sets("two", 2, **more)
        assert status == 403, more
        assert words in detail
    for path, body in (
        ("projects/one", {"name": "one", "quota": {"gpu": 1}, "department": "other"}),
        ("projects/one", {"name": "one", "quota": {"gpu": 1}}),
        ("projects/new", {"name": "new", "quota": {"gpu": 0}}),
        ("departments/lab", {"name": "lab", "quota": {"gpu": 4}}),
        ("departments/other", {"name": "other", "quota": {"gpu": 1}, "parent": "lab"}),
    ):
        assert (await lead.put(f"/api/v1/{path}", json=body)).status_code == 403, (path, body)
    for path in ("projects/default", "departments/lab", "projects/gone"):
        assert (await lead.delete(f"/api/v1/{path}")).status_code == 403, path
    assert (await lead.delete("/api/v1/projects/three")).status_code == 200


async def test_members_are_users_groups_and_everyone(machine: Standing) -> None:
    admin, mia, ben = machine.peer(ADMIN), machine.peer(MIA), machine.peer(BEN)
    await machine.project("team", 1)
    submission = {"project": "team", "command": ["true"], "pods": [{"gpus": 1, **SMALL}]}
    for who in (mia, ben):
        refused = await who.post("/api/v1/workloads", json=submission)
        assert refused.json()["detail"] == (
            "You have no role in team: its lead or an administrator adds you."
        )
        assert (await who.get("/api/v1/projects/team/members")).status_code == 403
        in_default = await who.post("/api/v1/workloads", json={**submission, "project": "default"})
        assert in_default.status_code == 201, "everyone may use the first project"
    path = "/api/v1/projects/team/members"
    for subject, status in (
        ("@root", 200),
        ("mia", 200),
        ("nobody-of-that-name", 422),
        ("@no-such-group", 422),
        ("-r", 422),
    ):
        answer = await admin.put(f"{path}/{subject}", json={"role": "viewer"})
        assert answer.status_code == status, subject
    assert (await mia.post("/api/v1/workloads", json=submission)).status_code == 403, "as a viewer"
    assert (await admin.put(f"{path}/mia", json={"role": "lead"})).status_code == 200
    assert (await admin.put(f"{path}/mia", json={"role": "admin"})).status_code == 422
    assert (await mia.post("/api/v1/workloads", json=submission)).status_code == 201
    assert (await ben.put(f"{path}/ben", json={"role": "lead"})).status_code == 403
    assert (await mia.put(f"{path}/ben", json={"role": "member"})).status_code == 200
    assert (await ben.post("/api/v1/workloads", json=submission)).status_code == 201
    listed = (await ben.get(path)).json()["items"]
    assert [(row["member"], row["role"]) for row in listed] == [
        ("@root", "viewer"),
        ("ben", "member"),
        ("mia", "lead"),
    ]
    assert (await mia.delete(f"{path}/ben")).status_code == 204
    assert (await mia.delete(f"{path}/ben")).status_code == 404
    assert (await ben.post("/api/v1/workloads", json=submission)).status_code == 403
    await machine.until_true(
        lambda page: "mia removes ben from team." in [event["sentence"] for event in page["items"]],
        "events?project=team&kind=queue",
    )


async def test_new_project_of_a_name_begins_without_members(machine: Standing) -> None:
    admin, ben = machine.peer(ADMIN), machine.peer(BEN)
    await machine.project("team", 1)
    await admin.put("/api/v1/projects/team/members/ben", json={"role": "lead"})
    assert (await ben.get("/api/v1/projects/team/members")).status_code == 200
    assert (await admin.delete("/api/v1/projects/team")).status_code == 200
    await machine.project("team", 1)
    assert (await ben.get("/api/v1/projects/team/members")).status_code == 403
    assert [each.scope for each in machine.pool.store.memberships] == ["default"]


async def test_stream_ends_when_the_role_does(machine: Standing) -> None:
    """The person of an open stream is looked up again at each message."""
    admin = machine.peer(ADMIN)
    await machine.project("team", 1)
    await admin.put("/api/v1/projects/team/members/ben", json={"role": "member"})
    memberships = machine.pool.memberships
    before = memberships.roles_of("ben", frozenset())
    assert memberships.roles_of("ben", frozenset()) is before
    await admin.delete("/api/v1/projects/team/members/ben")
    assert memberships.roles_of("ben", frozenset()) != before


async def test_pools_without_unix_accounts_say_what_to_do(stands: Standing, tmp_path: Path) -> None:
    answer = await stands.admin.put("/api/v1/projects/default/members/mia", json={"role": "member"})
    assert answer.status_code == 409
    assert "weir token create" in answer.json()["detail"]
    async with standing(tmp_path / "own", accounts=PoolAccounts(owner="mia")) as personal:
        answer = await personal.admin.put("/api/v1/projects/default/members/ben", json={"role": "member"})
        assert answer.status_code == 409
        assert "sudo weir install" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("accounts", "words"),
    [
        (PoolAccounts(owner="mia"), "This pool is personal: it serves mia alone."),
        (PoolAccounts(mode=AccountMode.SHARED_ACCOUNT), "`weir token create USER -p default --role ROLE`"),
        (
            PoolAccounts(mode=AccountMode.SHARED_ACCOUNT, oidc=True),
            "`weir project members add default oidc:USER` adds a person of the identity provider",
        ),
        (PoolAccounts(mode=AccountMode.UNIX_ACCOUNTS), None),
    ],
)
async def test_list_of_members_says_how_people_get_a_role(
    tmp_path: Path, accounts: PoolAccounts, words: str | None
) -> None:
    async with standing(tmp_path / "home", accounts=accounts) as stands:
        note = (await stands.get("projects/default/members"))["note"]
        assert (note is None) if words is None else words in note
