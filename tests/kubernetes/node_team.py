"""Work of one team on a real node, and what its containers saw there."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.slurm.pods import job_of_script, script_of
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.weir import project
from tools.controlplane.work import job, pod
from tools.node.image import IMAGE
from tools.node.node import RealNode

REPORT = (
    "echo given $NVIDIA_VISIBLE_DEVICES; echo books $BOOKS; "
    "echo limits $NVIDIA_GPU_MEMORY_REQUEST $NVIDIA_GPU_MEMORY_LIMIT; echo files $(ls /dev | grep nvidia); "
)
"""A script that writes its devices, Weir's annotation, its limits of memory and the device files it sees."""
REST = "trap exit TERM; sleep 1000 & wait"
SCRIPT = """\
#!/bin/sh
#SBATCH -J slurm -N2 --ntasks-per-node=2 --gpus-per-node=1
scontrol show hostnames && srun -l sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS, $SLURM_GPUS_ON_NODE GPU'
"""
"""A script of Slurm whose tasks say their ranks."""
REFUSALS = ("UnexpectedAdmissionError", "OutOf")
"""Beginnings of the reasons of a kubelet that refuses a pod, since what it was bound to is in use."""
_BOOKS = {
    "name": "BOOKS",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['weir.dev/gpus']"}},
}


SHARING = "weir.dev/gpu-sharing"


def set_aside(cluster: Cluster, node: RealNode) -> None:
    """Set a node aside for shares, and wait for Weir's taint: until then it takes whole devices."""
    path = f"/api/v1/nodes/{node.name}"
    labels = {SHARING: "true", "nvidia.com/gpu.memory": "81920"}
    cluster.api.patch(path, {"metadata": {"labels": labels}})

    def is_tainted() -> bool:
        return any(each["key"] == SHARING for each in cluster.api.get(path)["spec"].get("taints", ()))

    cluster.until(is_tainted, f"{node.name} to be set aside")


class Team:
    """A project with one namespace."""

    def __init__(self, cluster: Cluster, weir: Installed, name: str, gpus: int) -> None:
        self.cluster = cluster
        self.name = name
        self.namespace = cluster.namespace()
        weir.create_queues(project(name, gpus, [self.namespace]))

    def job(self, name: str, gpus: int, script: str, **more: Any) -> None:
        self.cluster.api.create(for_real(job(self.namespace, name, gpus, **more), script))

    def script(self, file: Path) -> str:
        """Create the Job of `SCRIPT`, as `weir sbatch` does; return its name."""
        file.write_text(SCRIPT)
        made = job_of_script(script_of(f"--project={self.name}", f"--image={IMAGE}", str(file)))
        made["metadata"]["namespace"] = self.namespace
        (container,) = made["spec"]["template"]["spec"]["containers"]
        del container["resources"]["requests"]  # a small machine, too, runs all pods at once
        self.cluster.api.create(made)
        return str(made["metadata"]["name"])

    def pod(
        self, name: str, gpus: int, script: str = REPORT + REST, owners: Sequence[Object] = (), **more: Any
    ) -> None:
        made = pod(self.namespace, name, gpus, **more)
        made["metadata"]["ownerReferences"] = list(owners)
        self.cluster.api.create(for_real(made, script))

    def pods(self) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in self.cluster.pods(self.namespace)}

    def run(self) -> list[str]:
        """Return the names of its pods that run."""
        return sorted(self.cluster.running(self.namespace))

    def until_run(self, names: set[str], node: RealNode) -> None:
        """Wait until these pods run, and no others."""
        self.cluster.until(
            lambda: set(self.run()) == names,
            lambda: f"{names} to run, not {self.run()}:\n{self._holdings()}\n{node.last_words()}",
        )

    def _holdings(self) -> str:
        """Return what each object says of devices: slices, claims, pods, and the workloads as Weir counts them."""
        api, within = self.cluster.api, f"namespaces/{self.namespace}"
        lines: list[tuple[Any, ...]] = []
        for each in api.items("/apis/resource.k8s.io/v1/resourceslices"):
            spec = each["spec"]
            lines.append(("slice", spec.get("nodeName"), spec["pool"], len(spec.get("devices", []))))
        for each in api.items(f"/apis/resource.k8s.io/v1/{within}/resourceclaims"):
            status, meta = each.get("status") or {}, each["metadata"]
            lines.append(("claim", meta["name"], meta.get("deletionTimestamp"), status))
        for name, each in self.pods().items():
            meta, spec = each["metadata"], each["spec"]
            written = {key: text for key, text in meta.get("annotations", {}).items() if "weir.dev" in key}
            ends = each["status"].get("phase"), meta.get("deletionTimestamp")
            lines.append(("pod", name, spec.get("nodeName"), *ends, written))
        for each in api.items(f"/apis/weir.dev/v1alpha1/{within}/workloads"):
            status = each.get("status") or {}
            lines.append(
                ("workload", each["metadata"]["name"], status.get("allocations"), status.get("reason"))
            )
        return "\n".join(map(str, lines))

    def refused(self) -> list[str]:
        """Return why a kubelet refused pods, as it says itself."""
        statuses = [each["status"] for each in self.pods().values()]
        return [str(each) for each in statuses if str(each.get("reason", "")).startswith(REFUSALS)]

    def workload(self, name: str) -> Object:
        """Return the status of a workload."""
        path = f"/apis/weir.dev/v1alpha1/namespaces/{self.namespace}/workloads/{name}"
        status: Object = (self.cluster.api.maybe(path) or {}).get("status", {})
        return status

    def job_status(self, name: str) -> Object:
        status: Object = self.cluster.api.get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}")[
            "status"
        ]
        return status

    def remove(self) -> None:
        """End its work and its quota."""
        self.cluster.api.delete(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", grace_s=0)
        self.cluster.until(self._has_no_pods, "its pods to be gone")
        quota = f"/apis/weir.dev/v1alpha1/projects/{self.name}"
        self.cluster.api.delete(quota)
        self.cluster.until(lambda: self.cluster.api.maybe(quota) is None, "Weir to let go of the project")

    def _has_no_pods(self) -> bool:
        self.cluster.api.delete(f"/api/v1/namespaces/{self.namespace}/pods", grace_s=1)
        return not self.pods()


def for_real(made: Object, script: str) -> Object:
    """Let a pod, or the pods of a Job, run a script in a container that exists.

    A webhook names the scheduler of pods with GPUs.
    """
    spec = made["spec"]["template"]["spec"] if made["kind"] == "Job" else made["spec"]
    if spec["schedulerName"] == "weir" and "resourceClaims" not in spec:
        del spec["schedulerName"]
    (container,) = spec["containers"]
    container |= {"image": IMAGE, "command": ["sh", "-c", script], "env": [_BOOKS]}
    if "volumes" in spec:
        container["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    gpus = {key: value for key, value in container["resources"]["limits"].items() if "gpu" in key}
    claims = {key: value for key, value in container["resources"].items() if key == "claims"}
    container["resources"] = {
        "requests": {"cpu": "10m", **gpus},
        "limits": {"memory": "64Mi", **gpus},
        **claims,
    }
    return made


def tracked(node: RealNode, namespace: str, pod: str) -> dict[str, list[str]]:
    """Return what a container with `REPORT` saw: `given`, `books`, `limits` and `files`, each sorted."""
    rows = [line.split(" ", 1) for line in node.log(namespace, pod).splitlines()]
    return {row[0]: sorted(re.split(r"[ ,]+", row[1])) if row[1:] and row[1] else [] for row in rows}
