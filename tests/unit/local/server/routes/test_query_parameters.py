"""Parameters of requests: an error names the value, and what to write instead."""

import pytest
from tests.unit.local.server.in_process_server import Standing


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("workloads?limit=-1", "limit: -1 is negative; write 1 or more"),
        ("workloads?limit=0", "limit: 0 is too small; write 1 or more"),
        ("workloads?limit=5000", "limit: 5000 is too large; write at most 1000"),
        ("workloads?limit=many", "limit: 'many' is not a whole number; write one such as 4"),
        ("workloads?all=perhaps", "all: 'perhaps' is neither true nor false; write true or false"),
        ("audit?outcome=odd", "outcome: 'odd' isn't known; write allowed, refused or failed"),
        ("events?kind=" + "k" * 4097, "is too long; write at most 4096 characters"),
        (f"workloads?limit={'9' * 20}", "limit: 99999999999999999999 is too large; write at most 1000"),
        ("workloads/a/why?wait=1e99", "wait: 1e+99 is too large; write at most 10"),
        ("history?by=moon", "by: 'moon' isn't known; write "),
        ("workloads?projct=vision", "unknown parameter 'projct'; did you mean project?"),
        ("sweeps?x=1", "unknown parameter 'x'; write one of "),
        ("workloads/a?" + "x" * 90 + "=1", "; the path takes none"),
    ],
)
async def test_a_wrong_parameter_is_corrected(stands: Standing, query: str, message: str) -> None:
    answer = await stands.admin.get(f"/api/v1/{query}")
    assert answer.status_code == 422
    assert message in answer.json()["detail"]
    assert message in answer.json()["errors"][0]["message"]


async def test_events_of_several_projects_and_kinds_are_found(stands: Standing) -> None:
    for name in ("vision", "speech", "text"):
        await stands.project(name, 1)

    async def projects(query: str) -> set[str]:
        return {event["project"] for event in (await stands.get(f"events?{query}"))["items"]}

    await stands.until_true(lambda page: page["items"], "events?project=text&kind=queue")
    assert await projects("project=vision,%20speech,nosuch&kind=queue") == {"vision", "speech"}
    assert await projects("project=vision&kind=ended,queue") == {"vision"}
    assert await projects("project=vision&kind=ended,scheduled") == set()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("projects/..%2Fx", "a project"),
        ("departments/..%2Fx", "a department"),
        ("projects/default/templates/..%2Fx", "a template"),
        ("projects/default/secrets/..%2Fx", "a secret"),
        ("sweeps/..%2Fx", "a sweep"),
        ("schedules/..%2Fx", "a schedule"),
        ("nodes/..%2Fx/drain", "a node"),
        ("workloads/..%2Fx/why", "a workload"),
    ],
)
async def test_a_name_with_a_slash_is_refused_with_the_rule(stands: Standing, path: str, kind: str) -> None:
    answer = await stands.admin.put(f"/api/v1/{path}", json={"name": "../x"})
    assert answer.status_code == 404
    wanted = (
        f"'../x' can't be the name of {kind}; write letters, digits, dots, dashes and underscores, at most"
    )
    assert answer.json()["detail"].startswith(wanted)


async def test_a_refusal_for_a_missing_token_says_where_it_belongs(stands: Standing) -> None:
    for headers in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}):
        answer = await stands.admin.get("/api/v1/status", headers=headers)
        assert answer.status_code == 401
        detail = answer.json()["detail"]
        assert "Set WEIR_TOKEN to a token of this pool" in detail
        assert "file token of the pool's home" in detail
