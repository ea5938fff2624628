"""Sweeps that are over are deleted with their records, and with their checkpoints if a person asks for it."""

import asyncio
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select, text
from tests.unit.local.server.in_process_server import SMALL, Standing
from tests.unit.local.server.sweep_cases import begin, let_go, until_over

from weir.store.workloads.sweeps import sweep_results, sweep_trials, sweeps


def counts(stands: Standing) -> list[int]:
    """Return the numbers of sweeps, of trials and of results that are written down."""

    def work(connection: Connection) -> list[int]:
        tables = (sweeps, sweep_trials, sweep_results)
        return [connection.execute(select(func.count()).select_from(each)).scalar_one() for each in tables]

    return stands.pool.store._database.read(work)


def saved(home: Path, rows: list[dict[str, Any]]) -> list[int]:
    """Return the trials whose checkpoints are there."""
    return [row["number"] for row in rows if (home / "checkpoints" / str(row["uid"]) / "step").exists()]


async def test_deletion_removes_records_and_leaves_checkpoints_and_workloads(
    stands: Standing, tmp_path: Path
) -> None:
    await begin(stands, tmp_path / "trained", trials=3)
    await begin(stands, tmp_path / "other", name="other", trials=1)
    rows = (await until_over(stands))["trial_rows"]
    await until_over(stands, "other")
    before = saved(stands.pool.home, rows)
    answer = await stands.admin.delete("/api/v1/sweeps/s")
    assert answer.status_code == 200, answer.text
    expected = {"name": "s", "trials": 3, "checkpoints_deleted": 0, "checkpoints_kept": 3}
    assert answer.json() == expected
    assert before == saved(stands.pool.home, rows) == [0, 1, 2]
    assert [row["name"] for row in (await stands.get("sweeps"))["items"]] == ["other"]
    assert (await stands.admin.get("/api/v1/sweeps/s")).status_code == 404
    assert (await stands.admin.delete("/api/v1/sweeps/s")).status_code == 404
    assert await asyncio.to_thread(counts, stands) == [1, 1, 3]
    assert {row["name"] for row in (await stands.get("workloads", all=True))["items"]} >= {"s-0", "s-2"}
    await begin(stands, tmp_path / "trained", trials=1)  # the name is free again
    assert (await until_over(stands))["trials"] == 1


async def test_deletion_takes_the_checkpoints_of_its_trials_alone(stands: Standing, tmp_path: Path) -> None:
    for name in ("s", "other"):
        await begin(stands, tmp_path / "trained", name=name, trials=2)
    rows, others = [(await until_over(stands, name))["trial_rows"] for name in ("s", "other")]
    answer = await stands.admin.delete("/api/v1/sweeps/s", params={"checkpoints": True})
    assert answer.json() == {"name": "s", "trials": 2, "checkpoints_deleted": 2, "checkpoints_kept": 0}
    assert saved(stands.pool.home, rows) == []
    assert saved(stands.pool.home, others) == [0, 1]


async def test_sweep_that_goes_on_is_not_deleted(stands: Standing, tmp_path: Path) -> None:
    await begin(stands, tmp_path / "trained", trials=1, workload={"slow": "s-0"})
    refused = await stands.admin.delete("/api/v1/sweeps/s")
    assert refused.status_code == 409
    assert "stop it first with `weir sweep stop s`" in refused.json()["detail"]
    let_go(tmp_path / "trained")
    assert (await until_over(stands))["state"] == "finished"


async def test_store_keeps_a_sweep_with_a_trial_that_is_not_over(stands: Standing, tmp_path: Path) -> None:
    """A server that was killed while it stopped the trials of an ended sweep has such a sweep."""
    await begin(stands, tmp_path / "trained", trials=1, workload={"slow": "s-0"})
    await stands.until_true(lambda sweep: sweep["running"] == 1, "sweeps/s")
    table = stands.pool.store.sweeps
    record = table.get("s")
    assert record is not None

    def end(connection: Connection) -> None:
        connection.execute(text("update sweeps set ended_s = 1.0 where name = 's'"))

    stands.pool.store._database.write(end).result()
    assert not table.delete(record.id).result()
    refused = await stands.admin.delete("/api/v1/sweeps/s")
    assert refused.status_code == 409
    assert "still being stopped" in refused.json()["detail"]
    assert counts(stands)[:2] == [1, 1]


async def test_sweep_that_cannot_be_read_is_deleted(stands: Standing, tmp_path: Path) -> None:
    await begin(stands, tmp_path / "trained", trials=1, rungs=[1], workload={"steps": 1})
    await until_over(stands)

    def damage(connection: Connection) -> None:
        connection.execute(text("update sweeps set spec = '{}' where name = 's'"))

    stands.pool.store._database.write(damage).result()
    stands.pool.sweeps._past.clear()
    assert (await stands.admin.delete("/api/v1/sweeps/s")).status_code == 200
    assert (await stands.get("sweeps"))["items"] == []


async def test_owner_and_leads_delete_a_sweep_and_other_members_do_not(
    stands: Standing, tmp_path: Path
) -> None:
    await stands.project("vision", 2)
    mia, noa = await stands.member("vision"), await stands.member("vision", user="noa")
    lead = await stands.member("vision", user="eva", role="lead")
    outside = await stands.member("default", user="tom")
    body = {"params": {"lr": "float:0..1"}, "trials": 1, "rungs": [1], "sampler": "random"}
    body["workload"] = {"project": "vision", "command": ["true"], **SMALL}
    for name in ("a", "b"):
        assert (await mia.post("/api/v1/sweeps", json={**body, "name": name})).status_code == 201
        await until_over(stands, name)
    refused = await noa.delete("/api/v1/sweeps/a")
    assert refused.status_code == 403
    assert "you can't delete sweeps of others" in refused.json()["detail"]
    assert (await outside.delete("/api/v1/sweeps/a")).status_code == 403
    assert (await mia.delete("/api/v1/sweeps/a")).status_code == 200
    assert (await lead.delete("/api/v1/sweeps/b")).status_code == 200
    assert (await stands.get("sweeps"))["items"] == []
