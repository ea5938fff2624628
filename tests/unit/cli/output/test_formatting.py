"""Texts for people: sentences."""

import pytest

from weir.cli.output.formatting import sentence


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
