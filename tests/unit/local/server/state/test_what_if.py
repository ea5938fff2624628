"""The pool's own history is exported, and replayed with alternatives."""

import asyncio
import csv
import time
from pathlib import Path

import pytest
from tests.unit.local.server.in_process_server import Standing, standing
from tests.unit.store.fixtures import opened
from tests.unit.store.week import record_week

from weir.api.what_if import WhatIfRow
from weir.control.clock import Clock
from weir.local.server.state import what_if_runs

ASKED = {"alternatives": ["add-nodes=2x8", "quota.vision=2"], "since": "30d", "seeds": 2}


async def test_history_is_replayed_with_more_nodes_and_another_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if_runs, "NICE", 0)  # else other tests could starve it
    home = tmp_path / "home"
    with opened(home) as store:
        record_week(store, time.time() - 60)
    async with standing(home) as stands:
        made = await stands.admin.post("/api/v1/what-if", json=ASKED)
        assert made.status_code == 202, made.text
        id_ = made.json()["id"]
        assert (await stands.admin.post("/api/v1/what-if", json=ASKED)).status_code == 409
        found = await stands.until_true(
            lambda row: row["state"] != "running", f"what-if/{id_}", within_s=600.0
        )
        assert (found["state"], found["sentence"]) == ("done", "")
        names = [each["name"] for each in found["result"]["alternatives"]]
        assert names == ["as it is", *ASKED["alternatives"]]
        assert found["result"]["jobs"] == found["jobs"] == 60
        assert found["result"]["verdict"].endswith(".")
        member = await stands.member("vision")
        assert (await member.get(f"/api/v1/what-if/{id_}")).status_code == 403
        bad = {**ASKED, "alternatives": ["policy=/etc/passwd"]}
        assert (await stands.admin.post("/api/v1/what-if", json=bad)).status_code == 422
        await exported(stands)
        again = (await stands.admin.post("/api/v1/what-if", json={**ASKED, "seeds": 10})).json()["id"]
        gone = await stands.admin.delete(f"/api/v1/what-if/{again}")
        assert gone.json()["state"] == "cancelled"
        assert (await stands.admin.get(f"/api/v1/what-if/{again}")).status_code == 404
        async with asyncio.timeout(120):
            while list((home / "what-if").glob("*.run")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        wrong = {**ASKED, "alternatives": ["quota.nowhere=2"]}
        id_ = (await stands.admin.post("/api/v1/what-if", json=wrong)).json()["id"]
        found = await stands.until_true(lambda row: row["state"] != "running", f"what-if/{id_}")
        assert found["state"] == "failed"
        assert "there is no project nowhere" in found["sentence"]
    async with standing(home) as stands:
        rows = await stands.get("what-if")
        assert {row["state"] for row in rows["items"]} == {"done", "failed"}


async def test_times_of_a_replay_are_of_the_wall_clock(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "what-if"
    folder.mkdir(parents=True)
    row = WhatIfRow(
        id="0123456789ab", user="ann", at_s=90.0, since_s=60.0, alternatives=[], seeds=1, state="done"
    )
    (folder / f"{row.id}.json").write_text(row.model_dump_json())
    async with standing(tmp_path / "home", clock=Clock(starts_s=1000.0, wall=lambda: 5000.0)) as stands:
        found = await stands.get(f"what-if/{row.id}")
        assert (found["at_s"], found["since_s"]) == pytest.approx((4090.0, 4060.0), abs=60.0)
        assert (await stands.get("what-if"))["items"] == [found]


async def exported(stands: Standing) -> None:
    whole = list(
        csv.DictReader((await stands.admin.get("/api/v1/history/trace?since=30d")).text.splitlines())
    )
    member = await stands.member("speech", user="eve")
    part = list(csv.DictReader((await member.get("/api/v1/history/trace?since=30d")).text.splitlines()))
    assert {row["project"] for row in whole} == {"vision", "speech"}
    assert {row["project"] for row in part} == {"speech"}
    assert len(whole) == 60
    assert [float(row["submitted"]) for row in whole] == sorted(float(row["submitted"]) for row in whole)
    assert {row["gpus"] for row in whole} == {"1"}
