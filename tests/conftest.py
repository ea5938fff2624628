"""Settings of all tests: hypothesis, garbage collection, and the order in which processes take tests."""

import gc
import os
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tools import prefork

settings.register_profile(
    "weir",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_PLAIN_LOG = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
settings.load_profile("weir")  # nothing is said about how long an example may take on a busy machine


def pytest_configure() -> None:
    """Leave garbage alone while thousands of tests are collected; name the prefork server of this run.

    Errors are logged as servers do it: to draw frames around a traceback takes half a second.
    """
    gc.disable()
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _PLAIN_LOG])
    os.environ.setdefault(prefork.ADDRESS, f"weir-tests-{os.getpid()}")


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and never in what was collected: that stays to the end."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share out the tests among the processes of a run."""
    from tests.lanes import Lanes

    return Lanes(config, log)
