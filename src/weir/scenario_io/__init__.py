"""What people write: scenario and policy files, read with every mistake at once, and written back.

A file goes through four steps, each a module: its text becomes values that know their line
(`document`), the values are held against the shape of the format (`written`), names and amounts
are held against one another (`names`, `checks`, `placing`), and the nouns are made (`reading`).
Nothing is guessed on the way; what is refused is refused with what would be right.
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
