"""Lists of workloads by REST."""

from typing import Any

from tests.unit.local.server.in_process_server import Standing


async def test_list_since_a_time_counts_the_workloads_since_then(stands: Standing) -> None:
    async def listed(**words: Any) -> tuple[int, list[str]]:
        answer = await stands.get("workloads", limit=1, **words)
        return answer["total"], [row["name"] for row in answer["items"]]

    for name in ("a", "b", "c"):
        await stands.submit("sleep", "3600", name=name)
    since_s = (await stands.get("workloads/b"))["submitted_s"]
    for ended in ("false", "true"):
        assert await listed(all=ended) == (3, ["c"])
        assert await listed(all=ended, since=since_s - 1e-3) == (2, ["c"])
        assert await listed(all=ended, since="1h") == (3, ["c"])
    refused = await stands.admin.get("/api/v1/workloads", params={"since": "soon"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "since"
