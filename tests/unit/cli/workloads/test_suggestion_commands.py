"""Suggestions that shorten a run or name another GPU model come with their command."""

import pytest

from weir.api.answers import QueueRow, WhyAnswer
from weir.cli.output.terminal import Screen
from weir.cli.workloads.why import as_command, suggestion_lines


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"max_runtime": "118m"}, "weir submit --max-runtime 118m ..."),
        ({"gpu_models": ["A100"]}, "weir submit --gpu-model A100 ..."),
        ({"node_selector": None}, ""),
    ],
)
def test_constraints_and_times_are_options_of_submit(change: dict[str, object], answer: str) -> None:
    assert as_command(change, "a") == answer


def test_suggestions_that_are_withheld_are_not_called_none() -> None:
    here = Screen(None, None, colour=False)
    waits = WhyAnswer(
        name="vision/a", status="pending", reason=None, queues=[QueueRow(name="vision", kind="project")]
    )
    assert "Nothing that was tried" in suggestion_lines(waits, here)[-1]
    (_, line) = suggestion_lines(waits.model_copy(update={"withheld": True}), here)
    assert line.startswith("Suggestions may name workloads of others")
