"""Weir on OpenShift, without OpenShift's admission: its kinds, restricted pods, and a user without a name."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from tools.controlplane import openshift
from tools.controlplane.api import ApiError, Object
from tools.controlplane.binaries import NoBinaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

from weir.kubernetes.install.manifests import Installation, manifests
from weir.kubernetes.install.olm.bundle import CLUSTER_FILE, BundleOptions, bundle
from weir.kubernetes.install.pods.dashboard_server import DashboardOptions
from weir.kubernetes.install.pods.deployment import PodOptions
from weir.kubernetes.install.pods.history import HistoryStorage
from weir.kubernetes.install.pods.node_agent import NodeAgents

USER = 1_000_650_001
"""A user of the range of some namespace. The image has no name for it."""
AS_USER = (
    *("setpriv", f"--reuid={USER}", "--regid=0", "--clear-groups", "--no-new-privs"),
    *(f"--{kind}-caps=-all,+dac_read_search" for kind in ("inh", "ambient")),
    "--bounding-set=-all,+dac_read_search",
)
"""Run as that user in the group 0, who writes nothing of others, and reads this machine's Python."""
EXEC = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
AGENTS = {
    "plain": NodeAgents(),
    "watching": NodeAgents(watch_memory=True),
    "limiting": NodeAgents(watch_memory=True, limit_memory=True),
}
DASHBOARD = DashboardOptions(url="https://weir.example.org", issuer="https://id.example.org")
ON_VOLUME = HistoryStorage(claim="weir-history", fixed_group=False)
IN_DATABASE = HistoryStorage(secret="weir-history")
INSTALLATIONS = {
    "all at once": Installation(dashboard=DASHBOARD, node=NodeAgents()),
    "history on a volume": Installation(pods=PodOptions(history=ON_VOLUME), replicas=1),
    "history in a database": Installation(pods=PodOptions(history=IN_DATABASE), dashboard=DASHBOARD),
}


@pytest.fixture
def constraints(cluster: Cluster, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster that takes OpenShift's security context constraints, and checks their fields."""
    if openshift.is_skipped():
        pytest.skip("LEFT OUT: A TEST WITH OPENSHIFT'S KINDS. WEIR_OPENSHIFT=skip says so.")
    captured = pytestconfig.pluginmanager.getplugin("capturemanager")
    try:
        with captured.global_and_fixture_disabled() if captured else nullcontext():
            definition = openshift.find()
    except NoBinaries as why:
        if openshift.must_run():
            pytest.fail(f"THE TESTS WITH OPENSHIFT'S KINDS HAVE TO RUN HERE. {why}", pytrace=False)
        pytest.skip(f"LEFT OUT: A TEST WITH OPENSHIFT'S KINDS. {why}")
    openshift.serve_constraints(cluster.plane, definition)
    yield cluster
    openshift.withdraw_constraints(cluster.plane)


def refused(cluster: Cluster, path: str, made: Object) -> str:
    """Return what the API server says of an object with no unknown field; empty if it takes it."""
    try:
        cluster.api.post(f"{path}?dryRun=All&fieldValidation=Strict", made)
    except ApiError as why:
        return why.message
    return ""


@pytest.mark.parametrize("agents", AGENTS.values(), ids=AGENTS)
def test_openshift_takes_the_constraints_of_the_agents(constraints: Cluster, agents: NodeAgents) -> None:
    """No field is unknown or missing: OpenShift's default values aren't needed."""
    written = bundle(BundleOptions(Installation(node=agents)))[CLUSTER_FILE]
    objects = yaml.load_all(written, yaml.CSafeLoader)
    (made,) = (each for each in objects if each["kind"] == "SecurityContextConstraints")
    assert refused(constraints, openshift.CONSTRAINTS, made) == ""
    misspelt = {**made, "allowHostPid": True}
    assert 'unknown field "allowHostPid"' in refused(constraints, openshift.CONSTRAINTS, misspelt)
    short = {key: value for key, value in made.items() if key != "volumes"}
    assert "volumes: Required value" in refused(constraints, openshift.CONSTRAINTS, short)
    path = f"{openshift.CONSTRAINTS}/{made['metadata']['name']}?fieldManager=oc&fieldValidation=Strict"
    stored = constraints.api.ask("PATCH", path, made, "application/apply-patch+yaml")
    assert stored["users"] == ["system:serviceaccount:weir-system:weir-node"]


def pods_of(installation: Installation) -> dict[str, Object]:
    """Return a pod of each Deployment and DaemonSet, by name."""
    found = {}
    for each in manifests(installation):
        if each["kind"] in {"Deployment", "DaemonSet"}:
            name = each["metadata"]["name"]
            template = each["spec"]["template"]
            metadata = {**template["metadata"], "name": name}
            found[name] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    return found


@pytest.mark.parametrize("installation", INSTALLATIONS.values(), ids=INSTALLATIONS)
def test_the_restricted_level_lets_in_all_pods_but_agents(
    cluster: Cluster, installation: Installation
) -> None:
    """Constraints restricted-v2 give no more than this level, which every API server enforces."""
    level = "pod-security.kubernetes.io/enforce"
    spaces = {name: cluster.namespace(labels={level: name}) for name in ("restricted", "privileged")}
    pods = pods_of(installation)
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    cluster.api.apply({**runtime, "metadata": {"name": "nvidia"}, "handler": "nvidia"})
    for name, made in pods.items():
        for space in spaces.values():
            account = {"name": made["spec"]["serviceAccountName"], "namespace": space}
            cluster.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
            made["spec"].pop("priorityClassName", None)  # the quota of critical pods isn't here
        path = "/api/v1/namespaces/{}/pods"
        answer = refused(cluster, path.format(spaces["restricted"]), made)
        if name == "weir-node":
            assert 'violates PodSecurity "restricted' in answer
            assert "hostPath" in answer
            answer = refused(cluster, path.format(spaces["privileged"]), made)
        assert answer == "", name
    cluster.api.delete("/apis/node.k8s.io/v1/runtimeclasses/nvidia")
    assert "weir" in pods


class Nameless(Installed):
    """Weir as OpenShift runs its container: a user without a name, of the group 0, who owns one directory."""

    def command(self) -> list[str]:
        """Return the command as that user."""
        return [sys.executable, "-c", EXEC, *AS_USER, *super().command()]

    def start(self) -> None:
        """Run it, with a directory for `/tmp`."""
        self.home.mkdir(exist_ok=True)
        os.chown(self.home, USER, 0)
        self.home.chmod(0o700)
        super().start()

    def environment(self) -> dict[str, str]:
        """Return the environment, with files of its own in that directory alone."""
        return {**super().environment(), "HOME": str(self.home), "TMPDIR": str(self.home)}


def can_be_nameless() -> bool:
    """Return True if this process may run others as that user."""
    try:
        words = [*AS_USER, sys.executable, "-c", "import weir"]
        return os.geteuid() == 0 and subprocess.run(words, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_weir_binds_pods_as_a_user_without_a_name(cluster: Cluster, plane: ControlPlane) -> None:
    if not can_be_nameless():
        pytest.skip("Only root with setpriv may run Weir as another user.")
    team = cluster.namespace()
    cluster.add_nodes(1, gpus=8)
    with Nameless(plane, namespace=cluster.namespace(), name="nameless", source="bundle") as weir:
        weir.wait_ready()
        weir.create_queues(project(team, 8))
        cluster.api.create(job(team, "train", 1, pods=2, scheduler="default-scheduler"))
        cluster.until(lambda: len(cluster.running(team)) == 2, "the pods of the job to run")
        weir.check()
        assert Path(f"/proc/{plane.pid('nameless')}").stat().st_uid == USER
    assert "Traceback" not in weir.log_text()
