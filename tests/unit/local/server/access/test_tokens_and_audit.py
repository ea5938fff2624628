"""Tokens that expire, are rotated and lose their project; and the log of who did what."""

import asyncio
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.local.server.in_process_server import Standing, standing

from weir.control.clock import Clock
from weir.local.records import persistent_clock, pod_files
from weir.local.server.access.audit import FILES_KEPT, REFUSED_AT_ONCE, AuditLog
from weir.local.server.access.auth import Authenticator
from weir.store.projects.tokens import token_hash

DAY_S = 86400.0


def lines(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]


async def made(stands: Standing, **words: Any) -> dict[str, Any]:
    answer = await stands.admin.post("/api/v1/tokens", json={"user": "mia", "projects": ["default"], **words})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_token_has_a_label_an_expiry_and_a_last_use(stands: Standing) -> None:
    await made(stands, label="laptop", expires="30d")
    token = await made(stands, label="ci")
    before = (await stands.get("tokens"))["items"]
    assert [(row["label"], row["expires_s"] is None, row["used_s"]) for row in before] == [
        ("laptop", False, None),
        ("ci", True, None),
    ]
    assert before[0]["expires_s"] - before[0]["created_s"] == pytest.approx(30 * DAY_S, abs=60)
    assert (await stands.asks(token["token"]).get("/api/v1/status")).status_code == 200
    after = (await stands.get("tokens"))["items"]
    assert [row["used_s"] is None for row in after] == [True, False]
    stands.pool.store.tokens.write_uses()
    await asyncio.to_thread(stands.pool.store.tokens.make, "eve", "member", ["default"])  # behind it in line
    assert (await stands.get("tokens"))["items"][1]["used_s"] is not None


async def test_expiry_that_cant_be_is_refused(stands: Standing) -> None:
    for expires in ("0s", "-1d", "soon", "11y", 1e300, "4000d"):
        body = {"user": "mia", "projects": ["default"], "expires": expires}
        answer = await stands.admin.post("/api/v1/tokens", json=body)
        assert answer.status_code == 422, expires
        assert "expires" in answer.json()["detail"]


async def test_token_expires_at_its_time_though_the_machine_was_off_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_s, home = 0.0, tmp_path / "home"
    home.mkdir()

    def resumed() -> Clock:
        return persistent_clock.resume(home, wall=lambda: time.time() + off_s)

    async with standing(home, clock=resumed()) as stands:
        short, long = await made(stands, expires="20d"), await made(stands, expires="40d")
    off_s = 30 * DAY_S
    monkeypatch.setattr(pod_files, "_boot", "another")
    async with standing(home, clock=resumed()) as stands:
        refused = await stands.asks(short["token"]).get("/api/v1/status")
        assert refused.status_code == 401
        assert "expired" in refused.json()["detail"]
        assert (await stands.asks(long["token"]).get("/api/v1/status")).status_code == 200
        shown = {row["id"]: row["expires_s"] for row in (await stands.get("tokens"))["items"]}
        for token in (short, long):
            assert shown[token["id"]] == pytest.approx(token["expires_s"], abs=60.0)
        fresh = await made(stands, expires="1d")
        assert fresh["expires_s"] == pytest.approx(time.time() + off_s + DAY_S, abs=60.0)
        off_s = 0.0  # the clock was ahead
        assert (await stands.asks(short["token"]).get("/api/v1/status")).status_code == 200
        refused = await stands.asks(fresh["token"]).get("/api/v1/status")
        assert "was made while the clock of the machine was ahead" in refused.json()["detail"]


async def test_expired_token_is_refused_with_its_date(stands: Standing) -> None:
    token = await made(stands, expires="1h")
    row = stands.pool.store.tokens.with_hash(token_hash(token["token"]))
    assert row is not None
    assert row.expires_s is not None
    now_s = row.expires_s - 1.0
    authenticator = Authenticator(
        stands.token,
        stands.pool.store.tokens,
        lambda: now_s,
        accounts=stands.pool.accounts,
        roles=stands.pool.memberships.roles_of,
    )
    assert authenticator.person_with(token_hash(token["token"])).user == "mia"
    now_s = row.expires_s
    with pytest.raises(Exception, match="expired at 20"):
        authenticator.person_with(token_hash(token["token"]))


async def test_rotated_token_has_one_text(stands: Standing) -> None:
    first = await made(stands, label="laptop", expires="30d")
    again = await stands.admin.post(f"/api/v1/tokens/{first['id']}/rotate", json={})
    assert again.status_code == 200
    second = again.json()
    assert (second["id"], second["label"], second["projects"]) == (first["id"], "laptop", ["default"])
    assert (await stands.asks(first["token"]).get("/api/v1/status")).status_code == 401
    own = await stands.asks(second["token"]).post("/api/v1/tokens/own/rotate", json={"expires": "300d"})
    assert own.status_code == 200
    assert own.json()["expires_s"] <= second["expires_s"]  # its owner can't make it last
    assert (await stands.asks(second["token"]).get("/api/v1/status")).status_code == 401
    mia = stands.asks(own.json()["token"])
    assert (await mia.get("/api/v1/status")).status_code == 200
    assert (await mia.post(f"/api/v1/tokens/{first['id']}/rotate", json={})).status_code == 403
    assert (await stands.admin.post("/api/v1/tokens/own/rotate", json={})).status_code == 409
    assert (await stands.admin.post("/api/v1/tokens/999/rotate", json={})).status_code == 404


async def test_token_of_a_deleted_project_isnt_one_of_its_successor(stands: Standing) -> None:
    """Nor does a new member see workloads of the former project."""
    await stands.project("vision", 1)
    mia = await stands.member("vision", "default")
    await stands.submit("sh", "-c", "echo of the former", project="vision", name="old", env={"KEY": "former"})
    await stands.until("old", "succeeded")
    deleted = (await stands.admin.delete("/api/v1/projects/vision")).json()
    assert [row["user"] for row in deleted["tokens"]] == ["mia"]
    await stands.project("vision", 1)
    body = {"project": "vision", "command": ["true"]}
    assert (await mia.post("/api/v1/workloads", json=body)).status_code == 403
    assert (await mia.post("/api/v1/workloads", json={**body, "project": "default"})).status_code == 201
    ben = await stands.member("vision", user="ben")
    new = (await ben.post("/api/v1/workloads", json=body)).json()["name"]
    await stands.until_true(lambda page: page["items"], f"events?workload={new}")
    assert (await ben.get("/api/v1/workloads/old")).json()["env"] is None
    assert (await ben.get("/api/v1/workloads/old/logs")).status_code == 403
    assert (await ben.post("/api/v1/workloads/old/rerun")).status_code == 403
    reported = (await ben.get("/api/v1/events", params={"limit": 1000})).json()["items"]
    assert {event["workload"] for event in reported} == {new, None}
    with pytest.raises(Exception, match="no project gone"):
        await asyncio.to_thread(stands.pool.store.tokens.make, "eve", "member", ["gone"])


async def test_stream_ends_with_the_token_it_was_asked_with(stands: Standing) -> None:
    token = await made(stands)
    received: list[str] = []

    async def listen() -> None:
        answer = await stands.asks(token["token"]).get("/api/v1/stream")  # this transport answers at the end
        received.append(answer.text)

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(120):
        while not stands.pool.stream.readers:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await stands.admin.delete(f"/api/v1/tokens/{token['id']}")
    await stands.submit("true", name="afterwards")
    async with asyncio.timeout(120):
        await listening
    assert "afterwards" not in received[0]


async def test_what_changes_the_pool_or_is_refused_is_written_down(stands: Standing) -> None:
    token = await made(stands, label="laptop")
    mia = stands.asks(token["token"])
    value = "hunter2-in-the-environment"
    body = {"project": "default", "command": ["true"], "name": "job", "env": {"KEY": value}}
    assert (await mia.post("/api/v1/workloads", json=body)).status_code == 201
    assert (await mia.get("/api/v1/workloads")).status_code == 200
    assert (await mia.get("/api/v1/tokens")).status_code == 403
    assert (await stands.asks("x" * 40).get("/api/v1/status")).status_code == 401
    await stands.admin.post(f"/api/v1/tokens/{token['id']}/rotate", json={})
    gone = await stands.admin.delete(f"/api/v1/tokens/{token['id']}")
    reply = lines(stands.pool.home)
    found = [
        (line["user"] == "mia", line["method"], line["path"], line["status"], line["outcome"])
        for line in reply
    ]
    number = token["id"]
    assert found == [
        (False, "POST", "/api/v1/tokens", 201, "allowed"),
        (True, "POST", "/api/v1/workloads", 201, "allowed"),
        (True, "GET", "/api/v1/tokens", 403, "refused"),
        (False, "GET", "/api/v1/status", 401, "refused"),
        (False, "POST", f"/api/v1/tokens/{number}/rotate", 200, "allowed"),
        (False, "DELETE", f"/api/v1/tokens/{number}", 204, "allowed"),
    ]
    assert reply[0]["details"]["token"] == number
    assert reply[1]["details"]["workload"] == "job"
    assert (reply[1]["token"], reply[1]["label"]) == (number, "laptop")
    assert reply[1]["source"].startswith("127.0.0.1:")
    assert gone.headers["x-request-id"] == reply[5]["request"]
    assert len({line["request"] for line in reply}) == len(reply)
    written = (stands.pool.home / "audit.jsonl").read_text()
    for secret in (value, token["token"], stands.token, "x" * 40):
        assert secret not in written
    assert stat.S_IMODE((stands.pool.home / "audit.jsonl").stat().st_mode) == 0o600
    page = await stands.get("audit", outcome="refused")
    assert [row["status"] for row in page["items"]] == [401, 403]
    assert (await (await stands.member("default")).get("/api/v1/audit")).status_code == 403


async def test_audit_log_that_cant_be_written_is_seen_and_costs_no_request(stands: Standing) -> None:
    path = stands.pool.home / "audit.jsonl"
    await stands.submit("true", name="first")
    path.unlink()
    os.mkfifo(path)
    assert (await stands.submit("true", name="second"))["name"] == "second"
    ready = await stands.admin.get("/readyz")
    assert ready.status_code == 503
    assert "audit log" in ready.json()["why"]
    assert (await stands.admin.get("/readyz")).status_code == 503
    path.unlink()
    await stands.until_ready()  # without a request that is written down
    (line,) = lines(stands.pool.home)
    assert line["details"] == {"act": "audit log written again", "lost_before": 1}


def test_refused_floods_are_few_lines_that_say_how_many_more_there_were(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path)
    for _ in range(5000):
        audit.write(method="GET", path="/api/v1/status", status=401, outcome="refused")
    audit.write(user="mia", token=1, method="GET", path="/api/v1/tokens", status=403, outcome="refused")
    audit.write(user="ada", method="DELETE", path="/api/v1/tokens/1", status=204)
    reply = lines(tmp_path)
    assert REFUSED_AT_ONCE <= len(reply) - 2 <= REFUSED_AT_ONCE + 30
    assert [line["user"] for line in reply[-2:]] == ["mia", "ada"]  # others' lines aren't lost in it


def test_audit_log_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path, file_bytes_max=2000)
    for at in range(200):
        audit.write(user=f"user {at}", method="POST", path="\n\x1b[2J" + "x" * 5000, status=201)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == FILES_KEPT
    assert sum((tmp_path / name).stat().st_size for name in files) <= FILES_KEPT * 2000
    newest = audit.read(5)
    assert [line["user"] for line in newest] == [f"user {at}" for at in range(199, 194, -1)]
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'not json\n[1]\n"x"\n')
    assert [line["user"] for line in audit.read(1)] == ["user 199"]


def test_line_after_one_that_a_crash_cut_short_is_read(tmp_path: Path) -> None:
    for user, cut in (("ada", 0), ("mia", 10), ("noa", 0)):
        AuditLog(tmp_path).write(user=user, method="POST", path="/api/v1/workloads", status=201)
        path = tmp_path / "audit.jsonl"
        path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])
    assert [line["user"] for line in AuditLog(tmp_path).read(9)] == ["noa", "ada"]


async def test_audit_log_with_strange_lines_is_answered(stands: Standing) -> None:
    (stands.pool.home / "audit.jsonl").write_text('{"at": 5, "status": "x"}\n{"user": []}\n')
    await stands.submit("true", name="job")
    answer: httpx.Response = await stands.admin.get("/api/v1/audit")
    assert answer.status_code == 200
    assert len(answer.json()["items"]) == 1
