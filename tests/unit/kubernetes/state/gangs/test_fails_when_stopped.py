"""Owners that fail when they are stopped, unless people write what lets Weir suspend them."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import maker, node, pod, project, reference
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.writes.statuses.fields import notices

TOLD = (
    "Its RayJob may fail for good when it is stopped for other work. "
    "Write spec.shutdownAfterJobFinishes: true."
)


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("RayJob", {"rayClusterSpec": {"workerGroupSpecs": []}}, [TOLD]),
        ("RayJob", {"rayClusterSpec": {"workerGroupSpecs": []}, "shutdownAfterJobFinishes": True}, []),
        ("RayJob", {"clusterSelector": {"a": "b"}}, []),
        ("RayCluster", {"workerGroupSpecs": []}, []),
    ],
)
def test_the_owner_of_a_ray_job_hears_before_a_stop_that_it_fails_by_it(
    kind: str, spec: dict[str, Any], told: list[str]
) -> None:
    made = maker(kind, "ray.io/v1", "ray", "r1", spec)
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", made)
    here.hear("pods", pod("head", owner=reference(made), labels={"ray.io/group": "headgroup"}))
    here.step()
    gang = here.backend.cluster_state.registry.named[f"team/{kind.lower()}-ray"]
    assert list(notices(gang)) == [("FailsWhenStopped", sentence) for sentence in told]
