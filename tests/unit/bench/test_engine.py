"""The engine's benchmark: every case at a small size. What each asserts of the plan is the test."""

import pytest
from bench import engine
from bench.engine import CASES

from weir.model.policy import Policy


@pytest.mark.parametrize("preset", ["throughput", "fair"])
@pytest.mark.parametrize("case", CASES)
def test_case(case: str, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CYCLES", 2)
    run, _, figure, _ = CASES[case]
    assert run(40, Policy.model_validate({"preset": preset}))[figure] > 0
