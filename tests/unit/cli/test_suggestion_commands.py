"""Suggestions that shorten a run or name another GPU model come with their command."""

import pytest

from weir.cli.why import as_command


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
