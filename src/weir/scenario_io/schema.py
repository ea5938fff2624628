"""JSON Schemas of the files people write, for editors that complete and check while they type."""

from typing import Any

from weir.model.policy import Policy
from weir.scenario_io.specs import ScenarioEntry

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def scenario_schema() -> dict[str, Any]:
    """The schema of a scenario file."""
    schema = ScenarioEntry.model_json_schema()
    return {"$schema": _DIALECT, **schema, "title": "Weir scenario"}


def policy_schema() -> dict[str, Any]:
    """The schema of a policy file."""
    schema = Policy.model_json_schema()
    return {"$schema": _DIALECT, **schema, "title": "Weir policy"}
