"""The examples are the same on every run, and as many as a run of all tests can afford."""

import os

from hypothesis import HealthCheck, settings

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, max_examples=40, suppress_health_check=CALM
)
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=CALM)
settings.load_profile(os.environ.get("WEIR_PROPERTIES", "ci"))
