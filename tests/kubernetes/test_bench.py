"""The benchmark at a small size: cases end, with what they say they measure."""

from bench.kubernetes import measure
from tools.controlplane.cluster import Cluster

from weir.service.engine_build import engine_kind


def test_cases_of_weirs(cluster: Cluster) -> None:
    cases = ["made", "reclaim", "reason"]
    rows = {row["case"]: row for row in measure(cluster.plane, 2, cases)}
    assert {rows[case]["engine"] for case in cases} == {engine_kind()}, "as this interpreter has it"
    assert rows["made"]["pods"] == 16
    assert rows["made"]["writes"]["POST pods/binding 201"] == 16
    assert rows["reclaim"]["pods"] == 1
    assert rows["reclaim"]["writes"]["POST pods/eviction 201"] == 8
    assert rows["reason"]["said"]["why"] == "insufficient_capacity"
