"""Entry into a workload of a cluster: the reason that a person reads when its pod is over."""

from types import SimpleNamespace
from typing import Any

import pytest

from weir.api.answers import PodRow, WorkloadDetail
from weir.api.workload_list import EvictionRow, Explanation
from weir.cli.sessions.kubernetes import cluster_entry
from weir.cli.sessions.kubernetes.cluster_entry import ClusterPool
from weir.kubernetes.api.container_address import ContainerAddress

ADDRESS = ContainerAddress("vision", "dev-0", "main")
EVICTED = EvictionRow(at_s=90.0, rule="reclaim", sentence="reclaimed for due of speech.")
FULL = Explanation(why="capacity", sentence="no node is free")


def seen(status: str, **more: Any) -> WorkloadDetail:
    return WorkloadDetail(
        uid=1,
        name="vision/dev",
        project="vision",
        user="ada",
        type="build",
        status=status,
        priority=50,
        preemptible=True,
        devices=1,
        pods=1,
        pods_running=0,
        submitted_s=20.0,
        **more,
    )


RUNNING = seen("running", pod_rows=[PodRow(name="vision/dev/dev-0", status="running")])
UNEXPLAINED = seen("pending")


@pytest.mark.parametrize(
    ("views", "said"),
    [
        (
            [RUNNING, UNEXPLAINED, seen("pending", evicted=EVICTED)],
            "dev left its GPUs: reclaimed for due of speech",
        ),
        ([UNEXPLAINED, seen("pending", reason=FULL)], "dev is pending: no node is free"),
        ([UNEXPLAINED, seen("failed")], "dev is failed"),
        ([UNEXPLAINED], "the pod of dev is over"),
        ([RUNNING], ""),
    ],
)
def test_an_end_is_said_with_its_reason_once_that_is_known(
    monkeypatch: pytest.MonkeyPatch, views: list[WorkloadDetail], said: str
) -> None:
    monkeypatch.setattr(cluster_entry, "_LOOK_S", 0.0)
    left = list(views)
    pool: Any = SimpleNamespace(get=lambda name: left.pop(0) if len(left) > 1 else left[0])
    transport: Any = SimpleNamespace()

    assert ClusterPool(pool, transport).why_over(RUNNING, ADDRESS, None) == said
