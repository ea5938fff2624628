"""Several submissions in one request: all of them are queued, or none."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from weir.api.submissions import Submission
from weir.scenario_io.specs import Entry

BATCH_MAX = 2000
MERGED_BYTES_MAX = 16 << 20
"""Limit of the size of a batch after its defaults are copied into each workload."""
_MERGED = ("env", "secrets")
"""Mappings that are merged key by key: a workload's own variables and labels beside the defaults."""


class SubmissionBatch(Entry):
    """Workloads to be queued together. `defaults` holds fields of all that don't have them.

    A condition such as `after_ok` may name another workload of the batch.
    """

    defaults: dict[str, Any] = Field(default={}, max_length=64)
    workloads: list[Submission] = Field(min_length=1, max_length=BATCH_MAX)

    @model_validator(mode="before")
    @classmethod
    def _merge(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        defaults, workloads = body.get("defaults"), body.get("workloads")
        if defaults and isinstance(workloads, list):
            size = len(json.dumps(defaults)) * len(workloads)
            if size > MERGED_BYTES_MAX:
                raise ValueError(
                    f"defaults: are {size:,} bytes in all workloads together, and at most "
                    f"{MERGED_BYTES_MAX:,} are allowed; put large parts into a file, or send several batches"
                )
        return merged(body)


def merged(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch in which each workload has the defaults for fields that it doesn't state."""
    defaults, workloads = body.get("defaults", {}), body.get("workloads")
    if not isinstance(defaults, Mapping) or not isinstance(workloads, list):
        return dict(body)
    return {**body, "workloads": [_with_defaults(workload, defaults) for workload in workloads]}


def _with_defaults(workload: Any, defaults: Mapping[str, Any]) -> Any:
    if not isinstance(workload, Mapping):
        return workload
    stated = {"command", "run"}.intersection(workload)  # one of them replaces the other
    completed = {key: value for key, value in defaults.items() if not (stated and key in ("command", "run"))}
    completed |= workload
    for key in _MERGED:
        own, others = workload.get(key), defaults.get(key)
        if isinstance(own, Mapping) and isinstance(others, Mapping):
            completed[key] = {**others, **own}
    return completed
