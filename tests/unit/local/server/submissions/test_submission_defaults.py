"""Defaults of a project: they fill what a submission leaves open, and refuse nothing."""

from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing

from weir.cli.queues.options import LimitOptions, limit_fields
from weir.scenario_io.reading import parse_scenario
from weir.scenario_io.writing import write_scenario

DEFAULTS = {"type": "build", "priority": "low", "gpus": 1, "max_runtime": "2h", "grace": "90s"}


async def submitted(stands: Standing, project: str, **body: Any) -> dict[str, Any]:
    words = {"project": project, "command": ["sleep", "3600"], **body}
    made = await stands.admin.post("/api/v1/workloads", json=words)
    assert made.status_code == 201, made.text
    name = made.json()["name"]
    row: dict[str, Any] = await stands.get(f"workloads/{name}")
    return row


async def test_defaults_fill_what_a_submission_leaves_open(stands: Standing) -> None:
    made = await stands.project("team", 2, defaults=DEFAULTS)
    assert made["defaults"] == {
        "type": "build",
        "priority": 25,
        "preemptible": None,
        "gpus": 1.0,
        "max_runtime": 7200.0,
        "grace": 90.0,
    }
    row = await submitted(stands, "team")
    assert (row["type"], row["priority"], row["preemptible"]) == ("build", 25, True)
    assert (row["devices"], row["max_runtime_s"]) == (1.0, 7200.0)
    other = await submitted(stands, "default")
    assert (other["type"], other["priority"], other["devices"]) == ("train", 50, 0.0)
    assert other["max_runtime_s"] is None


async def test_what_a_submission_says_comes_before_the_defaults(stands: Standing) -> None:
    await stands.project("team", 2, defaults={**DEFAULTS, "preemptible": False})
    row = await submitted(
        stands, "team", type="train", priority=60, preemptible=True, gpus=0, max_runtime="3h", grace=5
    )
    assert (row["type"], row["priority"], row["preemptible"]) == ("train", 60, True)
    assert (row["devices"], row["max_runtime_s"]) == (0.0, 3 * 3600.0)
    fixed = await submitted(stands, "team")
    assert fixed["preemptible"] is False


async def test_gpus_are_no_default_where_any_group_says_some(stands: Standing) -> None:
    await stands.project("team", 4, defaults={"gpus": 1})
    groups = [{"name": "driver"}, {"name": "worker", "gpus": 2}]
    assert (await submitted(stands, "team", pods=groups))["devices"] == 2.0
    gang = [{"count": 2}]
    assert (await submitted(stands, "team", pods=gang))["devices"] == 2.0


async def test_a_default_is_cut_to_what_its_person_may_ask_for(stands: Standing) -> None:
    await stands.project(
        "team",
        2,
        defaults={"priority": 90, "max_runtime": "10h", "grace": "1h"},
        max_priority=70,
        times={"max_runtime": "4h"},
        person_limits_of={"mia": {"max_runtime": "1h"}},
    )
    mia = await stands.member("team")
    made = await mia.post("/api/v1/workloads", json={"project": "team", "command": ["sleep", "3600"]})
    assert made.status_code == 201, made.text
    row = await stands.get(f"workloads/{made.json()['name']}")
    assert (row["priority"], row["max_runtime_s"]) == (70, 3600.0)


@pytest.mark.parametrize(
    "defaults",
    [
        {"type": "other"},
        {"priority": "highest"},
        {"gpus": -1},
        {"max_runtime": 0},
        {"grace": "soon"},
        {"cpu": 1},
    ],
)
async def test_a_default_that_cannot_be_is_refused(stands: Standing, defaults: dict[str, object]) -> None:
    body = {"name": "team", "quota": {"gpu": 1}, "defaults": defaults}
    assert (await stands.admin.put("/api/v1/projects/team", json=body)).status_code == 422


def test_defaults_are_read_back_from_a_scenario_as_written() -> None:
    text = """
projects: [{name: team, defaults: {type: build, priority: high, preemptible: false, gpus: 0.5, max_runtime: 2h, grace: 90s}}]
cluster: {nodes: [{name: n, gpus: 1}]}
"""
    scenario = parse_scenario(text, "given.yaml")
    (queue,) = scenario.queues
    assert (queue.defaults.priority, queue.defaults.gpus_milli, queue.defaults.grace_s) == (75, 500, 90.0)
    assert parse_scenario(write_scenario(scenario), "written.yaml") == scenario


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("type=build", ("type", "build")),
        ("priority=high", ("priority", "high")),
        ("priority=30", ("priority", 30)),
        ("preemptible=false", ("preemptible", False)),
        ("gpus=0.5", ("gpus", "0.5")),
        ("max-runtime=8h", ("max_runtime", "8h")),
        ("gpus=none", ("gpus", None)),
    ],
)
def test_defaults_are_read_from_the_command_line(written: str, field: tuple[str, object]) -> None:
    assert limit_fields(LimitOptions(default=[written])) == {"defaults": dict([field])}


@pytest.mark.parametrize("written", ["cpu=1", "gpus", "gpus=", "preemptible=maybe"])
def test_defaults_that_cannot_be_read_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="--default"):
        limit_fields(LimitOptions(default=[written]))


async def test_a_part_of_a_gpu_can_be_the_default_and_a_limit(stands: Standing) -> None:
    made = await stands.project("team", 2, defaults={"gpus": "0.5"}, person_limits={"gpus": "0.5"})
    assert (made["defaults"]["gpus"], made["person_limits"]["gpus"]) == (0.5, 0.5)
    assert (await submitted(stands, "team", name="first"))["devices"] == 0.5
    await stands.until("first", "running")
    await submitted(stands, "team", name="second")
    why = await stands.until_true(lambda answer: answer["reason"], "workloads/second/why")
    assert why["reason"]["why"] == "person_limit"
