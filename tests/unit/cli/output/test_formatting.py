"""Texts for people: sentences."""

import pytest

from weir.cli.output.formatting import number, sentence


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("no node has 2 free GPUs", "No node has 2 free GPUs."),
        ("it has failed", "It has failed."),
        ("titan has 0 GPUs free, and a pod asks for 1", "titan has 0 GPUs free, and a pod asks for 1."),
        (
            "titan has no GPU with as much free as a pod asks for",
            "titan has no GPU with as much free as a pod asks for.",
        ),
    ],
)
def test_name_of_a_node_keeps_its_case_at_the_start_of_a_sentence(text: str, written: str) -> None:
    assert sentence(text) == written


@pytest.mark.parametrize(
    ("value", "text"), [(0.001, "0.001"), (0.00012, "0.0001"), (1e-9, "0"), (0.0, "0"), (1.004, "1")]
)
def test_small_amount_is_not_nothing(value: float, text: str) -> None:
    assert number(value) == text
