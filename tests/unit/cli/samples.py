"""A small pool to look at: four workloads, two projects, one machine."""

from typing import Any

from tests.unit.cli.conftest import NOW_S
from tests.unit.client.fake import Fake, Said, page, queue, row


def why(s: str) -> dict[str, Any]:
    return {"why": "insufficient_capacity", "sentence": s, "numbers": {}}


ROWS = [
    row(
        "resnet50-imagenet-baseline-seed42",
        uid=4,
        status="pending",
        pods_running=0,
        started_s=None,
        submitted_s=NOW_S - 8400,
        devices=8.0,
        pods=4,
        reason=why("no node has 2 free GPUs: 3 have 1, and 5 have none"),
        nodes=[],
    ),
    row(
        "notebook",
        uid=3,
        type="build",
        project="speech",
        user="grace",
        devices=0.5,
        submitted_s=NOW_S - 75,
        started_s=NOW_S - 60,
        preemptible=False,
        priority=100,
    ),
    row(
        "train-4k2p",
        uid=2,
        restarts=1,
        ran_s=5400.0,
        ran_before_s=1800.0,
        submitted_s=NOW_S - 90000,
        started_s=NOW_S - 3600,
    ),
    row(
        "eval",
        uid=1,
        status="failed",
        pods_running=0,
        started_s=NOW_S - 500,
        ended_s=NOW_S - 400,
        ran_s=100.0,
        ran_before_s=100.0,
        exit_code=3,
        reason=why("it ended with exit code 3"),
    ),
]
WHY = {
    "name": "train-4k2p",
    "status": "pending",
    "reason": why("no node has 2 free GPUs: 3 have 1, and 5 have none"),
    "position": 2,
    "waiting": 5,
    "queues": [
        queue("vision", limit={"gpu": 6.0}),
        queue(
            "research",
            kind="department",
            parent=None,
            quota={"gpu": 8.0},
            share={"gpu": 8.0},
            allocated={"gpu": 7.5},
        ),
    ],
    "suggestions": [
        {"sentence": "With 1 GPU instead of 2 it starts now.", "change": {"gpus": 1}},
        {"sentence": "When notebook ends, at about 15:10, it starts.", "change": {}, "at_s": NOW_S + 1500},
        {"sentence": "If it is resumed, it starts now.", "change": {"suspended": False}},
    ],
}
POD = {
    "name": "train-4k2p/worker/0",
    "status": "running",
    "node": "box",
    "devices": [0, 1],
    "start": 2,
    "since_s": NOW_S - 3600,
}
EV = [
    {
        "id": 9,
        "at_s": NOW_S - 3600,
        "kind": "started",
        "workload": "train-4k2p",
        "project": "vision",
        "sentence": "train-4k2p starts on box, devices 0, 1.",
    },
    {
        "id": 8,
        "at_s": NOW_S - 90000,
        "kind": "submitted",
        "workload": "train-4k2p",
        "project": "vision",
        "sentence": "ada submitted train-4k2p to project vision.",
    },
]
DETAIL = {
    **ROWS[2],
    "pod_rows": [POD],
    "command": ["python", "train.py", "--lr", "0.1 0.2"],
    "env": {"A": "1"},
    "directory": "/home/ada",
    "pod_cpu": 4.0,
    "pod_memory": 64 << 30,
    "max_runtime_s": 86400.0,
    "checkpointed_s": NOW_S - 180,
    "step": 1200,
    "reported": {"loss": 0.231},
    "events": EV,
}
NODE = {
    "name": "box",
    "devices": [
        {
            "index": 0,
            "model": "H200",
            "memory": 150 << 30,
            "allocated": 1.0,
            "use": 0.97,
            "memory_used": 61 << 30,
            "workloads": ["train-4k2p"],
        },
        {
            "index": 1,
            "model": "H200",
            "memory": 150 << 30,
            "allocated": 0.75,
            "use": 0.01,
            "memory_used": 3 << 30,
            "workloads": ["notebook", "eval"],
        },
        {
            "index": 2,
            "model": "H200",
            "memory": 150 << 30,
            "allocated": 0.0,
            "use": 0.0,
            "memory_used": 0,
            "workloads": [],
        },
    ],
    "capacity": {"gpu": 3.0, "cpu": 64.0, "memory": 512 << 30},
    "allocated": {"gpu": 1.75, "cpu": 9.5, "memory": 20 << 30},
    "labels": {"zone": "a"},
    "pods": 3,
}
STATUS = {
    "version": "0.1.0",
    "nodes": 1,
    "devices": 3,
    "allocated": 1.75,
    "running": 2,
    "pending": 1,
    "policy": "fair",
    "started_s": NOW_S - 9000,
}
USAGE = {
    "since_s": NOW_S - 604800,
    "until_s": NOW_S,
    "by": "project",
    "rows": [
        {
            "key": "vision",
            "allocated_gpu_s": 360000.0,
            "used_gpu_s": 270000.0,
            "idle_gpu_s": 36000.0,
            "over_quota_gpu_s": 180000.0,
            "waiting_s": 5400.0,
            "workloads": 12,
            "ended": 10,
            "preempted": 3,
        },
        {
            "key": "speech",
            "allocated_gpu_s": 3600.0,
            "used_gpu_s": None,
            "idle_gpu_s": None,
            "over_quota_gpu_s": 0.0,
            "waiting_s": 0.0,
            "workloads": 1,
            "ended": 0,
            "preempted": 0,
        },
    ],
}


def fill(f: Fake) -> None:
    f.on("GET", "/workloads", page(*ROWS, total=12))
    f.on("GET", "/workloads/train-4k2p", DETAIL)
    f.on("GET", "/workloads/train-4k2p/why", WHY)
    f.on("GET", "/events", page(*EV))
    f.on("GET", "/nodes", page(NODE))
    f.on("GET", "/status", STATUS)
    f.on("GET", "/usage", USAGE)
    f.on(
        "GET",
        "/projects",
        page(queue("vision"), queue("speech", allocated={"gpu": 0.5}, pending=0)),
    )
    f.on("GET", "/departments", page(queue("research", kind="department", parent=None)))
    f.on(
        "GET",
        "/tokens",
        page(
            {
                "id": 3,
                "user": "ada",
                "role": "member",
                "projects": ["vision", "speech"],
                "created_s": NOW_S - 5,
                "label": "laptop",
            },
            {"id": 4, "user": "root", "role": "admin", "projects": [], "created_s": NOW_S - 90000},
        ),
    )
    f.on("POST", "/workloads", Said(row("train-4k2p", pods=4, devices=8.0, status="pending"), 201))
