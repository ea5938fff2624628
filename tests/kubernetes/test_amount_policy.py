"""Amounts of projects and departments: the API server refuses wrong ones by itself, with Weir up or down."""

from functools import partial
from typing import Any

import pytest
from tests.kubernetes.policy_site import answer, install_policies
from tools.controlplane.cluster import Cluster
from tools.controlplane.weir import install_kinds

from weir.kubernetes.crd.schemas import API_VERSION

AMOUNT = 'write a number, a quantity such as 500m or 40Gi, or "unlimited"'
LOW = "is below its quota: raise it, or lower the quota"
GOOD: list[dict[str, Any]] = [
    {},
    {"quota": {}, "limit": {}, "weight": {}},
    {"quota": {"gpu": 4}, "limit": {"gpu": 4}, "weight": {"gpu": "0.5"}},
    {"quota": {"gpu": "1500m", "memory": "40Gi"}, "limit": {"gpu": "1.5", "memory": "41Gi"}},
    {"quota": {"gpu.H100": 4, "gpu": "unlimited"}, "limit": {"gpu": "unlimited"}},
    {"quota": {f"nvidia.com/mig-{each}": each for each in range(64)}, "limit": {"nvidia.com/mig-63": 64}},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"quota": {"gpu": 4}, "limit": {"gpu": 2}}, f"the limit of gpu {LOW}"),
    ({"quota": {"gpu": "unlimited"}, "limit": {"gpu": 2}}, f"the limit of gpu {LOW}"),
    ({"quota": {"gpu": 1, "cpu": 8}, "limit": {"cpu": "7900m", "gpu": 2}}, f"the limit of cpu {LOW}"),
    ({"quota": {"gpu": -1}}, f"the quota of gpu is -1: {AMOUNT}"),
    ({"quota": {"gpu": "-500m"}}, f"the quota of gpu is -500m: {AMOUNT}"),
    ({"quota": {"gpu": 1}, "limit": {"gpu": "four"}}, f"the limit of gpu is four: {AMOUNT}"),
    (
        {"weight": {"gpu": "unlimited"}},
        'the weight of gpu is unlimited: write a number, or a fraction in quotes such as "0.5"',
    ),
]


@pytest.fixture
def site(cluster: Cluster) -> Cluster:
    install_kinds(cluster.api)
    install_policies(cluster)
    return cluster


@pytest.mark.parametrize("kind", ["Project", "Department"])
def test_the_server_refuses_wrong_amounts_and_names_them(site: Cluster, kind: str) -> None:
    for spec in GOOD:
        assert _refusal(site, kind, spec) == "", spec
    site.api.create(_object(kind, {"quota": {"gpu": 1}}))
    for spec, refusal in BAD:
        assert _refusal(site, kind, spec) == refusal, spec
        assert answer(partial(site.api.patch, f"{_path(kind)}/a", {"spec": spec})) == refusal, spec
    assert site.api.get(f"{_path(kind)}/a")["spec"] == {"quota": {"gpu": 1}}


def test_an_object_from_before_the_policy_can_be_labelled_and_deleted(cluster: Cluster) -> None:
    install_kinds(cluster.api)
    older = _object("Project", {"quota": {"gpu": "four"}})
    cluster.api.create({**older, "metadata": {"name": "a", "finalizers": ["weir.dev/in-use"]}})
    install_policies(cluster)
    path = f"{_path('Project')}/a"
    cluster.api.patch(path, {"metadata": {"labels": {"of": "vision"}}})
    wrong = answer(partial(cluster.api.patch, path, {"spec": {"priority": 1}}))
    assert wrong == f"the quota of gpu is four: {AMOUNT}"
    cluster.api.delete(path)
    cluster.api.patch(path, {"metadata": {"finalizers": []}})
    assert cluster.api.items(_path("Project")) == []


def _refusal(site: Cluster, kind: str, spec: dict[str, Any]) -> str:
    return answer(partial(site.api.post, f"{_path(kind)}?dryRun=All", _object(kind, spec, "b")))


def _path(kind: str) -> str:
    return f"/apis/{API_VERSION}/{kind.lower()}s"


def _object(kind: str, spec: dict[str, Any], name: str = "a") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
