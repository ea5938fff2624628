"""Arrays: one workload with many indices, queued a few at a time."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing, reconnect, standing

from weir.local.server.control.array_feed import PENDING_MAX
from weir.store.workloads.arrays import ArrayTable

SCRIPT = "echo $WEIR_ARRAY_INDEX/$WEIR_ARRAY_COUNT/$WEIR_ARRAY_MIN/$WEIR_ARRAY_MAX/$WEIR_ARRAY_STEP"


async def indices(stands: Standing, name: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    after = ""
    while True:
        page = await stands.get(f"workloads/{name}/indices", limit=1000, after=after)
        found |= {row["index"]: row for row in page["items"]}
        if page["next"] is None:
            assert page["total"] == len(found)
            return found
        after = page["next"]


async def statuses(stands: Standing, name: str) -> Counter[str]:
    return Counter(row["status"] for row in (await indices(stands, name)).values())


async def over(stands: Standing, name: str) -> dict[str, Any]:
    return await stands.until(name, "succeeded", "failed", "stopped")


async def running(stands: Standing, name: str, number: int) -> dict[str, Any]:
    return await stands.until_true(lambda row: row["array"]["running"] == number, f"workloads/{name}")


async def names(stands: Standing, **params: Any) -> list[str]:
    return [row["name"] for row in (await stands.get("workloads", **params))["items"]]


async def act(stands: Standing, path: str) -> dict[str, Any]:
    done = await stands.admin.post(f"/api/v1/workloads/{path}")
    assert done.status_code in (200, 201), done.text
    return dict(done.json())


async def test_each_index_runs_once_with_its_variables_and_its_own_log(stands: Standing) -> None:
    made = await stands.submit("sh", "-c", SCRIPT, name="sweep", array="2-20:6,7", gpus=0.5)
    assert made["array"]["size"] == 5
    row = await over(stands, "sweep")
    assert (row["status"], row["array"]["succeeded"]) == ("succeeded", 5)
    assert row["reason"]["sentence"].startswith("sweep succeeded after ")
    assert 0 < row["ran_s"] <= row["ended_s"] - row["submitted_s"]
    (listed,) = (await stands.get("workloads", all=True))["items"]
    assert (listed["pods_running"], listed["pods"], row["pods"]) == (0, 5, 5)
    found = await indices(stands, "sweep")
    assert list(found) == [2, 7, 8, 14, 20]
    assert len({each["uid"] for each in found.values()}) == 5
    for index in found:
        log = await stands.admin.get(f"/api/v1/workloads/sweep[{index}]/logs")
        assert log.text == f"{index}/5/2/20/1\n"
    assert await names(stands) == []
    assert await names(stands, all="true") == ["sweep"]
    refused = await stands.admin.get("/api/v1/workloads/sweep/logs")
    assert (refused.status_code, refused.json()["detail"][:18]) == (409, "sweep is an array:")


async def test_a_limited_number_runs_at_once_and_the_list_has_one_row(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="sweep", array="0-199%3")
    row = await stands.until_true(lambda row: row["array"]["running"] == 3, "workloads/sweep")
    assert (row["status"], row["devices"], row["array"]["pending"]) == ("running", 3, 197)
    assert await names(stands) == ["sweep"]
    assert await names(stands, all="true") == ["sweep"]
    assert sum(each.index is not None for each in stands.pool.view.all()) == 3
    found = await statuses(stands, "sweep")
    assert (found["pending"], found["running"] + found["starting"]) == (197, 3)


async def test_large_array_has_few_indices_in_the_engine_and_one_class(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="huge", array="1-10000", gpus=2)
    await stands.until_true(lambda row: row["array"]["running"] == 2, "workloads/huge")
    live, classes = await stands.pool.query(lambda cluster: (len(cluster.jobs), len(cluster.waiting)))
    assert live <= PENDING_MAX + 2
    assert classes == 1
    why = await stands.get("workloads/huge/why", suggestions="false")
    assert why["array"]["pending"] == 9998
    assert (await stands.get("projects/default"))["pending"] == 9998
    await act(stands, "huge/stop")
    row = await over(stands, "huge")
    assert (row["status"], row["array"]["stopped"]) == ("stopped", 10000)


async def test_end_of_an_array_says_how_long_all_its_indices_ran(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stands.submit("sleep", "3600", name="sweep", array="0-3")
    await running(stands, "sweep", 4)
    monkeypatch.setattr(ArrayTable, "index_runs_s", lambda _table, _uid: 4 * 3600.0)
    await act(stands, "sweep/stop")
    row = await over(stands, "sweep")
    assert ", in which its indices ran for 4h in all: 4 stopped." in row["reason"]["sentence"]


async def test_runs_of_all_indices_count(stands: Standing) -> None:
    await stands.submit("sleep", "0.2", name="sweep", array="0-3%1")
    row = await over(stands, "sweep")
    ran_s = sum(each["ran_s"] for each in (await indices(stands, "sweep")).values())
    assert stands.pool.store.arrays.index_runs_s(row["uid"]) == pytest.approx(ran_s)


async def test_failed_indices_are_retried_and_run_again(stands: Standing, tmp_path: Path) -> None:
    fails = tmp_path / "fails"
    fails.touch()
    script = f"test $((WEIR_ARRAY_INDEX % 2)) = 0 || ! test -e {fails}"
    await stands.submit("sh", "-c", script, name="sweep", array="0-5", retries=0)
    row = await over(stands, "sweep")
    assert row["status"] == "failed"
    assert "3 succeeded, 3 failed" in row["reason"]["sentence"]
    assert {index for index, each in (await indices(stands, "sweep")).items() if each["exit_code"] == 1} == {
        1,
        3,
        5,
    }
    fails.unlink()
    again = await act(stands, "sweep/rerun?failed=true")
    assert again["array"]["size"] == 3
    row = await over(stands, "sweep")
    assert (row["status"], row["array"]["succeeded"]) == ("succeeded", 3)
    assert list(await indices(stands, "sweep")) == [1, 3, 5]
    refused = await stands.admin.post("/api/v1/workloads/sweep/rerun?failed=true")
    assert (refused.status_code, refused.json()["detail"]) == (409, "No index of sweep has failed.")


async def index_runs(stands: Standing, index: int) -> None:
    """Wait until an index runs, which may not be queued yet."""
    await stands.until_true(
        lambda page: any(each["index"] == index and each["status"] == "running" for each in page["items"]),
        "workloads/sweep/indices",
    )


async def test_one_index_is_stopped_and_run_again(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="sweep", array="0-9%2")
    await running(stands, "sweep", 2)
    await act(stands, "sweep[1]/stop")
    await stands.until("sweep[1]", "stopped")
    await index_runs(stands, 2)
    unqueued = await act(stands, "sweep[9]/stop")
    assert (unqueued["name"], unqueued["status"]) == ("sweep[9]", "stopped")
    assert (await statuses(stands, "sweep"))["stopped"] == 2
    last = (await stands.get("workloads/sweep/indices?limit=100"))["items"][-1]
    assert last["reason"]["sentence"] == "It was stopped before it was queued."
    refused = await stands.admin.get("/api/v1/workloads/sweep[5]")
    detail = "sweep[5] isn't queued yet: it follows as the indices before it start, of which at most 2 run at a time."
    assert (refused.status_code, refused.json()["detail"]) == (409, detail)
    missing = [await stands.admin.get("/api/v1/workloads/sweep[77]")]
    missing += [await stands.admin.post(f"/api/v1/workloads/sweep[77]/{way}") for way in ("stop", "rerun")]
    assert {(each.status_code, each.json()["detail"]) for each in missing} == {
        (404, "Array sweep has no index 77.")
    }
    await act(stands, "sweep[9]/rerun")
    await act(stands, "sweep[1]/rerun")
    await stands.until_true(lambda row: row["array"]["stopped"] == 0, "workloads/sweep")
    await act(stands, "sweep[2]/stop")
    await index_runs(stands, 1)  # before those that never ran
    assert (await stands.admin.post("/api/v1/workloads/sweep[1]/rerun")).status_code == 409


async def test_suspended_array_queues_nothing(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="sweep", array="0-9%2")
    await running(stands, "sweep", 2)
    await act(stands, "sweep/suspend")
    row = await stands.until_true(lambda row: row["array"]["running"] == 0, "workloads/sweep")
    assert row["status"] == "pending"
    await reconnect(stands)
    why = await stands.until_true(lambda row: row["reason"] is not None, "workloads/sweep")
    assert why["reason"]["why"] == "suspended"
    answer = await stands.admin.get("/api/v1/workloads/sweep[5]/why")
    detail = "sweep[5] isn't queued yet: sweep is suspended, and `weir resume sweep` lets its indices start."
    assert (answer.status_code, answer.json()["detail"]) == (409, detail)
    await act(stands, "sweep/resume")
    await running(stands, "sweep", 2)
    changed = await stands.admin.post("/api/v1/workloads/sweep/priority", json={"priority": 70})
    assert changed.status_code == 200
    for name in ("sweep", "sweep[0]"):
        await stands.until_true(lambda row: row["priority"] == 70, f"workloads/{name}")


async def test_dependants_wait_for_all_indices(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="first", gpus=0)
    await stands.submit(
        "sh", "-c", "exit $WEIR_ARRAY_INDEX", name="sweep", array="0-1", retries=0, after_any=["first"]
    )
    await stands.submit("true", name="best", after_ok=["sweep"])
    await stands.submit("true", name="alarm", after_not_ok=["sweep"])
    row = await stands.until_true(lambda row: row["reason"] is not None, "workloads/sweep")
    assert row["reason"]["sentence"] == "it waits for first to end"
    assert (await statuses(stands, "sweep")) == {"pending": 2}
    await act(stands, "first/stop")
    assert (await over(stands, "sweep"))["status"] == "failed"
    assert (await over(stands, "best"))["status"] == "stopped"
    assert (await over(stands, "alarm"))["status"] == "succeeded"


async def test_array_whose_condition_cannot_be_met_is_stopped_whole(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="first", gpus=0)
    await stands.submit("true", name="sweep", array="0-99", after_ok=["first"])
    await act(stands, "first/stop")
    row = await over(stands, "sweep")
    assert (row["status"], row["array"]["stopped"], row["ran_s"]) == ("stopped", 100, 0.0)
    assert "sweep was to start only if first succeeds" in row["reason"]["sentence"]


async def test_names_of_arrays_are_taken_while_they_live(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="sweep", array="0-3%1")
    body = {"project": "default", "command": ["true"], "name": "sweep"}
    assert (await stands.admin.post("/api/v1/workloads", json=body)).status_code == 409
    body |= {"name": "sweep[1]"}
    assert (await stands.admin.post("/api/v1/workloads", json=body)).status_code == 422
    body |= {"name": "other", "array": "9-1"}
    refused = await stands.admin.post("/api/v1/workloads", json=body)
    assert refused.json()["errors"][0]["field"] == "array"
    assert "9-1 goes down; write 1-9" in refused.json()["detail"]


async def test_others_may_not_change_an_array(stands: Standing) -> None:
    await stands.project("own", 1)
    await stands.submit("sleep", "3600", name="sweep", array="0-3%1", project="own")
    await running(stands, "sweep", 1)
    async with await stands.member("default", user="noa") as noa:
        for path in (
            "sweep/stop",
            "sweep[0]/stop",
            "sweep[3]/stop",
            "sweep/suspend",
            "sweep/rerun?failed=true",
        ):
            assert (await noa.post(f"/api/v1/workloads/{path}")).status_code == 403, path
        assert (await noa.get("/api/v1/workloads/sweep[0]/logs")).status_code == 403
    assert (await stands.get("workloads/sweep"))["array"]["stopped"] == 0


async def test_array_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Each index runs once, though the server ends in between, and a new one finds its jobs."""
    home, ran = tmp_path / "home", tmp_path / "ran"
    ran.mkdir()
    waits = f"until [ $WEIR_ARRAY_INDEX -lt 20 ] || [ -e {tmp_path}/go ]; do sleep 0.05; done"
    script = f"mkdir {ran}/$WEIR_ARRAY_INDEX && {waits}"
    async with standing(home, end_jobs=False) as stands:
        await stands.submit("sh", "-c", script, name="sweep", array="0-39%4", retries=0)
        await stands.until_true(lambda row: row["array"]["succeeded"] >= 5, "workloads/sweep")
    async with standing(home) as stands:
        assert await names(stands) == ["sweep"]
        (tmp_path / "go").touch()
        row = await over(stands, "sweep")
        assert (row["status"], row["array"]["succeeded"]) == ("succeeded", 40)
        assert len(list(ran.iterdir())) == 40
        ended = (await stands.get("events", workload="sweep", kind="ended"))["items"]
        assert len(ended) == 1


async def test_stop_is_carried_out_by_the_next_server(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", end_jobs=False) as stands:
        await stands.submit("sleep", "3600", name="sweep", array="0-99")
        await stands.until_true(lambda row: row["array"]["running"] == 4, "workloads/sweep")
        await asyncio.to_thread(stands.pool.store.workloads.cancel, "sweep", stands.pool.clock())
    async with standing(tmp_path / "home") as stands:
        row = await over(stands, "sweep")
        assert (row["status"], row["array"]["stopped"]) == ("stopped", 100)
