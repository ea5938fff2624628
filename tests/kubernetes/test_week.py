"""A part of a week in a cluster: situations of daily life in random order, and the invariants after each.

WEIR_SEED chooses another order; WEIR_EFFORT multiplies the steps. `python -m tests.kubernetes.week` runs half an hour.
"""

import os
from collections.abc import Iterator

import pytest
from tests.kubernetes.group_plane import plane_with_groups
from tests.kubernetes.week.run import Pace, Week
from tests.kubernetes.week.setup import installed
from tests.kubernetes.week.table import SITUATIONS
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
SEED = int(os.environ.get("WEIR_SEED", "3918"))
"""By default an order with many kinds of situations in which Weir leads all the time."""
STEPS = 10 * EFFORT
PACE = Pace(step_s=0.5, patience_s=120.0, settle_s=240.0, max_failures=3)
KINDS_MIN = 60


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    with plane_with_groups(binaries) as running:
        yield running


def test_there_are_situations_enough() -> None:
    assert len(SITUATIONS) >= KINDS_MIN
    assert all(act.__doc__ for act in SITUATIONS.values())


def test_a_part_of_a_week(cluster: Cluster) -> None:
    with installed(cluster) as replicas, Week(cluster, replicas, SEED, PACE) as week:
        report = week.go(STEPS)
    print(report.text())
    assert not report.failures, "\n\n".join(report.failures)
    assert report.steps == STEPS
    assert sum(report.done.values()) > STEPS // 2
    assert report.checks["snapshots"] > 0, "no instance led"
    assert report.checks["bound by Weir"] > 0
