"""The described interface, held against what is answered: nothing anyone sends makes the server fail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.properties.budget import EFFORT
from tests.unit.local.server.server_process import Serving, serving

EXAMPLES = 5 * EFFORT
SKIPPED = {"/api/v1/stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("pool") / "home") as found:
        yield found


def test_nothing_sent_makes_it_fail(server: Serving) -> None:
    """Schemathesis over every operation; what would be said by its plugin is said by a plain loop."""
    import schemathesis  # not above: every process of a run collects this file, and one runs it

    described = schemathesis.openapi.from_url(f"{server.url}/api/v1/openapi.json").exclude(path=list(SKIPPED))
    asked = 0
    for found in described.get_all_operations():
        operation = found.ok()
        _try(operation, server)
        asked += 1
    assert asked > 20
    server.until_ready()  # what was accepted can be decided about


def _try(operation: Any, server: Serving) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

    @given(operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    def run(case: Any) -> None:
        if case.query:
            case.query.pop("follow", None)  # a stream that ends with its workload
        if case.operation.label == "POST /api/v1/workloads" and isinstance(case.body, dict):
            _make_acceptable(case.body)
        answer = case.call(headers={"Authorization": f"Bearer {server.token}"}, timeout=120)
        if answer.status_code == 503:
            pytest.fail(answer.text)
        checks = [not_a_server_error, content_type_conformance, response_schema_conformance]
        case.validate_response(answer, checks=checks)

    run()


def _make_acceptable(body: dict[str, Any]) -> None:
    """Take out what names things there aren't, so that some of what is asked for is queued."""
    body["project"] = "default"
    for key in ("name", "directory", "env", "topology"):
        body.pop(key, None)
    pods = body.get("pods")
    for group in pods if isinstance(pods, list) else ():
        if isinstance(group, dict):
            for key in ("nodes", "gpu_models", "resources"):
                group.pop(key, None)


def test_the_description_names_bodies_and_who_may_ask(server: Serving) -> None:
    reply = server.get("/api/v1/openapi.json", token="")
    post = reply["paths"]["/api/v1/workloads"]["post"]
    assert post["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Submission"
    }
    assert post["security"] == [{"token": []}]
    assert "PodsEntry" in reply["components"]["schemas"]


def test_home_is_its_owners_alone(server: Serving) -> None:
    home: Path = server.home
    assert home.stat().st_mode & 0o077 == 0
