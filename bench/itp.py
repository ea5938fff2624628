"""The ITP record: ten clusters of Microsoft as ten tenants, and the racks of Lingjun for them to run in.

Sources: microsoft/elasticflow-traces (Gu et al., "ElasticFlow", ASPLOS'23); alibaba-lingjun-dataset-2023 (Cao
et al., "Crux", SIGCOMM'24). Quotas, labels and racks are our construction.
"""

import csv
import gzip
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from weir.model.nodes import Node, Topology
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.scenario import Scenario
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, TopologyRequest, Workload
from weir.simulation.job_trace import JobTrace
from weir.simulation.traces.public import ITP_SAVES_EVERY_S
from weir.simulation.traces.tenants import NODE_GPUS

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
NODES = 188
"""Nodes of the cluster: the sum of quotas of 1.25 times the mean demand."""
NETWORK, RACK = "network", "rack"
SPOT_PERCENT = 30
_REQUESTS = {gpus: Request(devices=gpus, cpu_milli=0, memory=0) for gpus in range(1, NODE_GPUS + 1)}


@cache
def _groups(gpus: int) -> tuple[PodGroup, ...]:
    """Return the pods for a number of devices; more than a node has become a gang of whole nodes."""
    pods = max(1, gpus // NODE_GPUS)
    return (PodGroup("worker", _REQUESTS[min(gpus, NODE_GPUS)], count=pods, min=pods),)


class Job(NamedTuple):
    """A line of the record."""

    cluster: str
    name: str
    submitted_s: int
    duration_s: int
    gpus: int

    @property
    def is_spot(self) -> bool:
        """Return True if the job is declared to be spot, by a hash of the job."""
        label = f"{self.submitted_s}-{self.duration_s}-{self.gpus}-{self.cluster}"
        return int(hashlib.sha256(label.encode()).hexdigest(), 16) % 100 < SPOT_PERCENT

    def job_trace(
        self,
        project: str,
        *,
        priority: int = 50,
        preemptible: bool = True,
        topology: TopologyRequest | None = None,
    ) -> JobTrace:
        """The job in a project; the tenant is its user."""
        groups = _groups(self.gpus)
        workload = Workload(
            self.name,
            project,
            groups,
            groups[0].count,
            float(self.submitted_s),
            priority=priority,
            preemptible=preemptible,
            topology=topology,
            user=self.cluster,
        )
        return JobTrace(workload, float(self.duration_s), ITP_SAVES_EVERY_S)


def read_jobs(traces: Path, most: int | None = None) -> list[Job]:
    """The record by time of submission, or the first jobs of it."""
    path = _existing(traces / "itp-2021" / "itp_jobs.csv.gz")
    with gzip.open(path, "rt", newline="") as file:
        jobs = [
            Job(
                row["cluster"],
                row["job_id"],
                int(row["submission_time"]),
                int(row["duration"]),
                int(row["num_gpu"]),
            )
            for row in csv.DictReader(file)
        ]
    jobs.sort(key=lambda job: job.submitted_s)
    return jobs[:most]


def read_racks(traces: Path, nodes: int = NODES) -> list[str]:
    """The rack of each of the first hosts, sorted by (PSW, ASW, ip)."""
    with _existing(traces / "lingjun-2023" / "topo.csv").open(newline="") as file:
        hosts = sorted((row["PSW"], row["ASW"], row["ip"]) for row in csv.DictReader(file))
    return [f"{psw}.{asw}" for psw, asw, _ in hosts[:nodes]]


def _existing(path: Path) -> Path:
    if not path.exists():
        raise SystemExit(
            f"{path} isn't there. The records lie in shared/traces beside the repository; "
            "if they lie elsewhere, say where with --traces DIRECTORY."
        )
    return path


def queue(name: str, quota_nodes: int, index: int = 0) -> Queue:
    """A project with a quota in whole nodes."""
    return Queue(name, quota={GPU: quota_nodes * NODE_GPUS * WHOLE_MILLI}, created_s=60.0 * index)


def pool(name: str, queues: Sequence[Queue], nodes: int = NODES, racks: Sequence[str] = ()) -> Scenario:
    """Equal nodes of eight devices, in racks if there are any, and these projects."""
    return Scenario(
        name=name,
        nodes=tuple(
            Node(
                f"node-{index:03}",
                NODE_GPUS,
                16 << 30,
                {"cpu": 64_000, "memory": 512 << 30, "pods": 110},
                labels={RACK: racks[index]} if racks else {},
            )
            for index in range(nodes)
        ),
        topologies=(Topology(NETWORK, (RACK,)),) if racks else (),
        queues=tuple(queues),
        workloads=(),
        policy=Policy(),
    )
