"""Calls of a job: no value of the job raises an exception, or keeps its other values from being sent."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weir
from weir.client import cluster_messages, in_job
from weir.client.cluster_messages import ClusterMessages
from weir.kubernetes.query.messages.job_messages import parse_message


class Odd:
    """A value whose conversion fails in a way of its own."""

    def __float__(self) -> float:
        raise ZeroDivisionError

    def __int__(self) -> int:
        raise ZeroDivisionError


VALUES: dict[str, Any] = {
    "huge": 10**400,
    "vast": 1e305,
    "nan": math.nan,
    "inf": -math.inf,
    "odd": Odd(),
    "text": "x",
    "none": None,
}
STEPS: tuple[Any, ...] = (math.nan, math.inf, 10**400, 10**16, "x", Odd(), [])


@pytest.fixture(autouse=True)
def outside_a_sweep() -> Iterator[None]:
    in_job._rungs.cache_clear()
    yield
    in_job._rungs.cache_clear()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_odd_values_of_a_report_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any
) -> None:
    monkeypatch.setenv("WEIR_POD_DIRECTORY", str(tmp_path))
    weir.report(step=step, loss=0.5, **VALUES)
    weir.checkpointed(step)
    lines = [json.loads(line) for line in (tmp_path / "notes.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["step"], line["values"]) for line in lines] == [
        ("report", None, {"loss": 0.5}),
        ("checkpointed", None, {}),
    ]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_cluster_takes_the_message_whatever_the_values(monkeypatch: pytest.MonkeyPatch, step: Any) -> None:
    messages = ClusterMessages({})
    monkeypatch.delenv("WEIR_POD_DIRECTORY", raising=False)
    monkeypatch.setattr(in_job, "is_in_cluster", lambda: True)
    monkeypatch.setattr(cluster_messages, "messages_of_this_process", lambda: messages)
    monkeypatch.setattr(ClusterMessages, "_run", lambda self: None)
    weir.report(step=step, loss=0.5, **VALUES)
    weir.busy("loads", until=1e30)
    parts = {kind: {**part, "ageSeconds": 0.0} for kind, part in messages._parts.items() if kind == "busy"}
    parts["busy"].pop("at")
    taken = parse_message(json.dumps({**messages._parts, **parts}).encode())
    assert taken.report is not None
    assert dict(taken.report.values) == {"loss": 0.5}
    assert taken.busy is not None


def test_rung_with_a_huge_metric_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_SWEEP_METRIC", "loss")
    monkeypatch.setenv("WEIR_SWEEP_RUNGS", "1,3")
    monkeypatch.setenv("WEIR_SWEEP_MESSAGE", str(tmp_path / "message"))
    weir.report(step=1, loss=10**400)
    assert (tmp_path / "message").exists()
