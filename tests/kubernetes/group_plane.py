"""A control plane that serves the pod groups of `scheduling.k8s.io`, which are an alpha feature."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tools.controlplane.binaries import Binaries
from tools.controlplane.plane import ControlPlane

GROUPS_API = "scheduling.k8s.io/v1alpha2"
FEATURES = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption")


@contextmanager
def plane_with_groups(binaries: Binaries) -> Iterator[ControlPlane]:
    """Run such a control plane."""
    os.environ.setdefault("GOGC", "800")
    with ControlPlane(binaries, features=FEATURES, alpha_apis=[GROUPS_API]) as running:
        running.grant_all("weir")
        yield running
