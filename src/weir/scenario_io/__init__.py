"""Reading and writing of scenario and policy files. All mistakes of a file are reported at once.

Reading takes four steps: the text becomes values with their lines (`document`), the values are checked
against the format (`specs`, `partial`), names and amounts are checked against one another (`references`,
`checks`, `initial_placement`), and the nouns are built (`build`, `reading`). Every mistake has a correction.
"""

from weir.scenario_io.policies import parse_policy, read_policy
from weir.scenario_io.reading import parse_scenario, read_scenario
from weir.scenario_io.schema import policy_schema, scenario_schema
from weir.scenario_io.writing import write_scenario

__all__ = [
    "parse_policy",
    "parse_scenario",
    "policy_schema",
    "read_policy",
    "read_scenario",
    "scenario_schema",
    "write_scenario",
]
