"""Pods with a grace period of years, which hold GPUs that the quota of others guarantees."""

from collections.abc import Iterator

import pytest
from tests.kubernetes.constraints import scheduling
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import pod

YEARS_S = 2**31
MOST_S = 600
"""`max_stop_grace` of the default policy."""
NEVER_STOPS = {"fake.weir.dev/stops-after": "1000h"}


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-long-stops") as running:
        yield running


def test_stop_lasts_at_most_as_long_as_the_policy_allows_where_others_wait(
    cluster: Cluster, weir: Weir
) -> None:
    api, owner, tenant = cluster.api, cluster.namespace(), cluster.namespace()
    nodes = cluster.add_nodes(3, gpus=8)
    api.create(project(owner, 24), project(tenant, 0))
    weir.check()
    long = [pod(tenant, f"long-{at}", 8, grace_s=YEARS_S, annotations=NEVER_STOPS) for at in range(2)]
    api.create(*long)
    api.create(pod(tenant, "short", 8, grace_s=45, annotations=NEVER_STOPS))
    cluster.until(lambda: len(cluster.running(tenant)) == len(nodes), "all to run on borrowed GPUs")
    paths = {name: f"/api/v1/namespaces/{tenant}/pods/{name}" for name in ("long-0", "long-1", "short")}

    def graces_s() -> list[int | None]:
        return [api.get(path)["metadata"].get("deletionGracePeriodSeconds") for path in paths.values()]

    api.delete(paths["long-0"])  # by the tenant
    assert graces_s() == [YEARS_S, None, None]
    api.create(*(pod(owner, f"owner-{at}", 8) for at in range(3)))
    cluster.until(lambda: graces_s() == [MOST_S, MOST_S, 45], lambda: f"the stops to be short: {graces_s()}")
    api.delete(f"/api/v1/namespaces/{tenant}/pods", grace_s=0)
    cluster.until(lambda: len(cluster.running(owner)) == 3, "the owner to run")
    weir.check()


def test_stop_that_no_one_waits_for_keeps_its_time(cluster: Cluster, weir: Weir) -> None:
    api, owner, tenant = cluster.api, cluster.namespace(), cluster.namespace()
    api.create(project(owner, 8), project(tenant, 0))
    cluster.add_nodes(2, gpus=8)
    weir.check()
    api.create(*(pod(tenant, name, 8, grace_s=3600, annotations=NEVER_STOPS) for name in ("a", "b")))
    cluster.until(lambda: len(cluster.running(tenant)) == 2, "both to run")
    paths = [f"/api/v1/namespaces/{tenant}/pods/{name}" for name in ("a", "b")]
    for path in paths:
        api.delete(path)
    api.create(pod(owner, "owner", 8))

    def graces_s() -> list[int]:
        return sorted(api.get(path)["metadata"]["deletionGracePeriodSeconds"] for path in paths)

    cluster.until(lambda: graces_s()[0] == MOST_S, "the one with the nomination to be short")
    assert graces_s() == [MOST_S, 3600]
    api.delete(f"/api/v1/namespaces/{tenant}/pods", grace_s=0)
