"""A submission is tried before it is submitted."""

from typing import Any

from tests.unit.local.server.in_process_server import SMALL, Standing


def asked(gpus: float, **words: Any) -> dict[str, Any]:
    return {"project": "speech", "command": ["true"], "pods": [{"gpus": gpus, **SMALL}], **words}


async def test_preview_says_what_the_submission_then_does(stands: Standing) -> None:
    await stands.project("default", 2)
    await stands.project("speech", 2)
    mia = await stands.member("speech")
    path = "/api/v1/previews"
    node = stands.pool.node.name
    free = (await mia.post(path, json=asked(2))).json()
    assert (free["starts"], free["nodes"], free["stops"]) == (True, [node], [])
    await stands.submit(name="borrows", gpus=4)
    await stands.until("borrows", "running")
    reclaims = (await mia.post(path, json=asked(2))).json()
    assert (reclaims["starts"], reclaims["stops"]) == (True, ["borrows"])
    waits = (await mia.post(path, json=asked(3))).json()
    assert waits["starts"] is False
    made = (await mia.post("/api/v1/workloads", json=asked(3, name="waits"))).json()
    why = await stands.until_true(lambda answer: answer["reason"], f"workloads/{made['uid']}/why")
    assert why["reason"]["why"] == waits["reason"]["why"]
    assert (await stands.get("workloads/borrows"))["status"] == "running"
    assert {row["name"] for row in (await stands.get("workloads"))["items"]} == {"borrows", "waits"}
    refused = await mia.post(path, json=asked(9))
    assert refused.status_code == 422
    assert "the largest node offers 4" in refused.text
    assert (await mia.post(path, json={**asked(1), "project": "default"})).status_code == 403
    assert (await mia.post(path, json=asked(1, name="waits"))).status_code == 409
