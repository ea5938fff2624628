"""Prepared pools of any size for the page: the first frame of their live stream."""

from typing import Any

from bench.dashboard_page import row_of

from weir.api.answers import DeviceRow, NodeRow, QueueRow
from weir.dashboard.live_frames import answer_json, workload_columns
from weir.dashboard.live_table import LiveTable

LONG = "a-name-of-sixty-three-characters-as-people-make-them-by-sweeps"
GPUS = 8


def first_frame(workloads: int, nodes: int, projects: int, *, long_names: bool = False) -> bytes:
    """Return the first frame of a pool, where workload n holds GPU n if it isn't pending."""
    table = LiveTable()
    names = {}
    for uid in range(workloads):
        row = row_of(uid)
        words: dict[str, Any] = {"project": _project(uid % max(1, projects), long_names)}
        if long_names:
            words |= {"name": f"{row.name[-6:]}-{LONG}"[:63], "user": f"{row.user}-of-the-{LONG}"[:63]}
        row = row.model_copy(update=words)
        names[uid] = row.name
        table.rows[uid] = workload_columns(row)
    for at in range(nodes):
        held = {index: names.get(GPUS * at + index) for index in range(GPUS)}
        devices = [
            DeviceRow(
                index=index,
                model="NVIDIA H100 80GB HBM3",
                memory=80 << 30,
                memory_used=index << 33,
                allocated=float(name is not None),
                use=index / GPUS,
                workloads=[] if name is None else [name],
                temperature_c=40 + index,
                power_w=500.0,
                errors=0,
            )
            for index, name in held.items()
        ]
        suffix = f"-{LONG}.example.org" if long_names else ""
        amounts = {"gpu": float(GPUS), "cpu": 96.0, "memory": float(1 << 40)}
        row = NodeRow(name=f"node-{at:02d}{suffix}", devices=devices, capacity=amounts, allocated=amounts)
        table.nodes[row.name] = answer_json(row)
    for at in range(projects):
        queue = QueueRow(
            name=_project(at, long_names),
            kind="project",
            quota={"gpu": 2.0},
            allocated={"gpu": 3.0 * (at % 2)},
            share={"gpu": 2.0},
            pending=at,
        )
        table.queues[queue.name] = answer_json(queue)
    return table.whole(b'{"trouble":null,"policy":"fair"}')


def _project(at: int, is_long: bool) -> str:
    return f"project-{at:03d}{'-' + LONG if is_long else ''}"[:63]
