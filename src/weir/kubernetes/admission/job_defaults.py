"""Defaults for Jobs whose pods Weir schedules: an eviction is no failure, and the pause after it is short.

Only fields that the Job leaves out are written, and none of them changes when the Job fails by itself.
"""

from collections.abc import Mapping
from typing import Any

from weir.kubernetes.translate.annotations import PREFIX

ENDED = f"{PREFIX}ended"
"""A condition of pods that Weir stops for good. The policy below has the Job fail then, not make new pods."""
POLICY = {
    "rules": [
        {"action": "FailJob", "onPodConditions": [{"type": ENDED, "status": "True"}]},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}
RETRIES = 6
"""`backoffLimit` of Jobs that don't state it."""
INDICES_MAX = 100_000
"""Completions of a Job that the API server takes with these fields."""

Fields = dict[str, Any]


def job_defaults(spec: Mapping[str, Any]) -> Fields:
    """Return the fields to add to the spec of a new Job; none where it stays as it is."""
    if spec["template"]["spec"].get("restartPolicy") != "Never":
        return {}  # the API server allows these fields with "Never" only
    return {**_failure_policy(spec), **_retries_per_index(spec)}


def _failure_policy(spec: Mapping[str, Any]) -> Fields:
    if spec.get("podFailurePolicy"):
        return {}
    return {"podFailurePolicy": POLICY, "podReplacementPolicy": "Failed"}  # the first requires the second


def _retries_per_index(spec: Mapping[str, Any]) -> Fields:
    """Have each index pause by itself after evictions, and the Job fail exactly when it would have before.

    `backoffLimit` still bounds the failures of all pods together, and no index may fail more often than that.
    """
    stated = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
    if spec.get("completionMode") != "Indexed" or any(spec.get(field) is not None for field in stated):
        return {}
    completions, retries = spec.get("completions"), spec.get("backoffLimit", RETRIES)
    if not _is_count(completions) or int(completions or 0) > INDICES_MAX or not _is_count(retries):
        return {}
    return {"backoffLimitPerIndex": retries, "maxFailedIndexes": 0}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
