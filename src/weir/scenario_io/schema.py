"""JSON Schemas of scenario and policy files, for completion and checks in editors."""

from typing import Any

from weir.model.policy import Policy
from weir.scenario_io.specs import ScenarioEntry

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def scenario_schema() -> dict[str, Any]:
    """Return the schema of scenario files."""
    schema = ScenarioEntry.model_json_schema()
    return {"$schema": _DIALECT, **schema, "title": "Weir scenario"}


def policy_schema() -> dict[str, Any]:
    """Return the schema of policy files."""
    schema = Policy.model_json_schema()
    return {"$schema": _DIALECT, **schema, "title": "Weir policy"}
