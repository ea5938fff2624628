"""A small cluster and jobs on it."""

from weir.model.nodes import Node, Topology
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.scenario import Scenario
from weir.model.workloads import PodGroup, Request, Workload
from weir.simulation.job_trace import JobTrace

HOST = "kubernetes.io/hostname"


def cluster(
    nodes: int = 1, gpus: int = 4, teams: tuple[str, ...] = ("a", "b"), *, guaranteed: bool = True
) -> Scenario:
    """Nodes in two racks; each team is guaranteed an equal part, or nothing."""
    quota = {"gpu": nodes * gpus * 1000 // len(teams) if guaranteed else 0}
    return Scenario(
        name="small",
        nodes=tuple(
            Node(
                f"node-{index}",
                gpus,
                16 << 30,
                {"cpu": 64_000, "memory": 1 << 40, "pods": 110},
                gpu_model="A100",
                labels={"rack": f"r{index % 2}", HOST: f"node-{index}"},
            )
            for index in range(nodes)
        ),
        topologies=(Topology("network", ("rack", HOST)),),
        queues=tuple(Queue(team, quota=quota, created_s=index) for index, team in enumerate(teams)),
        workloads=(),
        policy=Policy(),
    )


def job(
    name: str,
    duration_s: float,
    *,
    at_s: float = 0.0,
    gpus: int = 1,
    pods: int = 1,
    least: int | None = None,
    team: str = "a",
    save_every_s: float | None = None,
    restart_s: float = 0.0,
) -> JobTrace:
    """A job of one group."""
    needed = pods if least is None else least
    group = PodGroup("0", Request(devices=gpus), pods, needed)
    return JobTrace(Workload(name, team, (group,), needed, at_s), duration_s, save_every_s, restart_s)
