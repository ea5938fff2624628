"""Ledgers of conversions name what an imported queue loses, and weights and limits keep their meaning."""

from typing import Any

from tests.unit.kubernetes.migrate.test_migrate import (
    by_name,
    cluster_queue,
    flavor,
    from_kueue,
    project,
    queue,
    sentences,
)

from weir.kubernetes.migrate import kai, kueue, runai
from weir.kubernetes.translate.device_resources import DeviceResources


def test_kueue_quota_of_slices_counts_with_their_weight() -> None:
    slices = {"name": "nvidia.com/mig-1g.10gb", "nominalQuota": 14, "borrowingLimit": 7}
    parts = cluster_queue("parts", [{"name": "h100", "resources": [slices]}], cohortName="labs")
    devices = DeviceResources.weighted({"nvidia.com/gpu": 1000, "nvidia.com/mig-1g.10gb": 142})
    conversion = kueue.convert([parts], devices)
    spec = by_name(conversion)["Project parts"]
    assert (spec["quota"], spec["limit"]) == ({"gpu": "1.988"}, {"gpu": "2.982"})
    assert "each nvidia.com/mig-1g.10gb of h100 counts as 0.142 GPUs" in sentences(conversion, "changed")


def test_kueue_queue_that_covers_no_gpus_may_not_borrow_them() -> None:
    conversion = from_kueue(
        cluster_queue("processors", [flavor("f", cpu={"nominalQuota": 40})], cohortName="labs")
    )
    assert by_name(conversion)["Project processors"]["limit"] == {"gpu": 0}
    assert "it covers no GPUs: limit.gpu is 0" in sentences(conversion, "changed")


def test_kueue_fields_of_a_local_queue_are_in_the_ledger() -> None:
    spec = {"clusterQueue": "vision", "stopPolicy": "Hold", "fairSharing": {"weight": "3"}, "other": 1}
    conversion = from_kueue(
        cluster_queue("vision", [flavor("f", gpu={"nominalQuota": 4})]),
        {"kind": "LocalQueue", "metadata": {"name": "main", "namespace": "n1"}, "spec": spec},
    )
    left_out = sentences(conversion, "left out")
    for key in ("stopPolicy: Hold", "fairSharing: {'weight': '3'}", "other: 1"):
        assert f"LocalQueue n1/main: {key}" in left_out


def runai_pools(**pools: dict[str, Any]) -> Any:
    return runai.convert([project("vision", pools)])


def test_runai_limit_of_some_node_pools_is_named_as_lost() -> None:
    bounded = {"gpu": {"deserved": 2, "limit": 4}}
    conversion = runai_pools(default=bounded, h100={"gpu": {"deserved": 1, "limit": None}})
    assert "limit" not in by_name(conversion)["Project vision"]
    assert "gpu has no limit: only default has one" in sentences(conversion, "changed")
    conversion = runai_pools(default=bounded, h100=bounded)
    assert by_name(conversion)["Project vision"]["limit"] == {"gpu": 8}


def test_runai_second_weight_and_ranks_are_in_the_ledger() -> None:
    conversion = runai_pools(
        default={"gpu": {"deserved": 2, "overQuotaWeight": 2}, "rank": "High"},
        h100={"gpu": {"deserved": 1, "overQuotaWeight": 3}},
        a100={"gpu": {"deserved": 1, "overQuotaWeight": 2}},
    )
    assert by_name(conversion)["Project vision"]["weight"] == {"gpu": 2}
    left_out = sentences(conversion, "left out")
    assert "resources[1].gpu.overQuotaWeight: 3: a project has one weight, which is 2" in left_out
    assert "resources[2]" not in left_out
    assert "rank: High: spec.priority orders" in left_out


def test_runai_unknown_units_of_memory_are_left_out() -> None:
    conversion = runai_pools(default={"memory": {"deserved": 2, "limit": 4, "units": "TiB"}})
    assert by_name(conversion)["Project vision"] == {"namespaces": ["runai-vision"]}
    left_out = sentences(conversion, "left out")
    for key in ("deserved: 2", "limit: 4"):
        assert f"memory.{key}: TiB is no unit" in left_out


def test_name_that_the_api_server_refuses_is_left_out() -> None:
    conversion = kai.convert([queue("Research Labs"), queue("a.b-1"), queue("a" * 254)])
    assert [*by_name(conversion)] == ["Project a.b-1"]
    assert "Queue Research Labs: the whole object: its name is no name" in sentences(conversion, "left out")
