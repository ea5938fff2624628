"""Batches: several workloads in one request, all or none."""

from typing import Any

import httpx
import pytest
from tests.unit.local.server.in_process_server import SMALL, Standing

BATCH = "/api/v1/workloads:batch"
DEFAULTS = {"project": "default", "gpus": 0, **SMALL, "env": {"A": "all", "B": "all"}}


async def batch(stands: Standing, *workloads: dict[str, Any], **defaults: Any) -> httpx.Response:
    body = {"defaults": {**DEFAULTS, **defaults}, "workloads": list(workloads)}
    return await stands.admin.post(BATCH, json=body)


def link(name: str, *names: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": ["true"], "after_ok": list(names), **fields}


async def test_chain_in_any_order_runs_in_its_order(stands: Standing) -> None:
    made = await batch(stands, link("c", "b"), link("a"), link("b", "a"))
    assert made.status_code == 201, made.text
    assert [row["name"] for row in made.json()["items"]] == ["c", "a", "b"]
    await stands.until("c", "succeeded")
    rows = [await stands.get(f"workloads/{name}") for name in ("a", "b", "c")]
    assert (
        rows[0]["ended_s"] <= rows[1]["first_started_s"] <= rows[1]["ended_s"] <= rows[2]["first_started_s"]
    )


async def test_long_chain_is_queued_whole_and_stops_whole(stands: Standing) -> None:
    chain = [link("c-0", command=["sleep", "3600"])] + [
        link(f"c-{at}", f"c-{at - 1}") for at in range(1, 1000)
    ]
    made = await batch(stands, *chain)
    assert (made.status_code, made.json()["total"]) == (201, 1000)
    last = await stands.get("workloads/c-999")
    before = await stands.get("workloads/c-998")
    assert last["dependencies"] == [{"name": "c-998", "uid": before["uid"], "condition": "succeeded"}]
    await stands.admin.post("/api/v1/workloads/c-0/stop")
    assert (await stands.until("c-999", "stopped"))["first_started_s"] is None


async def test_defaults_are_those_of_workloads_that_state_nothing_else(stands: Standing) -> None:
    made = await batch(
        stands,
        {"name": "own", "run": "true", "env": {"B": "own"}, "priority": 60},
        {"name": "other"},
        command=["sleep", "0"],
        priority=40,
    )
    assert made.status_code == 201, made.text
    own, other = [await stands.get(f"workloads/{name}") for name in ("own", "other")]
    assert (own["command"], own["priority"], own["env"]) == (
        ["bash", "-c", "true"],
        60,
        {"A": "all", "B": "own"},
    )
    assert (other["command"], other["priority"]) == (["sleep", "0"], 40)
    await stands.until("own", "succeeded")
    assert (await stands.admin.post("/api/v1/workloads/own/rerun")).status_code == 201


@pytest.mark.parametrize(
    ("workloads", "field", "sentence"),
    [
        (
            [link("a", "c"), link("b", "a"), link("c", "b")],
            "workloads[0].after",
            "after: a waits for c waits for b waits for a: none of them could ever start",
        ),
        ([link("a", "a")], "workloads[0].after", "after: a waits for a: none of them could ever start"),
        (
            [link("x"), link("b", "a"), link("a", "b")],
            "workloads[1].after",
            "after: b waits for a waits for b",
        ),
        ([link("a"), link("b", "z")], "workloads[1].after_ok[0]", "after_ok: there is no workload z"),
        ([link("a"), link("a")], "workloads[1].name", "name: workloads[0] is called a too"),
        ([link("a"), link("b", priority="x")], "workloads[1].priority", "'x' is no priority"),
        ([link("a"), link("b", gpus=5000)], "workloads[1].pods[0].gpus", "gpus"),
        ([link("a"), link("b[1]")], "workloads[1].name", "can't be a name here"),
        ([link("a"), "b"], "workloads[1]", "workloads"),
        ([], "workloads", "workloads"),
    ],
)
async def test_batch_with_a_mistake_queues_nothing(
    stands: Standing, workloads: list[Any], field: str, sentence: str
) -> None:
    refused = await batch(stands, *workloads)
    assert refused.status_code == 422, refused.text
    found = refused.json()
    assert found["errors"][0]["field"] == field
    assert sentence in found["detail"]
    assert (await stands.get("workloads", all="true"))["total"] == 0


async def test_small_request_does_not_become_a_large_batch(stands: Standing) -> None:
    """Defaults count once for each workload: else each request could fill gigabytes of memory and disk."""
    env = {f"V{at}": "x" * 100 for at in range(1000)}
    refused = await batch(stands, *({} for _ in range(1000)), env=env)
    assert refused.status_code == 422, refused.text
    assert "bytes in all workloads together, and at most 16,777,216" in refused.json()["detail"]
    made = await batch(stands, *({"command": ["true"]} for _ in range(10)), env=env)
    assert made.status_code == 201, made.text


async def test_name_that_is_taken_refuses_the_batch(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="b", gpus=0)
    refused = await batch(stands, link("a"), link("b"))
    assert refused.status_code == 409
    assert "workloads[1]: A workload called b isn't over yet" in refused.json()["detail"]
    assert (await stands.get("workloads"))["total"] == 1


async def test_batch_needs_the_rights_and_the_places_of_all(stands: Standing) -> None:
    await stands.project("own", 1)
    async with await stands.member("default") as mia:
        body = {"defaults": DEFAULTS, "workloads": [link("a"), link("b", project="own")]}
        assert (await mia.post(BATCH, json=body)).status_code == 403
        most = stands.pool.limits.pending_per_person_max
        body["workloads"] = [link(f"w-{at}", begin=4e9) for at in range(most + 1)]
        refused = await mia.post(BATCH, json=body)
        assert refused.status_code == 429
        assert "one person may have 1,000; these are 1,001 more" in refused.json()["detail"]
    assert (await stands.get("workloads", all="true"))["total"] == 0


async def test_array_may_be_a_part_of_a_chain(stands: Standing) -> None:
    made = await batch(stands, link("prepare"), link("sweep", "prepare", array="1-3"), link("best", "sweep"))
    assert made.status_code == 201, made.text
    await stands.until("best", "succeeded")
    assert (await stands.get("workloads/sweep"))["array"]["succeeded"] == 3
