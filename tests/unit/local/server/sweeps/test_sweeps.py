"""Sweeps on a real pool: trials are real processes that report, save, leave and go on."""

import asyncio
import os
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from tests.unit.local.server.in_process_server import SMALL, Standing, reconnect, standing
from tests.unit.local.server.sweep_cases import (
    begin,
    check_promotions,
    let_go,
    trained,
    until_over,
    workload,
)

from weir.local.server.access.authorization import Person
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.requests import sweep_requests
from weir.local.server.sweeps.live_sweep import LiveSweep


@pytest.mark.parametrize("way", ["asks", "saves"])
async def test_sweep_halves_and_trains_no_step_twice(stands: Standing, tmp_path: Path, way: str) -> None:
    made = await begin(stands, tmp_path / "trained", way=way)
    assert made["state"] == "running"
    sweep = await until_over(stands)
    assert sweep["state"] == "finished", sweep["sentence"]
    rows = sweep["trial_rows"]
    assert sweep["rung_rows"][0]["reached"] == 9
    assert sweep["rung_rows"][1]["reached"] >= 3
    assert sweep["rung_rows"][2]["reached"] >= 1
    check_promotions(stands, sweep)
    for row in rows:
        steps = trained(tmp_path / "trained", row["number"])
        assert steps == list(range(1, row["results"][-1]["rung"] + 1)), row
        for result in row["results"]:
            assert result["value"] == pytest.approx(abs(row["params"]["lr"] - 0.3) + 1 / result["rung"])
    best = min((row for row in rows if len(row["results"]) == 3), key=lambda row: row["results"][-1]["value"])
    assert sweep["best_trial"] == best["number"]
    assert f"The best is s-{best['number']}" in sweep["sentence"]
    assert Counter(row["state"] for row in rows) == {
        "succeeded": sweep["rung_rows"][2]["reached"],
        "stopped": 9 - sweep["rung_rows"][2]["reached"],
    }
    listed = (await stands.get("workloads", all=True))["items"]
    assert {row["sweep"] for row in listed} == {"s"}


async def test_trial_is_parked_and_only_its_sweep_resumes_it(stands: Standing, tmp_path: Path) -> None:
    """Trial 0 waits at its rung for as long as trial 1 runs."""
    await begin(stands, tmp_path / "trained", trials=2, parallel=1, rungs=[1, 9], workload={"slow": "s-1"})
    await stands.until_true(lambda sweep: sweep["trials"] == 2, "sweeps/s")
    row = await stands.until_true(lambda row: row["status"] == "pending", "workloads/s-0")
    assert row["reason"]["why"] == "suspended"
    assert row["reason"]["sentence"] == "it is suspended: parked at rung 1 of sweep s"
    refused = await stands.admin.post("/api/v1/workloads/s-0/resume")
    assert refused.status_code == 409
    assert "it goes on once its sweep promotes it" in refused.json()["detail"]
    suspended = await stands.admin.post("/api/v1/workloads/s-0/suspend")
    assert (suspended.status_code, suspended.json()["detail"]) == (409, refused.json()["detail"])
    (suggestion,) = (await stands.get("workloads/s-0/why"))["suggestions"]
    assert (suggestion["change"], suggestion["how"]) == ({}, "weir sweep show s")
    let_go(tmp_path / "trained")
    sweep = await until_over(stands)
    assert sweep["state"] == "finished"
    assert sweep["rung_rows"][1]["reached"] == 1


async def test_trial_that_neither_leaves_nor_saves_goes_on_to_its_end(
    stands: Standing, tmp_path: Path
) -> None:
    await begin(stands, tmp_path / "trained", way="ignores", trials=3)
    sweep = await until_over(stands)
    assert [row["state"] for row in sweep["trial_rows"]] == ["succeeded"] * 3
    assert [row["reached"] for row in sweep["rung_rows"]] == [3, 3, 3]
    assert [row["promoted"] for row in sweep["rung_rows"]] == [0, 0, 0]
    for number in range(3):
        assert trained(tmp_path / "trained", number) == list(range(1, 10))


async def test_sweep_without_a_result_names_the_missing_call(stands: Standing, tmp_path: Path) -> None:
    more = {"trials": 2, "parallel": 1, "metric": "accuracy", "workload": {"slow": "s-1"}}
    await begin(stands, tmp_path / "trained", **more)
    sweep = await stands.until_true(lambda sweep: sweep["sentence"], "sweeps/s")
    missing = "before rung 1, without a result: the script has to call `weir.report(step=1, accuracy=...)`."
    assert sweep["sentence"] == f"s-0 has succeeded {missing}"
    assert sweep["state"] == "running"
    let_go(tmp_path / "trained")
    assert (await until_over(stands))["sentence"] == f"All 2 trials are over {missing}"


async def test_trial_that_trains_past_the_last_rung_is_stopped(stands: Standing, tmp_path: Path) -> None:
    more = {"steps": 100_000, "step_s": "0.05"}
    await begin(stands, tmp_path / "trained", way="ignores", trials=1, rungs=[2], workload=more)
    sweep = await until_over(stands)
    assert sweep["trial_rows"][0]["state"] == "stopped"
    row = await stands.get("workloads/s-0")
    assert row["reason"]["sentence"] == "s-0 trained on past 2, the last rung of sweep s."


@pytest.mark.parametrize("trials", [2, 50])
async def test_sweep_whose_first_trials_all_fail_is_given_up(
    stands: Standing, tmp_path: Path, trials: int
) -> None:
    await begin(stands, tmp_path / "trained", way="fails", trials=trials, workload={"retries": 0})
    sweep = await until_over(stands)
    assert sweep["state"] == "failed"
    assert "`weir logs s-0`" in sweep["sentence"]
    assert sweep["trials"] < 20


async def test_sweep_goes_on_without_a_trial_that_a_person_stops(stands: Standing, tmp_path: Path) -> None:
    await begin(stands, tmp_path / "trained", trials=4, workload={"slow": "s-1"})
    await stands.until_true(lambda sweep: sweep["trials"] == 4, "sweeps/s")
    await stands.admin.post("/api/v1/workloads/s-1/stop")
    sweep = await until_over(stands)
    assert sweep["state"] == "finished"
    assert sweep["trial_rows"][1]["state"] == "stopped"
    assert sweep["rung_rows"][-1]["reached"] == 1


async def test_sweep_says_that_a_suspended_trial_holds_it(stands: Standing, tmp_path: Path) -> None:
    await begin(stands, tmp_path / "trained", trials=2, parallel=1, workload={"slow": "s-0"})
    await stands.until_true(lambda sweep: sweep["running"] == 1, "sweeps/s")
    assert (await stands.admin.post("/api/v1/workloads/s-0/suspend")).status_code == 200
    sweep = await stands.until_true(lambda sweep: sweep["sentence"], "sweeps/s")
    assert sweep["sentence"] == (
        "s-0 is suspended, and it begins no other trial: `weir resume s-0` lets it go on."
    )
    let_go(tmp_path / "trained")
    assert (await stands.admin.post("/api/v1/workloads/s-0/resume")).status_code == 200
    assert (await until_over(stands))["state"] == "finished"


async def test_rerun_of_a_trial_has_its_parameters_and_no_sweep(stands: Standing, tmp_path: Path) -> None:
    await begin(stands, tmp_path / "trained", trials=1)
    await until_over(stands)
    for _ in range(2):  # a rerun can be run again, too
        before = await stands.get("workloads/s-0")
        again = await stands.admin.post("/api/v1/workloads/s-0/rerun")
        assert again.status_code == 201, again.text
        ended = await stands.until("s-0", "succeeded")
        assert ended["uid"] > before["uid"]
        parameters = {key: text for key, text in before["env"].items() if key.startswith("WEIR_PARAM")}
        kept = {key: text for key, text in ended["env"].items() if key.startswith("WEIR_")}
        assert sorted(parameters) == ["WEIR_PARAMS", "WEIR_PARAM_LR"]
        assert (kept, ended["sweep"]) == (parameters, None)


async def test_stop_ends_all_trials(stands: Standing, tmp_path: Path) -> None:
    await begin(stands, tmp_path / "trained", trials=20, workload={"slow": "s-5"})
    await stands.until_true(lambda sweep: sweep["trials"] > 5, "sweeps/s")
    stopped = await stands.admin.post("/api/v1/sweeps/s/stop")
    assert stopped.status_code == 200
    sweep = await until_over(stands)
    assert sweep["state"] == "stopped"
    assert sweep["sentence"] == f"It was stopped by {sweep['user']}."
    assert {row["state"] for row in sweep["trial_rows"]} <= {"stopped", "succeeded"}
    again = await stands.admin.post("/api/v1/sweeps/s/stop")
    assert again.status_code == 409


async def test_control_that_connects_and_server_that_starts_again_go_on(tmp_path: Path) -> None:
    """Trials are parked, run and are left meanwhile; each trains each step once."""
    async with standing(tmp_path / "home", end_jobs=False) as stands:
        await begin(stands, tmp_path / "trained", workload={"step_s": "0.1", "slow": "s-8"})
        await stands.until_true(lambda sweep: sweep["parked"] >= 2, "sweeps/s")
        await reconnect(stands)
        await stands.until_true(lambda sweep: sweep["trials"] >= 6, "sweeps/s")
    async with standing(tmp_path / "home") as again:
        let_go(tmp_path / "trained")
        sweep = await until_over(again)
        assert sweep["state"] == "finished"
        assert sweep["trials"] == 9
        check_promotions(again, sweep)
        for row in sweep["trial_rows"]:
            last = row["results"][-1]["rung"]
            assert trained(tmp_path / "trained", row["number"]) == list(range(1, last + 1))


async def test_reclaim_takes_the_trial_with_the_least_prospects(stands: Standing, tmp_path: Path) -> None:
    """It has run for longer than the promoted one, so it would lose more work."""
    await stands.project("lab", 0)
    more = {"project": "lab", "slow": "s-0", "steps": 100_000, "step_s": "0.05"}
    await begin(stands, tmp_path / "trained", trials=3, parallel=2, eta=2, rungs=[1, 100_000], workload=more)
    await stands.until_true(lambda sweep: sweep["rung_rows"][0]["promoted"] == 1, "sweeps/s")
    sweep = await stands.get("sweeps/s")
    promoted = next(row["name"] for row in sweep["trial_rows"] if row["target"] == 100_000)
    await stands.until(promoted, "running")
    await stands.submit("sleep", "3600", name="owner", gpus=3)
    await stands.until("owner", "running")
    assert (await stands.get("workloads/s-0"))["status"] == "pending"
    assert (await stands.get(f"workloads/{promoted}"))["status"] == "running"
    await stands.admin.post("/api/v1/sweeps/s/stop")
    await stands.admin.post("/api/v1/workloads/owner/stop")


async def test_sweep_begun_while_the_others_are_read_goes_on(
    stands: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller reads what goes on before the sweep is written down, and ends reading after that."""
    table, is_read, may_end = stands.pool.store.sweeps, threading.Event(), threading.Event()
    unfinished = table.unfinished

    def slowly(state: str) -> Any:
        found = unfinished(state)
        is_read.set()
        assert may_end.wait(120)
        return found

    await stands.until_true(lambda _: not stands.pool.sweeps._reload, "status")
    monkeypatch.setattr(table, "unfinished", slowly)
    stands.pool.sweeps._reload = True
    stands.pool.sweeps.wake()
    await asyncio.to_thread(is_read.wait, 120)
    await begin(stands, tmp_path / "trained", trials=1, rungs=[1], workload={"steps": 1})
    may_end.set()
    assert (await until_over(stands))["state"] == "finished"


async def test_details_of_a_sweep_go_with_those_of_its_trials(stands: Standing, tmp_path: Path) -> None:
    await begin(stands, tmp_path, trials=1, workload={"steps": 1}, rungs=[1])
    await until_over(stands)
    store, now_s = stands.pool.store, stands.pool.clock()
    await asyncio.to_thread(store.delete_launch_specs, now_s - 3600)
    assert "TRAINED" in str(store.sweeps.get("s"))
    for _ in range(2):
        await asyncio.to_thread(store.delete_launch_specs, now_s + 3600)
    stands.pool.sweeps._past.clear()
    assert "TRAINED" not in str(store.sweeps.get("s"))
    assert (await stands.get("sweeps/s"))["command"] == ["(removed)"]
    assert [row["best_trial"] for row in (await stands.get("sweeps"))["items"]] == [0]


async def test_sweep_that_cannot_be_read_hides_no_other(stands: Standing, tmp_path: Path) -> None:
    for name in ("a", "b"):
        await begin(stands, tmp_path, name=name, trials=1, workload={"steps": 1}, rungs=[1])
        await until_over(stands, name)

    def damage(connection: Connection) -> None:
        connection.execute(text("update sweeps set spec = '{}' where name = 'a'"))

    stands.pool.store._database.write(damage).result()
    stands.pool.sweeps._past.clear()
    rows = (await stands.get("sweeps"))["items"]
    assert [(row["name"], row["trials"]) for row in rows] == [("b", 1), ("a", 0)]
    assert rows[1]["sentence"].startswith("It can't be read.")


async def test_person_has_a_limited_number_of_running_sweeps(
    stands: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_requests, "LIVE_PER_PERSON_MAX", 1)
    await stands.project("vision", 2)
    body = {"params": {"lr": "float:0..1"}, "trials": 2, "rungs": [1], "sampler": "random"}
    body["workload"] = {"project": "vision", "command": ["sleep", "600"], **SMALL}
    async with await stands.member("vision") as mia, await stands.member("vision", user="noa") as noa:
        assert (await mia.post("/api/v1/sweeps", json={**body, "name": "m"})).status_code == 201
        refused = await mia.post("/api/v1/sweeps", json=body)
        assert (refused.status_code, "stop some" in refused.json()["detail"]) == (429, True)
        assert (await noa.post("/api/v1/sweeps", json=body)).status_code == 201
        assert (await mia.post("/api/v1/sweeps/m/stop")).status_code == 200
        await until_over(stands, "m")
        assert (await mia.post("/api/v1/sweeps", json=body)).status_code == 201


@pytest.mark.parametrize(
    ("is_member", "why"),
    [(True, "The token with which mia made it is revoked or has expired."), (False, "vision")],
)
async def test_person_who_left_the_project_has_no_trial_promoted(
    stands: Standing, tmp_path: Path, is_member: bool, why: str
) -> None:
    await stands.project("vision", 2)
    os.makedirs(tmp_path / "trained", exist_ok=True)  # noqa: PTH103 - a path would have to be asked asynchronously
    work = workload(tmp_path / "trained", slow="s-1", project="vision")
    body = {"name": "s", "params": {"lr": "float:0..1"}, "trials": 2, "parallel": 1, "rungs": [1, 9]}
    mia = await stands.member("vision")
    body |= {"sampler": "random", "arguments": False, "workload": work}
    assert (await mia.post("/api/v1/sweeps", json=body)).status_code == 201
    await stands.until_true(lambda sweep: sweep["trials"] == 2, "sweeps/s")
    await stands.until("s-1", "running")
    if is_member:
        (token,) = stands.pool.store.tokens.all()
        await asyncio.to_thread(stands.pool.store.tokens.delete, token.id)
    else:  # signed in by an identity provider, and without any role now
        live = stands.pool.sweeps.live["s"]
        owner = {"user": "mia", "token": None, "uid": None, "subject": "mia", "groups": []}
        live.record = replace(live.record, owner=owner)
    let_go(tmp_path / "trained")
    sweep = await until_over(stands)
    assert sweep["state"] == "failed"
    assert sweep["sentence"].startswith("A trial can't be promoted: ")
    assert why in sweep["sentence"]
    assert [trained(tmp_path / "trained", number) for number in range(2)] == [[1], [1]]


async def test_trouble_before_a_promotion_is_over_with_it(
    stands: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps, refusals = stands.pool.sweeps, ["The account database doesn't answer."]
    owner = sweeps._owner

    async def owner_later(sweep: LiveSweep) -> Person:
        if len(sweep.trials) == 2 and refusals:
            raise RequestRefused(503, refusals.pop())
        return await owner(sweep)

    monkeypatch.setattr(sweeps, "_owner", owner_later)
    await begin(stands, tmp_path / "trained", trials=2, parallel=1, rungs=[1, 9])
    live = sweeps.live["s"]
    assert (await until_over(stands))["state"] == "finished"
    assert not refusals
    assert (live.failures, live.trouble) == (0, "")


async def test_members_see_and_stop_what_they_may(stands: Standing, tmp_path: Path) -> None:
    await stands.project("vision", 2)
    await stands.project("speech", 2)
    mia, tom = await stands.member("vision"), await stands.member("speech", user="tom")
    await begin(stands, tmp_path / "trained", trials=1, workload={"slow": "s-0"})
    body = {"name": "m", "params": {"lr": "float:0..1"}, "trials": 1, "rungs": [1], "sampler": "random"}
    body["workload"] = {"project": "vision", "command": ["sleep", "600"], **SMALL}
    assert (await tom.post("/api/v1/sweeps", json=body)).status_code == 403
    assert (await mia.post("/api/v1/sweeps", json=body)).status_code == 201
    await stands.until_true(lambda sweep: sweep["running"], "sweeps/m")
    assert (await stands.get("workloads/m-0"))["user"] == "mia"
    assert [row["name"] for row in (await mia.get("/api/v1/sweeps")).json()["items"]] == ["m"]
    assert (await tom.get("/api/v1/sweeps")).json()["items"] == []
    assert (await tom.get("/api/v1/sweeps/m")).status_code == 403
    assert (await mia.post("/api/v1/sweeps/s/stop")).status_code == 403
    assert (await mia.post("/api/v1/sweeps/m/stop")).status_code == 200
    assert (await mia.get("/api/v1/sweeps/nothing")).status_code == 404
    await stands.admin.post("/api/v1/sweeps/s/stop")


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"params": {}}, "params", "write at least one entry"),
        ({"params": {"lr": "log:0..1"}}, "body", "doesn't go with log"),
        ({"params": {"lr": "float:1..0"}}, "body", "write the smaller number first"),
        ({"params": {"a.b": "int:1..2", "a-b": "int:1..2"}}, "body", "are both WEIR_PARAM_A_B"),
        ({"rungs": [3, 1]}, "body", "1 doesn't come after 3"),
        ({"trials": None}, "body", "how many is missing"),
        ({"sampler": "grid"}, "body", "a grid needs few"),
        ({"workload": {"project": "nothing", "command": ["true"]}}, "project", "there is no project nothing"),
        (
            {"workload": {"project": "default", "command": ["true"], "name": "x"}},
            "workload.name",
            "leave it out",
        ),
        (
            {"workload": {"project": "default", "command": ["true"], "preemptible": False}},
            "workload",
            "preemptible",
        ),
        (
            {"workload": {"project": "default", "command": ["true"], "type": "build"}},
            "workload",
            "preemptible",
        ),
        ({"sampler": "grid", "params": {"x": "float:0..1:1e-12"}}, "body", "the grid has 1,000,000,000,001"),
        (
            {
                "params": {"x": f"choice:a,{'b' * 4000}"},
                "workload": {"project": "default", "command": ["{x}" * 1000]},
            },
            "body",
            "is longer than 1,048,576 characters",
        ),
        ({"sampler": "gp"}, "sampler", "needs torch"),
        ({"name": "n" * 60}, "name", "write a shorter one"),
        ({"metric": "1e99"}, "metric", "metric: '1e99' is no name of a value; write letters, digits and _"),
        ({"metric": ""}, "metric", "metric: '' is no name of a value; write letters, digits and _"),
        ({"metric": "x" * 65}, "metric", "is too long; write at most 64 characters"),
    ],
)
async def test_bad_request_is_refused_with_what_to_write(
    stands: Standing, change: dict[str, Any], field: str, sentence: str
) -> None:
    body = {
        "params": {"lr": "float:0..1"},
        "trials": 2,
        "rungs": [1],
        "sampler": "random",
        "workload": {"project": "default", "command": ["true"]},
    }
    refused = await stands.admin.post("/api/v1/sweeps", json={**body, **change})
    assert refused.status_code == 422, refused.text
    assert sentence in refused.json()["detail"]
    assert refused.json()["errors"][0]["field"].startswith(field)
    assert await stands.get("sweeps") == {"total": 0, "next": None, "items": []}
