"""Priority classes of a pool: names that stand for numbers wherever a priority is written."""

import pytest
from tests.unit.local.server.in_process_server import Standing

from weir.cli.queues.options import LimitOptions, limit_fields
from weir.local.server.settings.priority_classes import CLASSES_MAX, read_classes

OWN = ["interactive=90", "batch-2=-5"]


@pytest.fixture
def classes(stands: Standing) -> Standing:
    """A pool with two classes of its own."""
    stands.pool.priority_classes = read_classes(OWN)
    return stands


async def test_classes_are_listed_lowest_first(classes: Standing) -> None:
    rows = (await classes.get("priorities"))["items"]
    assert [(row["name"], row["priority"]) for row in rows] == [
        ("batch-2", -5),
        ("low", 25),
        ("normal", 50),
        ("high", 75),
        ("interactive", 90),
        ("urgent", 99),
    ]
    member = await classes.member("default")
    assert (await member.get("/api/v1/priorities")).status_code == 200


async def test_a_class_stands_for_its_number_everywhere(classes: Standing) -> None:
    made = await classes.submit(name="one", priority="interactive")
    assert made["priority"] == 90
    changed = await classes.admin.post("/api/v1/workloads/one/priority", json={"priority": "batch-2"})
    assert changed.json()["priority"] == -5
    project = await classes.project(
        "team",
        1,
        max_priority="interactive",
        max_priority_of={"mia": "batch-2"},
        defaults={"priority": "interactive"},
    )
    assert (project["max_priority"], project["max_priority_of"]) == (90, {"mia": -5})
    assert project["defaults"]["priority"] == 90
    mia = await classes.member("team")
    body = {"project": "team", "command": ["true"], "priority": "interactive"}
    refused = await mia.post("/api/v1/workloads", json=body)
    assert refused.status_code == 422
    assert "90 is above -5" in refused.text
    preview = await classes.admin.post("/api/v1/previews", json={**body, "priority": "batch-2"})
    assert preview.status_code == 200
    await classes.admin.post("/api/v1/workloads/one/stop")
    await classes.until("one", "stopped")
    again = await classes.admin.post("/api/v1/workloads/one/rerun")
    assert again.status_code == 201
    assert again.json()["priority"] == 90


async def test_an_unknown_class_is_refused_with_the_names_of_the_pool(classes: Standing) -> None:
    body = {"project": "default", "command": ["true"], "priority": "interactiv"}
    refused = await classes.admin.post("/api/v1/workloads", json=body)
    assert refused.status_code == 422
    assert "low, normal, high, urgent, interactive, batch-2" in refused.text


async def test_without_classes_of_its_own_a_pool_has_those_of_all(stands: Standing) -> None:
    assert [row["name"] for row in (await stands.get("priorities"))["items"]] == [
        "low",
        "normal",
        "high",
        "urgent",
    ]
    body = {"project": "default", "command": ["true"], "priority": "interactive"}
    assert (await stands.admin.post("/api/v1/workloads", json=body)).status_code == 422


@pytest.mark.parametrize(
    "written",
    [
        ["high=80"],
        ["a=1", "a=2"],
        ["=1"],
        ["a"],
        ["a="],
        ["A=1"],
        ["7=1"],
        ["a b=1"],
        ["a=1.5"],
        ["a=99999999999"],
        ["a=3000000000"],
        ["x" * 64 + "=1"],
        [f"c{at}={at}" for at in range(CLASSES_MAX + 1)],
    ],
)
def test_classes_that_cannot_be_are_refused(written: list[str]) -> None:
    with pytest.raises(ValueError, match="--priority-class"):
        read_classes(written)


def test_a_highest_priority_of_a_person_may_be_a_class() -> None:
    options = LimitOptions(max_priority_of=["mia=batch-2", "ben=-3"])
    assert limit_fields(options) == {"max_priority_of": {"mia": "batch-2", "ben": -3}}
