"""Variables that Slurm sets for a job script, by the settings of the job and facts of its pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.slurm.job_settings import JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """Facts of the pod of a script, as texts.

    Attributes:
        job: the number of the job; each task of an array has its own.
        array, index: of an array, else None.
        array_variables: WEIR_ARRAY_COUNT and the others, of an array.
        host, hosts: the name of this pod's host, and the list of those of all pods.
        node, rank: the number of this pod, and that of its first task.
        devices: GPUs of this pod.
    """

    job: str
    array: str | None = None
    index: str | None = None
    array_variables: Mapping[str, str] = field(default_factory=dict)
    user: str
    uid: str
    gid: str
    host: str
    hosts: str
    node: str = "0"
    rank: str = "0"
    devices: Sequence[str] = ()


def script_variables(settings: JobSettings, facts: PodFacts) -> dict[str, str]:
    """Return the variables of Slurm for a script."""
    return {
        **_job(settings, facts),
        **_node(settings, facts),
        **_array(facts),
        **_gpus(facts.devices),
        **settings.variables,
    }


def per_node(amounts: Sequence[int]) -> str:
    """Return amounts of nodes as Slurm writes them: 4(x2),3."""
    parts = []
    for amount in dict.fromkeys(amounts):
        times = amounts.count(amount)
        parts.append(f"{amount}(x{times})" if times > 1 else str(amount))
    return ",".join(parts)


def tasks_by_node(tasks: int, nodes: int) -> list[int]:
    """Return the number of tasks of each node; the first ones have one more if they aren't equal."""
    base, rest = divmod(tasks, nodes)
    return [base + (node < rest) for node in range(nodes)]


def _job(settings: JobSettings, facts: PodFacts) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": facts.job,
        "SLURM_JOBID": facts.job,
        "SLURM_JOB_NAME": settings.name,
        "SLURM_JOB_UID": facts.uid,
        "SLURM_JOB_GID": facts.gid,
        "SLURM_JOB_USER": facts.user,
        "SLURM_CLUSTER_NAME": "weir",
        "SLURM_PROCID": facts.rank,
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": facts.node,
        "SLURM_GTIDS": facts.rank,
        "ENVIRONMENT": "BATCH",
    }


def _node(settings: JobSettings, facts: PodFacts) -> dict[str, str]:
    nodes = str(settings.nodes)
    return {
        "SLURMD_NODENAME": facts.host,
        "HOSTNAME": facts.host,
        "SLURM_NODELIST": facts.hosts,
        "SLURM_JOB_NODELIST": facts.hosts,
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_TASKS_PER_NODE": per_node(tasks_by_node(settings.tasks, settings.nodes)),
        "SLURM_CPUS_ON_NODE": str(settings.cpus),
        "SLURM_JOB_CPUS_PER_NODE": per_node([settings.cpus] * settings.nodes),
        "SLURM_TOPOLOGY_ADDR": facts.host,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }


def _array(facts: PodFacts) -> dict[str, str]:
    if facts.index is None:
        return {}
    variables = {"SLURM_ARRAY_JOB_ID": facts.array or facts.job, "SLURM_ARRAY_TASK_ID": facts.index}
    for name in ("COUNT", "MIN", "MAX", "STEP"):
        if f"WEIR_ARRAY_{name}" in facts.array_variables:
            variables[f"SLURM_ARRAY_TASK_{name}"] = facts.array_variables[f"WEIR_ARRAY_{name}"]
    return variables


def _gpus(devices: Sequence[str]) -> dict[str, str]:
    if not devices:
        return {}
    return {
        "SLURM_GPUS_ON_NODE": str(len(devices)),
        "SLURM_JOB_GPUS": ",".join(devices),
        "GPU_DEVICE_ORDINAL": ",".join(map(str, range(len(devices)))),
    }
