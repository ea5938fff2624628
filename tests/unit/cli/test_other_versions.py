"""Answers of a server of another version: clients show words and leave out fields that they don't know."""

import importlib
import inspect
import json
import pkgutil
import warnings
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError
from tests.unit.client.fake import Fake, Said, page, row

from weir import api
from weir.api.workload_list import FROM_SERVER, Answer, WorkloadRow, _ShowUnknown
from weir.cli.main import main
from weir.client import Pool

ACTIVITY = {"state": "dreaming", "since_s": 1_000_000.0, "depth": 3}
NEWER = row(
    "train-2", status="moving", type="robotics", activity=ACTIVITY, gpu_access="walled", carbon_g=12.5
)
OLDER = {key: value for key, value in row("train-3").items() if key not in ("started_s", "nodes")}


@pytest.mark.filterwarnings("error")
def test_a_list_shows_rows_of_other_versions(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/workloads", page(row(), NEWER, OLDER))
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [name for name in ("train-1", "train-2", "train-3") if any(name in line for line in lines)] == [
        "train-1",
        "train-2",
        "train-3",
    ]
    assert any("train-2" in line and "moving" in line for line in lines)
    assert main(["list", "-o", "json"]) == 0
    shown = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert (shown["train-2"]["status"], shown["train-2"]["type"]) == ("moving", "robotics")
    assert "carbon_g" not in shown["train-2"]
    assert shown["train-3"]["nodes"] == []


def test_details_show_words_of_a_newer_server(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/workloads/train-2", NEWER)
    fake.on("GET", "/workloads/train-2/events", page())
    assert main(["describe", "train-2"]) == 0
    shown = capsys.readouterr().out
    assert "moving" in shown
    assert "dreaming for" in shown
    with Pool() as pool:
        assert pool.get("train-2").gpu_access == "walled"


def test_the_stream_shows_words_of_a_newer_server(fake: Fake) -> None:
    text = f"event: workload\nid: 1\ndata: {json.dumps(NEWER)}\n\n"
    fake.on("GET", "/stream", Said(pieces=(text,), content="text/event-stream"))
    with Pool() as pool:
        changed = next(iter(pool.stream()))
    assert isinstance(changed.row, WorkloadRow)
    assert changed.row.status == "moving"


def test_a_server_takes_no_word_that_it_doesnt_know() -> None:
    with pytest.raises(ValidationError):
        WorkloadRow.model_validate(NEWER)
    for wrong in (7, None, ["moving"]):
        with pytest.raises(ValidationError):
            WorkloadRow.model_validate({**NEWER, "status": wrong}, context=FROM_SERVER)
    with warnings.catch_warnings(action="error"):
        read = WorkloadRow.model_validate(NEWER, context=FROM_SERVER)
        assert json.loads(read.model_dump_json())["status"] == "moving"
    words = WorkloadRow.model_json_schema(mode="serialization")["properties"]["status"]["enum"]
    assert "running" in words, "schemas have the closed list"


def answers() -> Iterator[type[Answer]]:
    """Yield the forms of all answers."""
    for module in pkgutil.iter_modules(api.__path__, f"{api.__name__}."):
        for _, form in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(form, Answer):
                yield form


def closed_lists(annotation: Any) -> Iterator[Any]:
    """Yield the closed lists of words of an annotation that clients don't read as shown."""
    if get_origin(annotation) is Literal:
        yield annotation
    elif not any(isinstance(each, _ShowUnknown) for each in getattr(annotation, "__metadata__", ())):
        for each in get_args(annotation):
            yield from closed_lists(each)


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models of an annotation."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from models(each)


def test_no_answer_has_a_closed_list_that_a_newer_word_would_break() -> None:
    forms = set(answers())
    assert len(forms) > 50
    for form in forms:
        for name, field in form.model_fields.items():
            if not any(isinstance(each, _ShowUnknown) for each in field.metadata):
                assert not [*closed_lists(field.annotation)], f"{form.__name__}.{name}: write Shown[...]"
            for model in models(field.annotation):
                assert issubclass(model, Answer), f"{form.__name__}.{name} refuses fields that are new"
