"""The benchmark of hopeless owners, on a small cluster: its cycles can't do anything."""

import pytest
from bench.hopeless_owners import PROTECTIONS, measure


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_protection(protection: str) -> None:
    assert measure(protection, nodes=4, owners=8, preset="balanced")["ms_p50"]
