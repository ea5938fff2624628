"""Number of examples: as many as a run of all tests affords, the same on every run; more on request.

A run of all tests tries a quarter of the examples. WEIR_EFFORT=50 tries fifty times as many as are named,
other ones on every run.
"""

import os

from hypothesis import HealthCheck, settings

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))


def examples(number: int) -> settings:
    """Return the settings for a property, with its number of examples in a run of all tests."""
    return settings(
        max_examples=number * EFFORT if EFFORT > 1 else max(1, number // 4),
        derandomize=EFFORT == 1,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
