"""The configuration of a node's programs, for paths that exist only in the node's own namespaces."""

import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.node.image import IMAGE

SOCKET = "/run/containerd/containerd.sock"
POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Kernel settings that a kubelet writes for the whole machine. In its namespace they are plain files."""
_CONTAINERD = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"
  enable_cdi = true
  cdi_spec_dirs = ["/run/cdi"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "%(base)s"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "%(programs)s/runc"
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%(directory)s/cni"
    conf_dir = "%(directory)s/cni"
"""
_NETWORK = {"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "none"}]}
_NETWORK_PLUGIN = """\
#!%(programs)s/busybox sh
# A pod gets its loopback interface, one that leads nowhere, and an address in its status.
# Nothing of the machine changes.
[ "$CNI_COMMAND" = ADD ] || exit 0
%(programs)s/busybox nsenter --net="$CNI_NETNS" %(programs)s/busybox ip link set lo up
[ "$CNI_IFNAME" = lo ] || %(programs)s/busybox nsenter --net="$CNI_NETNS" \
  ip link add "$CNI_IFNAME" type veth peer name nowhere >&2
echo '{"cniVersion": "0.4.0", "interfaces": [{"name": "'"$CNI_IFNAME"'", "sandbox": "'"$CNI_NETNS"'"}],
  "ips": [{"version": "4", "address": "10.88.0.2/16", "interface": 0}]}'
"""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Everything that the processes of a node have to know."""

    directory: str
    programs: str
    kubeconfig: str
    name: str
    gpus: int
    cgroup: str  # its name, under the root of every hierarchy
    port: int
    labels: str
    mounts: list[str]  # directories of the machine that each container sees
    claimable: int = 0  # devices of the DRA plugin
    divisible: int = 0  # of them that claims can share
    driver: str = ""  # kubeconfig of the DRA plugin

    @classmethod
    def read(cls, directory: Path) -> "NodeSettings":
        """Return the settings that `write` has written there."""
        return cls(**json.loads((directory / "node.json").read_text()))

    def write(self) -> None:
        """Write the configuration of every program into the directory."""
        place = Path(self.directory)
        words = {"directory": self.directory, "programs": self.programs, "base": self._base(place)}
        (place / "node.json").write_text(json.dumps(asdict(self)))
        (place / "containerd.toml").write_text(_CONTAINERD % words)
        (place / "kubelet.json").write_text(json.dumps(self._kubelet(), indent=1))
        (place / "cni").mkdir()
        (place / "cni" / "10-none.conflist").write_text(json.dumps(_NETWORK))
        for plugin in ("none", "loopback"):
            written = place / "cni" / plugin
            written.write_text(_NETWORK_PLUGIN % words)
            written.chmod(0o755)

    def _base(self, place: Path) -> str:
        """Write the specification that containers begin with; return its path, or nothing without mounts."""
        if not self.mounts:
            return ""
        shown = subprocess.run([f"{self.programs}/ctr", "oci", "spec"], check=True, capture_output=True)
        spec = json.loads(shown.stdout)
        options = ["rbind", "ro"]
        spec["mounts"] += [
            {"destination": mount, "type": "bind", "source": mount, "options": options}
            for mount in self.mounts
        ]
        (place / "base.json").write_text(json.dumps(spec))
        return str(place / "base.json")

    def _kubelet(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": self.port,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "podLogsDir": f"{self.directory}/logs",
            "staticPodPath": f"{self.directory}/static",
            "fileCheckFrequency": "1s",
            "nodeStatusUpdateFrequency": "1s",
            "nodeStatusReportFrequency": "5m",
            "resolvConf": "",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "evictionHard": {},
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,
        }
