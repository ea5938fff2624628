"""Resources of a job on a cluster: each node of Slurm is a pod, and all pods are alike."""

from dataclasses import replace

from weir.slurm.batch_request import BatchRequest
from weir.slurm.errors import SlurmError
from weir.slurm.gpu_requests import GpuRequest, total
from weir.slurm.node_resources import NodeResources, node_resources


def pod_resources(request: BatchRequest, *, best_effort: bool) -> NodeResources:
    """Return the resources of each pod of a job. `best_effort` runs each task of an array in one pod.

    Raises:
        SlurmError: pods that are alike can't have them.
    """
    pods = max(1, request.nodes[0] if request.nodes else 1)
    if request.has("ntasks"):
        pods = min(pods, request.tasks)  # no pod without a task, as in Slurm
    if pods > 1 and request.array is not None:
        if best_effort:
            return node_resources(request, fold=True)
        right = "write --nodes=1, or --best-effort to run all its tasks in one pod"
        raise SlurmError(f"--nodes={pods}: a task of an array is one pod of a cluster: {right}")
    gpus = total(request.gpus)
    if gpus % pods and not best_effort:
        right = f"write --gpus={-(-gpus // pods) * pods}, --gpus-per-node, or --best-effort to round up"
        raise SlurmError(f"--gpus={gpus}: {pods} pods that are alike can't have as many: {right}")
    gpus_of_pod = [
        GpuRequest(-(-gpu_request.number // pods), gpu_request.model) for gpu_request in request.gpus
    ]
    one = replace(request, nodes=(1, 1), tasks=-(-request.tasks // pods), gpus=gpus_of_pod)
    return node_resources(one, fold=False)._replace(tasks=request.tasks, pods=pods)
