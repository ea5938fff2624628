"""Templates: submissions with parameters, kept for the people of a project."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.local.server.in_process_server import SMALL, Standing, standing

PARAMETERS = [
    {"name": "lr", "meaning": "learning rate"},
    {"name": "epochs", "default": 3},
    {"name": "gpus", "default": 1},
    {"name": "retries", "default": 2},
]
WORKLOAD = {
    "command": "python train.py --lr ${{ lr }} --epochs=${{epochs}}",
    "env": {"RATE": "${{ lr }}", "HOME_OF": "$HOME ${HOME} {lr}"},
    "retries": "${{ retries }}",
    "gpus": "${{ gpus }}",
    **SMALL,
}
PATH = "/api/v1/projects/default/templates/train"


async def save(stands: Standing, workload: dict[str, Any], parameters: Any = PARAMETERS) -> httpx.Response:
    return await stands.admin.put(PATH, json={"parameters": parameters, "workload": workload})


async def fill(client: httpx.AsyncClient, **values: Any) -> httpx.Response:
    return await client.post(f"{PATH}/fill", json={"values": values})


async def test_template_is_filled_and_queued(stands: Standing) -> None:
    saved = await save(stands, WORKLOAD)
    assert saved.status_code == 200, saved.text
    (row,) = (await stands.get("projects/default/templates"))["items"]
    assert [each["default"] for each in row["parameters"]] == [None, "3", "1", "2"]
    assert row["workload"] == {**WORKLOAD, "project": "default"}
    filled = (await fill(stands.admin, lr=0.1, retries="5")).json()["workload"]
    assert filled["command"] == ["python", "train.py", "--lr", "0.1", "--epochs=3"]
    assert filled["env"] == {"RATE": "0.1", "HOME_OF": "$HOME ${HOME} {lr}"}
    assert (filled["retries"], filled["gpus"], filled["project"]) == (5, "1", "default")
    made = await stands.admin.post("/api/v1/workloads", json=filled)
    assert made.status_code == 201, made.text
    assert made.json()["devices"] == 1


async def test_value_stays_one_text(stands: Standing) -> None:
    assert (await save(stands, WORKLOAD)).status_code == 200
    for value in (
        "1 --evil",
        "a\nretries: 9",
        "'; rm -rf /; '",
        '", "x": "',
        "${{ epochs }}",
        "\\1",
        "$(id)",
    ):
        filled = (await fill(stands.admin, lr=value)).json()["workload"]
        assert filled["command"] == ["python", "train.py", "--lr", value, "--epochs=3"]
        assert (filled["env"]["RATE"], filled["retries"]) == (value, 2)
        assert filled.keys() == {*WORKLOAD, "project"}
    wrong = (await fill(stands.admin, lr="1", retries="[9]")).json()["workload"]
    refused = await stands.admin.post("/api/v1/workloads", json=wrong)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "retries"


@pytest.mark.parametrize(
    ("values", "field", "sentence"),
    [
        ({}, "values.lr", "values.lr: has no default; write a value"),
        (
            {"lr": "1", "epoch": "2"},
            "values.epoch",
            "values.epoch: the template has no such parameter; did you mean epochs?",
        ),
        ({"lr": ["1"]}, "values.lr", "is no text"),
    ],
)
async def test_unusable_values_are_refused(
    stands: Standing, values: dict[str, Any], field: str, sentence: str
) -> None:
    assert (await save(stands, WORKLOAD)).status_code == 200
    refused = await fill(stands.admin, **values)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["field"] == field
    assert sentence in error["message"]


LR = [{"name": "lr", "default": "1"}]


@pytest.mark.parametrize(
    ("workload", "parameters", "field", "sentence"),
    [
        ({"command": "a ${{ lr }}"}, [], "workload.command", "there is no parameter lr"),
        ({"command": "a ${{ l-r }} ${{ lr }}"}, LR, "workload.command", "'l-r' is no parameter"),
        ({"command": ["a", "${{ lr"]}, [], "workload.command[1]", "is no parameter; write ${{ NAME }}"),
        ({"command": "a"}, LR, "parameters[0]", "lr: is never used"),
        ({"command": "a", "env": {"${{ lr }}": "1"}}, LR, "workload.env", "not in a key"),
        ({"run": "a ${{ lr }}\n"}, LR, "workload.run", "write NAME: ${{ lr }} under env"),
        ({"command": "a ${{ lr }}"}, [*LR, *LR], "parameters[1].name", "is there twice"),
        ({"command": "a ${{ lr }}"}, [{**LR[0], "name": "l-r"}], "parameters[0].name", "'l-r' can't be one"),
        ({"command": "a ${{ lr }}"}, [{**LR[0], "meaning": "a\nb"}], "parameters[0].meaning", "one line"),
        ({"command": "a", "gpus": "${{ lr }}"}, [{**LR[0], "default": "x"}], "pods[0].gpus", "'x'"),
        ({"command": "a", "gpus": "${{ lr }}"}, [{**LR[0], "default": "999"}], "pods[0]", "999 GPUs"),
        ({"command": "a", "gpu": "${{ lr }}"}, LR, "gpu", "unknown key gpu"),
        (
            {"command": "a ${{ lr }}", "project": "other"},
            LR,
            "workload.project",
            "write default, or leave it",
        ),
        ({"command": "a", "pods": [1, "${{ lr }}"]}, [{"name": "lr"}], "pods[1]", "is not a mapping"),
        ({"command": "a ${{ lr }}", "retries": -1}, [{"name": "lr"}], "retries", "is negative"),
    ],
)
async def test_unusable_template_is_refused(
    stands: Standing, workload: dict[str, Any], parameters: Any, field: str, sentence: str
) -> None:
    refused = await save(stands, workload, parameters)
    assert refused.status_code == 422, refused.text
    found = {each["field"]: each["message"] for each in refused.json()["errors"]}
    assert field in found, found
    assert sentence in found[field]
    assert (await stands.get("projects/default/templates"))["total"] == 0


async def test_fields_of_required_parameters_are_checked_at_use(stands: Standing) -> None:
    workload = {**WORKLOAD, "topology": {"name": "net", "required": "${{ lr }}"}, "max_runtime": "${{ lr }}"}
    assert (await save(stands, workload)).status_code == 200
    filled = (await fill(stands.admin, lr="1h")).json()["workload"]
    refused = await stands.admin.post("/api/v1/workloads", json=filled)
    assert refused.status_code == 422
    assert {each["field"] for each in refused.json()["errors"]} == {"topology.name"}


async def test_filled_texts_are_bounded(stands: Standing) -> None:
    many = {**WORKLOAD, "env": {"X": "${{lr}}" * 10_000}}
    assert (await save(stands, many)).status_code == 200
    refused = await fill(stands.admin, lr="x" * 30_000)
    assert refused.status_code == 413
    assert "write at most" in refused.json()["detail"]


async def test_leads_save_and_members_use(tmp_path: Path) -> None:
    async with standing(tmp_path / "home") as stands:
        await stands.project("own", 1)
        path = "/api/v1/projects/own/templates/train"
        body = {"workload": {"command": ["true"], "gpus": 0, **SMALL}}
        async with (
            await stands.member("own", user="lea", role="lead") as lead,
            await stands.member("own", user="mia") as member,
            await stands.member("own", user="vic", role="viewer") as viewer,
            await stands.member("default", user="oli", role="lead") as other,
        ):
            for client in (member, viewer, other):
                assert (await client.put(path, json=body)).status_code == 403
            assert (await lead.put(path, json=body)).status_code == 200
            for client, status in ((member, 200), (lead, 200), (viewer, 403), (other, 403)):
                assert (await client.get(path)).status_code == status
                assert (await client.get("/api/v1/projects/own/templates")).status_code == status
                assert (await client.post(f"{path}/fill", json={})).status_code == status
            assert (await member.delete(path)).status_code == 403
            assert (await lead.delete(path)).status_code == 204
            assert (await lead.delete(path)).status_code == 404
            assert (await lead.put(path, json=body)).status_code == 200
        assert (await stands.admin.delete("/api/v1/projects/own")).status_code == 200
        assert stands.pool.store.templates.all("own") == []


async def test_templates_outlast_a_restart(tmp_path: Path) -> None:
    async with standing(tmp_path / "home") as stands:
        assert (await save(stands, WORKLOAD)).status_code == 200
    async with standing(tmp_path / "home") as stands:
        assert (await fill(stands.admin, lr="1")).json()["workload"]["env"]["RATE"] == "1"
