"""Nothing is left of a real node whose test was killed."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
from tests.kubernetes.node_team import REST, for_real
from tools.controlplane.cluster import Cluster
from tools.controlplane.weir import ROOT
from tools.controlplane.work import pod
from tools.node.guard import PREFIX, left_behind
from tools.node.programs import Programs

ABANDONED = """\
import sys, time
from pathlib import Path
from types import SimpleNamespace
from tools.controlplane.api import Api
from tools.controlplane.certificates import Pair
from tools.node.node import RealNode
from tools.node.programs import find

url, authority, certificate, key, account, directory = sys.argv[1:]
api = Api(url, Path(authority), Pair(Path(certificate), Path(key)))
plane = SimpleNamespace(api=api, directory=Path(directory), kubeconfig_for=lambda *_: Path(account))
node = RealNode(plane, find(), name="abandoned", gpus=1)
node.start()
print(node.guard, flush=True)
time.sleep(1000)
"""


def name_of(process: psutil.Process) -> str:
    """Return the name of a process; containers are made by some that live for a moment."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def has_ended(process: psutil.Process) -> bool:
    """Return True for one that its new parent has yet to collect, too."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_nothing_is_left_of_a_node_whose_test_was_killed(
    cluster: Cluster, programs: Programs, tmp_path: Path
) -> None:
    plane = cluster.plane
    account = plane.kubeconfig_for("system:node:abandoned", ["system:nodes"])
    words = [
        plane.url,
        plane.authority.certificate,
        plane.admin.certificate,
        plane.admin.key,
        account,
        tmp_path,
    ]
    test = subprocess.Popen(
        [sys.executable, "-c", ABANDONED, *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )

    def processes_of(guard: psutil.Process) -> list[psutil.Process]:
        """Return the node's processes; none while the pod's shell has yet to begin what it waits for."""
        found = [guard, *guard.children(recursive=True)]
        return found if {"containerd", "kubelet", "sleep"} <= set(map(name_of, found)) else []

    try:
        assert test.stdout is not None
        guard = psutil.Process(int(test.stdout.readline()))
        cluster.api.create(for_real(pod("default", "there", 1, nodeName="abandoned"), REST))
        cluster.until(lambda: "there" in cluster.running("default"), "a pod to run on it")
        processes = cluster.until(lambda: processes_of(guard), "its shell to sleep")
        group = f"{PREFIX}{test.pid}-abandoned"
        assert group in left_behind()
    finally:
        test.kill()
        test.communicate()
        cluster.api.delete("/api/v1/namespaces/default/pods", grace_s=0)
        cluster.api.delete("/api/v1/nodes/abandoned")
    cluster.until(lambda: all(map(has_ended, processes)), "its processes to end")
    assert group not in left_behind()
    assert not list(tmp_path.iterdir())
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in mounts
    assert " tmpfs node " not in mounts
