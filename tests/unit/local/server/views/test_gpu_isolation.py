"""Words for the isolation of GPUs: nothing is called enforced where nothing enforces it."""

import pytest

from weir.local.server.views.gpu_isolation import gpu_isolation
from weir.model.workloads import PodGroup, Request, Workload

WHOLE, HALF = Request(devices=1), Request(devices=1, share_milli=500)
MEMORY, NO_GPU = Request(devices=1, share_milli=0, gpu_memory=1 << 30), Request(devices=0)


UNLIMITED = "the driver refuses"


@pytest.mark.parametrize(
    ("request_", "rules", "virtual", "why", "expected"),
    [
        (WHOLE, "cgroup v1", False, UNLIMITED, ("enforced", "enforced", "cgroup v1", "", "")),
        (WHOLE, "mount namespace", False, UNLIMITED, ("enforced", "enforced", "mount namespace", "", "")),
        (WHOLE, "", False, "", ("cooperative", "cooperative", "", "", "")),
        (WHOLE, "", True, "", ("none", "none", "", "", "")),
        (HALF, "cgroup v1", False, UNLIMITED, ("enforced", "cooperative", "cgroup v1", "", UNLIMITED)),
        (HALF, "cgroup v2", False, "", ("enforced", "enforced", "cgroup v2", "driver", "")),
        (HALF, "", False, "", ("cooperative", "cooperative", "", "", "other jobs can open its GPUs")),
        (HALF, "", True, "", ("none", "none", "", "", "")),
        (HALF, "cgroup v1", True, "", ("enforced", "none", "cgroup v1", "", "")),
        (MEMORY, "cgroup v2", False, UNLIMITED, ("enforced", "cooperative", "cgroup v2", "", UNLIMITED)),
        (MEMORY, "cgroup v2", False, "", ("enforced", "enforced", "cgroup v2", "driver", "")),
        (NO_GPU, "cgroup v1", False, "", (None, None, "", "", "")),
        (NO_GPU, "", True, "", (None, None, "", "", "")),
    ],
)
def test_isolation_is_called_what_it_is(
    request_: Request, rules: str, virtual: bool, why: str, expected: tuple[str | None, ...]
) -> None:
    workload = Workload("job", "team", (PodGroup("worker", request_, 1, 1),), 1, 0.0)
    assert gpu_isolation(workload, rules, virtual=virtual, memory_not_limited=why) == expected


def test_a_gang_with_one_share_is_as_weak_as_the_share() -> None:
    groups = (PodGroup("lead", WHOLE, 1, 1), PodGroup("worker", HALF, 2, 2))
    workload = Workload("job", "team", groups, 1, 0.0)
    found = gpu_isolation(workload, "cgroup v2", virtual=False, memory_not_limited=UNLIMITED)
    assert found.memory == "cooperative"
