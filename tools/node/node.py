"""A real node of a control plane, from `start` to `stop`.

    with ControlPlane() as plane, RealNode(plane, find()) as node:
        node.devices()

The node has a process and a mount namespace of its own, so no process, mount or network namespace of it
outlives its process 1. Its pods have no network but loopback.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.processes import Ended
from tools.node.guard import PREFIX
from tools.node.image import MACHINE_PATH, write_image
from tools.node.programs import Programs
from tools.node.settings import POD_RESOURCES, NodeSettings

GPU = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"
LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
}
_READY_S = 120.0
_ROOT = Path(__file__).resolve().parent.parent.parent


class RealNode:
    """A kubelet with fake GPUs that has joined a control plane."""

    def __init__(
        self,
        plane: ControlPlane,
        programs: Programs,
        *,
        name: str = "real",
        gpus: int = 8,
        claimable: int = 0,
        divisible: int = 0,
        mounts: Sequence[str] = (),
        path: str = MACHINE_PATH,
    ) -> None:
        """Prepare a node. The API server reaches the kubelet of one that is called localhost.

        Args:
            plane: the control plane to join.
            programs: of the node.
            name: of the node.
            gpus: number of devices of the device plugin.
            claimable: number of devices for resource claims.
            divisible: number of those, the last ones, that claims can share.
            mounts: directories of the machine that containers see.
            path: PATH of the machine's image.
        """
        self.name = name
        self.gpus = gpus
        self.claimable = claimable
        self.divisible = divisible
        self._mounts, self._path = mounts, path
        self.directory = plane.directory / f"node-{name}"
        self._plane = plane
        self._programs = programs
        self.port = free_port()  # of the kubelet
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _why: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Join the control plane, until the node is ready and offers its GPUs.

        Raises:
            Ended: one of its programs didn't stay up.
            TimeoutError: the node wasn't ready in time.
        """
        assert self._guard is None, "it runs"
        for part in ("logs", "static", "shared"):
            (self.directory / part).mkdir(parents=True)
        write_image(self._programs.directory / "busybox", self.directory / "image.tar", self._path)
        self._settings().write()
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tools.node.guard", str(self.directory)],
            stdin=subprocess.PIPE,
            cwd=_ROOT,
            start_new_session=True,
        )
        try:
            self._until(self._is_ready, "the node to be ready")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes of the node, without grace, and remove what they left."""
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None

    def _settings(self) -> NodeSettings:
        return NodeSettings(
            directory=str(self.directory),
            programs=str(self._programs.directory),
            kubeconfig=str(self._account()),
            name=self.name,
            gpus=self.gpus,
            cgroup=f"{PREFIX}{os.getpid()}-{self.name}",
            port=self.port,
            mounts=list(self._mounts),
            labels=",".join(f"{key}={value}" for key, value in LABELS.items()),
            claimable=self.claimable,
            divisible=self.divisible,
            driver=str(self._driver_account()) if self.claimable else "",
        )

    def _driver_account(self) -> Path:
        """Return a kubeconfig for the DRA plugin, which publishes slices and reads claims."""
        self._plane.grant_all(DRIVER)
        return self._plane.kubeconfig_for(DRIVER)

    def _account(self) -> Path:
        """Return a kubeconfig with the identity and the rights of a kubelet."""
        group, rbac = "system:nodes", "rbac.authorization.k8s.io"
        self._plane.api.apply(
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "real-nodes"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:node"},
                "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
            }
        )
        return self._plane.kubeconfig_for(f"system:node:{self.name}", [group])

    # What it does

    @property
    def shared(self) -> Path:
        """A directory for `hostPath` volumes."""
        return self.directory / "shared"

    @property
    def static(self) -> Path:
        """The directory of manifests of static pods."""
        return self.directory / "static"

    def devices(self) -> dict[tuple[str, str], list[str]]:
        """Return the IDs of the GPUs that the kubelet has allocated, by namespace and name of the pod."""
        return {
            (pod["namespace"], pod["name"]): sorted(
                device
                for container in pod.get("containers", [])
                for resource in container.get("devices", [])
                if resource["resource_name"] == GPU
                for device in resource["device_ids"]
            )
            for pod in self._pod_resources()
        }

    def claimed(self) -> dict[tuple[str, str], list[str]]:
        """Return the devices of claims that the kubelet has given, by namespace and name of the pod."""
        by_pod = {
            (pod["namespace"], pod["name"]): sorted(
                device["device_name"]
                for container in pod.get("containers", [])
                for claim in container.get("dynamic_resources", [])
                for device in claim.get("claim_resources", [])
            )
            for pod in self._pod_resources()
        }
        return {pod: devices for pod, devices in by_pod.items() if devices}

    @property
    def pod_resources(self) -> Path:
        """The kubelet's pod-resources socket, as this process reaches it."""
        return self.root / POD_RESOURCES.removeprefix("/")

    @property
    def root(self) -> Path:
        """The file system of the node, as this process reaches it."""
        return Path(f"/proc/{self._init()}/root")

    def _pod_resources(self) -> list[dict[str, Any]]:
        answer = json.loads(self._run("gpuplugin", "list", str(self.pod_resources)))
        return list(answer.get("pod_resources", []))

    def log(self, namespace: str, pod: str, container: str = "main") -> str:
        """Return what the latest container of a pod has written."""
        logs = (self.directory / "logs").glob(f"{namespace}_{pod}_*/{container}/*.log")
        newest = max(logs, key=lambda log: log.stat().st_mtime, default=None)
        if newest is None:
            return ""
        return "".join(line.split(" ", 3)[3] for line in newest.read_text().splitlines(keepends=True))

    def set_unhealthy(self, indices: Collection[int]) -> None:
        """Let these GPUs be unhealthy, and all others healthy."""
        written = self.directory / "unhealthy.new"
        written.write_text("\n".join(map(str, indices)))
        written.rename(self.directory / "unhealthy")

    def restart(self, name: str = "kubelet") -> None:
        """Kill a program of the node and start it again; pods run on."""
        assert self._guard is not None, "start it first"
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"restart {name}\n".encode())
        self._guard.stdin.flush()

    def registrations(self) -> int:
        """Return how often the device plugin has registered with the kubelet."""
        return (self.directory / "gpuplugin.log").read_text().count(f" registered {self.gpus} devices")

    def check(self) -> None:
        """Raise `Ended` if a program of the node has ended by itself."""
        if (self.directory / "ended").exists():
            why = (self.directory / "ended").read_text()
            raise Ended(f"the node, for {why},", 1, self.last_words())
        if self._guard is None or self._guard.poll() is not None:
            raise Ended("the guard of the node", -1, self.last_words())

    def last_words(self, lines: int = 12) -> str:
        """Return the ends of the logs of all programs."""
        reply = []
        for log in sorted(self.directory.glob("*.log")):
            reply += [f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(reply)

    def _is_ready(self) -> bool:
        self.check()
        node = self._plane.api.maybe(f"/api/v1/nodes/{self.name}")
        if node is None:
            return False
        status = node["status"]
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status["conditions"])
        offered = status["allocatable"].get(GPU) == str(self.gpus) if self.gpus else True
        return ready and offered and (not self.claimable or self._has_slice())

    def _has_slice(self) -> bool:
        slices = self._plane.api.items("/apis/resource.k8s.io/v1/resourceslices")
        return any(one["spec"].get("nodeName") == self.name for one in slices)

    @property
    def guard(self) -> int:
        """The number of the process that outlives the test for a moment, to clean up."""
        assert self._guard is not None, "start it first"
        return self._guard.pid

    def _init(self) -> int:
        """Return the number of the node's process 1: the guard's only grandchild."""
        (unshare,) = _children(self.guard)
        (init,) = _children(unshare)
        return init

    def _run(self, program: str, *words: str) -> str:
        done = subprocess.run([self._programs[program], *words], check=True, capture_output=True, text=True)
        return done.stdout

    def _until(self, true: Callable[[], bool], subject: str) -> None:
        end = time.monotonic() + _READY_S
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {_READY_S:.0f} s for {subject}\n{self.last_words()}")
            time.sleep(0.1)


def _children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
