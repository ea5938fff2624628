"""Every scenario under this folder is played and held against what it expects: the specification.

The scenarios in `reference` come from schedulers that keep shares at every instant, as the preset `fair` does.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from weir.model.expectations import differences
from weir.model.policy import Policy
from weir.scenario_io.reading import parse_scenario, read_scenario
from weir.scenario_io.writing import write_scenario
from weir.simulation.scenario_runner import play

HERE = Path(__file__).parent
FILES = sorted(path for path in HERE.rglob("*") if path.suffix in (".yaml", ".json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(HERE)))
def test_comes_out_as_expected_and_reads_back_as_it_was_written(file: Path) -> None:
    scenario = read_scenario(file)
    assert parse_scenario(write_scenario(scenario), "written.yaml") == scenario
    if file.parent.name == "reference":
        scenario = replace(scenario, policy=Policy(preset="fair"))
    played = play(scenario, scenario.expect.cycles, scenario.expect.stable)
    assert differences(scenario.expect, played) == []
