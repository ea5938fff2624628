"""The openb record: nodes and pods of a GPU-sharing cluster, and the stream in which its pods arrive.

Source: Alibaba cluster-trace-gpu-v2023; Weng et al., "Beware of Fragmentation", ATC'23.
"""

import csv
import gzip
import random
from pathlib import Path

from weir.model.nodes import Node
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload

PROJECT = "pool"
_MIB = 1 << 20
ARRIVED_MAX = 1.3
"""Total GPU demand of the stream, in parts of the capacity."""


def read_nodes(path: Path) -> list[Node]:
    """The nodes of a node list, in its order."""
    with path.open(newline="") as file:
        return [
            Node(
                name=row["sn"],
                gpus=int(row["gpu"]),
                gpu_memory=16 << 30,
                capacity={
                    "cpu": int(row["cpu_milli"]),
                    "memory": int(row["memory_mib"]) * _MIB,
                    "pods": 1000,
                },
                gpu_model=row["model"] or None,
            )
            for row in csv.DictReader(file)
        ]


def read_pods(path: Path) -> list[tuple[str, Request]]:
    """The pods of a pod list as requests, sorted by name."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = sorted(csv.DictReader(data.decode().splitlines()), key=lambda row: row["name"])
    return [(row["name"], _request(row)) for row in rows]


def _request(row: dict[str, str]) -> Request:
    count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    return Request(
        devices=count,
        share_milli=milli if count == 1 and milli < WHOLE_MILLI else WHOLE_MILLI,
        cpu_milli=int(row["cpu_milli"]),
        memory=int(row["memory_mib"]) * _MIB,
        gpu_models=tuple(row.get("gpu_spec", "").split("|")) if count and row.get("gpu_spec") else (),
    )


def stream(pods: list[tuple[str, Request]], gpus: int, seed: int) -> list[Request]:
    """The order of arrival: shuffled by the seed, then drawn with replacement until 130 % of the devices.

    A list that asks for more than that already is thinned at random instead.
    """
    chance = random.Random(seed)
    arriving = [request for _, request in pods]
    drawn_from = list(arriving)
    chance.shuffle(arriving)
    most = ARRIVED_MAX * gpus * WHOLE_MILLI
    total = sum(map(gpu_milli, arriving))
    while total > most:
        total -= gpu_milli(arriving.pop(chance.randrange(len(arriving))))
    while total < most:
        request = chance.choice(drawn_from)
        arriving.append(request)
        total += gpu_milli(request)
    return arriving


def gpu_milli(request: Request) -> int:
    """Thousandths of devices a request asks for."""
    return request.devices * request.share_milli


def workload(number: int, request: Request) -> Workload:
    """Return a pod of the stream as a workload."""
    return Workload(
        name=f"pod-{number:05d}",
        project=PROJECT,
        groups=(PodGroup("pod", request),),
        min_pods=1,
        submitted_s=float(number),
    )
