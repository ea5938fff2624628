"""The engine's benchmark: every case at a small size. What each asserts of the plan is the test."""

import pytest
from bench.engine import CASES

from weir.model.policy import Policy


@pytest.mark.parametrize("preset", ["throughput", "fair"])
@pytest.mark.parametrize("case", [case for case in CASES if case not in {"cycle", "backlog", "parts"}])
def test_case(case: str, preset: str) -> None:
    run, _, of, _ = CASES[case]
    assert run(40, Policy.model_validate({"preset": preset}))[of] > 0
