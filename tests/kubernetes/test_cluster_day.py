"""A researcher's day on a real kubelet: output as it comes, and an evicted trial that saves and goes on.

They run where a node can run, as `test_real_node.py` says.
"""

import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.ssh_session import LIMIT_S
from tests.kubernetes.dashboard_site import DashboardProcess, SignedIn, until
from tests.kubernetes.node_session import MOUNTS, SMALL, ClusterPerson
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.queries import wait_for_queries
from tools.controlplane.weir import project
from tools.node.node import RealNode
from tools.node.programs import Programs

import weir as package

GPUS = 4
SOURCE = str(Path(package.__file__).parents[1])
PYTHON = str(Path(sys.executable).resolve())
NO_NETWORK = "weir: calls such as weir.report() have no effect now: "
TRIAL = f"""
import os, sys, time
from pathlib import Path
sys.path.append({SOURCE!r})
import weir

directory = Path(os.environ["WEIR_CHECKPOINT_DIR"])
saved, go = directory / "step", directory / "go"
step = int(saved.read_text()) if saved.exists() else 0
print("process", os.getpid(), "from", step, flush=True)
while True:
    step += 1
    with (directory / "trained").open("a") as file:
        file.write(f"{{step}}\\n")
    time.sleep(0.02)
    if go.exists():
        weir.report(step=1000000, loss=1 / step)
    if weir.stopping():
        saved.write_text(str(step))
        weir.checkpointed(step=step)
        print("saved", step, flush=True)
        break
"""


@pytest.fixture(scope="module")
def node(plane: ControlPlane, programs: Programs) -> Iterator[RealNode]:
    """A node of a cluster with Weir and two teams, of which each may use half of the GPUs."""
    cluster = Cluster(plane)
    plane.start_scheduler()
    try:
        with (
            RealNode(plane, programs, name="localhost", gpus=GPUS, mounts=[*MOUNTS, SOURCE]) as running,
            Installed(plane, name="day") as weir,
        ):
            weir.wait_ready()
            wait_for_queries(plane.api)
            for name in ("vision", "speech"):
                cluster.namespace(name)
                weir.create_queues(project(name, GPUS // 2, [name]))
            allow_sweeps(cluster, weir.namespace, running)
            yield running
            running.check()
            for name in ("vision", "speech"):
                plane.api.delete(f"/apis/weir.dev/v1alpha1/namespaces/{name}/sweeps")
                plane.api.delete(f"/apis/batch/v1/namespaces/{name}/jobs", grace_s=0)
            cluster.until(lambda: not cluster.pods("vision") + cluster.pods("speech"), "the pods to be gone")
    finally:
        plane.kill("kube-scheduler")
        cluster.empty()


def allow_sweeps(cluster: Cluster, home: str, node: RealNode) -> None:
    """Let Weir make Jobs for sweeps, and give these a claim for checkpoints."""
    rbac, account = "rbac.authorization.k8s.io", {"kind": "ServiceAccount", "name": "weir", "namespace": home}
    ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": "weir-sweeps"}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "s", "namespace": "vision"},
    }
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    path = {"path": str(node.shared / "checkpoints"), "type": "DirectoryOrCreate"}
    volume = {"accessModes": modes, "capacity": size, "hostPath": path, "storageClassName": ""}
    claim = {
        "accessModes": modes,
        "resources": {"requests": size},
        "storageClassName": "",
        "volumeName": "day",
    }
    named = {"name": "checkpoints", "namespace": "vision"}
    cluster.api.create(
        {**binding, "roleRef": ref, "subjects": [account]},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "day"}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim, "metadata": named},
    )


@pytest.fixture(scope="module")
def person(node: RealNode, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> ClusterPerson:
    return ClusterPerson(tmp_path_factory.mktemp("person"), plane.kubeconfig_for("weir"), "vision")


class Following:
    """`weir logs -f` that runs.

    The pods have no network, and jobs say so after some tries, if they run that long: it isn't their output.
    """

    def __init__(self, person: ClusterPerson, *words: str) -> None:
        self.lines: list[str] = []
        command = [sys.executable, "-P", "-m", "weir", "logs", "-f", *words]
        self.process = subprocess.Popen(command, env=person.environment, stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                if not line.startswith(NO_NETWORK):
                    self.lines.append(line.rstrip("\n"))

    def ended(self) -> list[str]:
        assert self.process.wait(LIMIT_S) == 0
        self.thread.join(LIMIT_S)
        return self.lines


def test_submit_follows_the_output_to_the_end(person: ClusterPerson) -> None:
    script = "echo one; sleep 1; printf two"
    done = person.weir(
        "submit", "--gpus", "1", *SMALL, "--name", "hello", "--follow", "--", "sh", "-c", script
    )
    assert (done.returncode, done.stdout) == (0, "vision/job-hello\none\ntwo"), done.stderr
    assert "vision/job-hello succeeded" in done.stderr
    assert person.weir("logs", "hello", "--tail", "1").stdout == "two"


def test_the_page_follows_the_output_to_the_end(person: ClusterPerson, plane: ControlPlane) -> None:
    kubeconfig = plane.kubeconfig_for("weir")
    script = "echo one; until [ -e /tmp/seen ]; do sleep 0.2; done; printf two"
    words = ("--gpus", "1", *SMALL, "--name", "page", "--", "sh", "-c", script)
    with DashboardProcess(kubeconfig, "--namespace", "vision") as served, SignedIn(served) as page:
        assert person.weir("submit", *words).returncode == 0
        uid = until(lambda: uids_of(page, "vision/job-page"), "the workload to be listed")[0]
        with page.client.stream("GET", f"/api/v1/workloads/{uid}/logs", params={"follow": "true"}) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream"), answer.read()
            text = ""
            for line in answer.iter_lines():
                piece = b64decode(line.removeprefix("data:")).decode() if line.startswith("data:") else ""
                text += piece
                if piece == "one\n":
                    assert person.weir("exec", "page", "--", "touch", "/tmp/seen").returncode == 0
            assert (text, line) == ("one\ntwo", "")
        assert page.client.get(f"/api/v1/workloads/{uid}/logs", params={"tail": "1"}).text == "two"


def uids_of(page: SignedIn, name: str) -> list[int]:
    """Return the numbers of the page for the workloads with a name."""
    return [row["uid"] for row in page.get("workloads?limit=1000")["items"] if row["name"] == name]


def test_all_pods_of_a_gang_are_followed_and_one_by_its_index(person: ClusterPerson) -> None:
    script = "echo pod $JOB_COMPLETION_INDEX"
    words = ("--gpus", "1", "--workers", "2", "--retries", "0", "--name", "gang", "--", "sh", "-c", script)
    assert person.weir("submit", *SMALL, *words).returncode == 0
    lines = Following(person, "gang", "--pod", "all").ended()
    assert sorted(line.partition(" | ")[2] for line in lines) == ["pod 0", "pod 1"]
    assert person.weir("logs", "gang").stdout == "pod 0\n"
    assert person.weir("logs", "gang", "--pod", "1").stdout == "pod 1\n"


def test_an_array_has_its_own_indices(person: ClusterPerson) -> None:
    words = ("--array", "3,9", "--name", "parts", "--wait", "--", "sh", "-c", "echo index $WEIR_ARRAY_INDEX")
    assert person.weir("submit", "--gpus", "1", *SMALL, *words).returncode == 0
    assert person.weir("logs", "parts", "--index", "9").stdout == "index 9\n"
    assert person.weir("logs", "parts[3]").stdout == "index 3\n"


def test_an_evicted_trial_saves_and_goes_on(
    person: ClusterPerson, plane: ControlPlane, node: RealNode
) -> None:
    """It is process 1 of its container, and says that it is done only when it is."""
    cluster, checkpoints = Cluster(plane), node.shared / "checkpoints"
    sweep = (
        "--name",
        "lr",
        "--param",
        "lr=float:0..1",
        "--trials",
        "1",
        "--rungs",
        "1000000",
        "--sampler",
        "random",
    )
    words = ("--gpus", str(GPUS), *SMALL, "--checkpoint-claim", "checkpoints", "--no-arguments", *sweep)
    begun = person.weir("sweep", *words, "--", PYTHON, "-c", TRIAL)
    assert begun.returncode == 0, begun.stderr

    def trained() -> list[int]:
        found = list(checkpoints.rglob("trained"))
        return list(map(int, found[0].read_text().split())) if found else []

    cluster.until(lambda: len(trained()) > 10, node.last_words)
    following = Following(person, "lr-0-0")
    cluster.until(lambda: following.lines, "the output of the trial")
    due = person.weir(
        "submit", "-p", "speech", "--gpus", "2", *SMALL, "--name", "due", "--wait", "--", "true"
    )
    assert due.returncode == 0, due.stderr
    cluster.until(lambda: len(following.lines) >= 3, lambda: f"it to go on: {following.lines}")
    next(checkpoints.rglob("trained")).with_name("go").touch()
    lines = following.ended()
    steps = trained()
    assert steps == list(range(1, len(steps) + 1)), "no step twice, and none is lost"
    saved = lines[1].removeprefix("saved ")
    assert lines == ["process 1 from 0", f"saved {saved}", f"process 1 from {saved}", f"saved {steps[-1]}"]
    path = "/apis/weir.dev/v1alpha1/namespaces/vision/sweeps/lr"
    cluster.until(
        lambda: cluster.api.get(path)["status"].get("phase") == "Finished",
        lambda: f"{cluster.api.get(path)}",
    )
    (trial,) = cluster.api.get(path)["status"]["trials"]
    assert [each["step"] for each in trial["results"]] == [1000000]
