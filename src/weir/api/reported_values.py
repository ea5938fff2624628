"""Values that jobs report: the newest of each name."""

from collections.abc import Mapping

REPORTED_MAX = 64
"""Number of reported values kept for a workload: the latest ones."""


def merged_values(before: Mapping[str, float], values: Mapping[str, float]) -> dict[str, float]:
    """Return earlier values with new ones, of which the latest are kept."""
    kept = {name: value for name, value in before.items() if name not in values}
    return dict(list({**kept, **values}.items())[-REPORTED_MAX:])


def progress_of(values: Mapping[str, float]) -> float | None:
    """Return the part of the work that is done: the value called `progress`, if it is a part of 1."""
    part = values.get("progress")
    return part if part is not None and 0.0 <= part <= 1.0 else None
