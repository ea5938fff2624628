"""How tests are shared out among the processes of a run."""

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tools import prefork

HERE = Path(__file__).parent
LANES = 3
"""Tests in front of a control plane go through so many processes, file by file. They mostly wait."""
LONG_S = {
    "test_hostile.py": 60,
    **dict.fromkeys(("test_cli.py", "test_installed.py"), 45),
    **dict.fromkeys(("test_acting.py", "test_ends.py", "test_week.py"), 33),
    **dict.fromkeys(("test_backend.py", "test_churn.py", "test_constraints.py"), 25),
    **dict.fromkeys(("test_bench.py", "test_policies.py", "test_real_node.py"), 20),
    **dict.fromkeys(
        ("test_members.py", "test_reflector.py", "test_scheduler_config.py", "test_webhooks.py"), 15
    ),
    **dict.fromkeys(("test_leaving.py", "test_namespace_end.py", "test_why_pods_wait.py"), 13),
}
SHORT_S = 9
"""Seconds, about, that files take in front of a control plane on two quiet cores; those of all others are few."""
TOGETHER = {
    *("tests/e2e/test_up.py", "tests/unit/cli/test_tour.py", "tests/unit/local/server/test_overload.py"),
    *("tests/unit/local/server/test_rest_schema.py", "tests/test_architecture.py"),
    "tests/e2e/test_documented_commands.py",
    "tests/browser/test_dashboard.py",
}
"""Files whose tests share a server, or something else that takes long to make."""


settings.register_profile(
    "weir",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("weir")  # nothing is said about how long an example may take on a busy machine


def pytest_configure() -> None:
    """Leave garbage alone while thousands of tests are collected; name the prefork server of this run."""
    gc.disable()
    os.environ.setdefault(prefork.ADDRESS, f"weir-tests-{os.getpid()}")


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and never in what was collected: that stays to the end."""
    gc.freeze()
    gc.enable()


def lanes_of(files: list[str]) -> dict[str, str]:
    """Share out files among the lanes, the longest first, each to the lane with the least to do."""
    loads = [0] * LANES
    lanes = {}
    for name in sorted(files, key=lambda name: -LONG_S.get(name, SHORT_S)):
        lane = loads.index(min(loads))
        loads[lane] += LONG_S.get(name, SHORT_S)
        lanes[f"tests/kubernetes/{name}"] = f"lane {lane}"
    return lanes


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Lanes and files first, from the beginning on; beside and after them one test after another."""
    from xdist.scheduler import LoadScopeScheduling

    lanes = lanes_of(sorted(path.name for path in (HERE / "kubernetes").glob("test_*.py")))

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return lanes.get(file, file if file in TOGETHER else nodeid)

    return Lanes(config, log)
