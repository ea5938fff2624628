"""Bytes in memory for each pod: fifty thousand of them have to fit."""

import gc
import json
import tracemalloc
from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import WatchProgress, job, node, project

from weir.kubernetes.api.objects import KubePod

PODS = 1000
OURS_MAX, OTHERS_MAX = 4500, 2500  # bytes of one, with its part of its owner, its workload and its node


def _written(at: int, scheduler: str) -> bytes:
    """A pod of a Job of four as an API server sends it."""
    job_at = at // 4
    uid = f"11111111-2222-3333-4444-{job_at:012d}"
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": f"train-{job_at}",
        "batch.kubernetes.io/job-completion-index": str(at % 4),
        "controller-uid": uid,
        "job-name": f"train-{job_at}",
    }
    written: dict[str, Any] = {
        "metadata": {
            "name": f"train-{job_at}-{at % 4}-abcde",
            "namespace": "team",
            "uid": f"00000000-0000-0000-0000-{at:012d}",
            "resourceVersion": str(at),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": str(at % 4), "note": "x" * 200},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": f"train-{job_at}",
                    "uid": uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "schedulerName": scheduler,
            "nodeName": f"n{at % 100}",
            "containers": [
                {
                    "name": "main",
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
                }
            ],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "volumes": [{"name": f"kube-api-access-{at}", "projected": {}}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return json.dumps(written).encode()


def _bytes_a_pod(scheduler: str) -> float:
    reported = WatchProgress()
    reported.see("nodes", *(node(f"n{at}", 64) for at in range(100)))
    reported.see("projects", project("team"))
    reported.step()
    decoder = msgspec.json.Decoder(KubePod)
    written = [_written(at, scheduler) for at in range(PODS)]
    gc.collect()
    tracemalloc.start()
    try:
        for at in range(PODS // 4):
            reported.see("owners", job(f"train-{at}", f"11111111-2222-3333-4444-{at:012d}", 4))
        for each in written:
            reported.see("pods", decoder.decode(each))
        reported.cluster_state.facts(1.0)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / PODS
    finally:
        tracemalloc.stop()


def test_a_pod_of_ours_takes_little() -> None:
    assert _bytes_a_pod("weir") < OURS_MAX


def test_a_pod_of_others_takes_less() -> None:
    assert _bytes_a_pod("default-scheduler") < OTHERS_MAX
