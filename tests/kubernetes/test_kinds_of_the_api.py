"""Weir's kinds are what the real API server takes: good objects pass, bad ones are refused with a sentence."""

from typing import Any

import msgspec
import pytest
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import install_kinds

from weir.kubernetes.crd.objects import (
    LifecycleStatus,
    NominatedPlacement,
    Nomination,
    OwnerFields,
    PendingReason,
    WorkloadStatus,
)
from weir.kubernetes.crd.schemas import API_VERSION, QueueStatus, change, plain
from weir.kubernetes.crd.workload_spec import spec_of
from weir.model.workloads import PodGroup, Request, TopologyRequest, Workload

STRICT = "?fieldManager=tests&fieldValidation=Strict"


@pytest.fixture
def kinds(cluster: Cluster) -> Cluster:
    """A cluster that has them."""
    install_kinds(cluster.api)
    return cluster


def tried(cluster: Cluster, kind: str, spec: dict[str, Any]) -> str:
    """Return the server's refusal of an object; empty if it is accepted."""
    plural = "topologies" if kind == "Topology" else f"{kind.lower()}s"
    written = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    try:
        cluster.api.post(f"/apis/{API_VERSION}/{plural}{STRICT}&dryRun=All", written)
    except ApiError as refused:
        return refused.message
    return ""


GOOD = [
    ("Department", {}),
    ("Department", {"parent": "b", "quota": {"gpu": "unlimited"}, "weight": {"gpu": "0.5"}, "priority": -1}),
    ("Project", {"quota": {"gpu": 4}, "limit": {"gpu": 4}, "namespaces": ["a", "b-1"]}),
    ("Project", {"quota": {"gpu": "1500m", "memory": "40Gi"}, "limit": {"gpu": "1.5", "memory": "41Gi"}}),
    ("Project", {"department": "d", "times": {"maxRuntime": "2h30m", "idleLimit": 0, "stopGrace": "90s"}}),
    ("Project", {"quota": {"gpu.H100": 4}, "limit": {"gpu": "unlimited"}}),
    ("Topology", {"levels": ["topology/block", "kubernetes.io/hostname"]}),
]
BAD = [
    ("Department", {"parent": "a"}, "can't be its own parent: name another, or leave parent out"),
    ("Project", {"times": {"lifetime": "soon"}}, "write a duration such as 90s, 10m or 2h30m, or 0 for none"),
    ("Project", {"times": {"lifetime": ""}}, "write a duration"),
    ("Project", {"times": {"lifetime": -4}}, "write a duration"),
    ("Project", {"namespaces": ["a", "a"]}, "Duplicate value"),
    ("Project", {"namespaces": ["A_"]}, "spec.namespaces[0] in body should match"),
    ("Project", {"qouta": {"gpu": 4}}, 'unknown field "spec.qouta"'),
    ("Project", {"quota": {"gpu": 1.5}}, "must be of type integer,string"),
    ("Topology", {"levels": []}, "at least 1 items"),
    ("Topology", {"levels": ["a", "a"]}, "a level is named twice: leave one out"),
]


def test_what_the_server_takes_and_what_it_refuses(kinds: Cluster) -> None:
    for kind, spec in GOOD:
        assert tried(kinds, kind, spec) == "", spec
    for kind, spec, answer in BAD:
        assert answer in tried(kinds, kind, spec), spec


def stated(value: Any) -> Any:
    """Return what a status states, without its absent fields."""
    if isinstance(value, dict):
        return {key: stated(each) for key, each in value.items() if each is not None}
    return [stated(each) for each in value] if isinstance(value, list) else value


def test_a_status_as_weir_writes_it_is_kept_whole(kinds: Cluster, plane: ControlPlane) -> None:
    within = kinds.namespace()
    workload = Workload(
        "x/job-a",
        "vision",
        (
            PodGroup(
                "", Request(devices=2, cpu_milli=1500, gpu_models=("H100",), further=(("rdma/hca", 1),)), 4, 2
            ),
            PodGroup("b", Request(devices=2, share_milli=500)),
            PodGroup("c", Request(devices=1, share_milli=0, gpu_memory=10 << 30), order=1),
        ),
        4,
        0.0,
        max_runtime_s=9000.0,
        topology=TopologyRequest("net", "rack"),
    )
    spec = spec_of(workload, OwnerFields(api_version="batch/v1", kind="Job", name="a", uid="u"))
    path = f"/apis/{API_VERSION}/namespaces/{within}/workloads"
    made = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": {"name": "job-a"}, "spec": spec}
    assert kinds.api.post(path + STRICT, made)["spec"] == spec
    at = "2026-01-31T12:00:00Z"
    why = PendingReason(
        why="insufficient_capacity",
        sentence="no node has 2 free GPUs",
        numbers={"free": 1, "of": [1, {"x": 2}]},
    )
    status = stated(
        msgspec.to_builtins(
            WorkloadStatus(
                phase="Pending",
                running="1/6",
                pods=6,
                pods_running=1,
                gpus="9",
                nodes=["n1"],
                reason=why,
                since=at,
                submitted_at=at,
                nomination=Nomination(
                    at=at, places=[NominatedPlacement(pod="a-0", node="n", devices=[0, 1])]
                ),
                life=LifecycleStatus(starts=3, ran_seconds=1.5),
            )
        )
    )
    assert patched(kinds, f"{path}/job-a", {"status": status})["status"] == status
    why.numbers = {"free": 2}
    after = stated(msgspec.to_builtins(WorkloadStatus(phase="Running", reason=why)))
    patched(kinds, f"{path}/job-a", {"status": change(status, after)})
    assert kinds.api.get(f"{path}/job-a")["status"] == after
    reported = plane.kubectl("get", "wl", "-n", within)
    assert reported.split("\n")[0].split() == [
        "NAME",
        "PROJECT",
        "GPUS",
        "PHASE",
        "RUNNING",
        "SINCE",
        "WHY",
        "AGE",
    ]
    assert "vision" in reported
    assert "no node has 2 free GPUs" in reported


def patched(cluster: Cluster, path: str, change: dict[str, Any]) -> dict[str, Any]:
    return cluster.api.patch(f"{path}{STRICT}", change)


def test_projects_tell_their_numbers(kinds: Cluster, plane: ControlPlane) -> None:
    kinds.api.create(
        {
            "apiVersion": API_VERSION,
            "kind": "Project",
            "metadata": {"name": "vision"},
            "spec": {"quota": {"gpu": 4}, "namespaces": ["a"]},
        }
    )
    status = QueueStatus(
        phase="Ready",
        quota={"gpu": "4"},
        demand={"gpu": "9"},
        share={"gpu": "6.5"},
        allocated={"gpu": "5", "memory": "40Gi"},
        running=3,
        pending=1,
        observed_generation=1,
    )
    patched(kinds, f"/apis/{API_VERSION}/projects/vision/status", {"status": plain(status)})
    head, row = plane.kubectl("get", "projects").strip().split("\n")
    assert " ".join(head.split()) == "NAME DEPARTMENT QUOTA DEMAND SHARE ALLOCATED RUNNING PENDING PHASE AGE"
    assert row.split()[:-1] == ["vision", "4", "9", "6.5", "5", "3", "1", "Ready"]
