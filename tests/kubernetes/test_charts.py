"""The Helm charts: the same objects as the manifests, and releases that keep projects and running pods."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.chart_cases import installation, random_values
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_policies, wait_for_rights, wait_for_webhooks
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, install_kinds, project
from tools.controlplane.work import job

from weir.cli.main import main
from weir.kubernetes.admission.certificates import first, written
from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.install.charts import files as chart_files
from weir.kubernetes.install.manifests import Installation, manifests

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
NAMESPACE = "gpus"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with both charts, as the command line writes them."""
    made = tmp_path_factory.mktemp("charts")
    assert main(["kube", "charts", str(made)]) == 0
    return made


class Helm:
    """Helm with a home of its own."""

    def __init__(self, program: str, home: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        self._env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        if kubeconfig is not None:
            self._env["KUBECONFIG"] = str(kubeconfig)

    def run(self, *words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        given = ["--values", "-"] if values is not None else []
        return subprocess.run(
            [self._program, *words, *given],
            input=json.dumps(values or {}),
            env=self._env,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def do(self, *words: str, values: dict[str, Any] | None = None) -> str:
        done = self.run(*words, values=values)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def helm(binaries: Binaries, tmp_path: Path) -> Helm:
    return Helm(binaries["helm"], tmp_path)


def rendered(helm: Helm, chart: Path, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    text = helm.do("template", "weir", str(chart), "--namespace", NAMESPACE, values=values)
    return [each for each in yaml.load_all(text, LOADER) if each is not None]


def by_name(things: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in things
    }


def test_kinds_are_those_of_the_manifests_and_kept(helm: Helm, charts: Path) -> None:
    found = by_name(rendered(helm, charts / "weir-crds"))
    kinds = [each for each in manifests(installation({}, NAMESPACE)) if "CustomResource" in each["kind"]]
    for each in found.values():
        assert each["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert found == by_name(kinds)


def same_objects(helm: Helm, charts: Path, values: dict[str, Any]) -> None:
    found = by_name(rendered(helm, charts / "weir", values))
    wanted = by_name(manifests(installation(values, NAMESPACE)))
    for key in [*wanted]:
        if key[0] in ("Namespace", "CustomResourceDefinition"):
            del wanted[key]
    assert found.keys() == wanted.keys()
    for key, each in found.items():
        assert each == wanted[key], key


def test_objects_are_those_of_the_manifests(helm: Helm, charts: Path) -> None:
    same_objects(helm, charts, {})


@pytest.mark.parametrize("seed", range(10 * EFFORT))
def test_objects_of_random_values_are_those_of_the_manifests(helm: Helm, charts: Path, seed: int) -> None:
    same_objects(helm, charts, random_values(seed))


WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("replicas", {"replicas": 0}),
    ("replicas", {"replicas": "two"}),
    ("image", {"image": "weir:1 --privileged"}),
    ("scheduler", {"scheduler": "night'); drop"}),
    ("managedNamespaces/0", {"managedNamespaces": ["A"]}),
    ("managedNamespaces", {"managedNamespaces": ["a", "a"]}),
    ("devices", {"devices": []}),
    ("devices/0", {"devices": ["nvidia.com"]}),
    ("devices/0", {"devices": ["nvidia.com/gpu=0"]}),
    ("devices/1", {"devices": ["nvidia.com/gpu", "a.io/x' || true || '"]}),
    ("reachableFrom/0", {"reachableFrom": ["10.0.0.256/8"]}),
    ("reachableFrom/0", {"reachableFrom": ["10.0.0.1/33"]}),
    ("reachableFrom/0", {"reachableFrom": ["fd00::1::2/64"]}),
    ("reachableFrom: 10.0.0.1/8 has bits after", {"reachableFrom": ["10.0.0.0/8", "10.0.0.1/8"]}),
    ("reachableFrom: fd00:8::1/64 has bits after", {"reachableFrom": ["a", "fd00:8::1/64"]}),
    ("mayCall/0", {"mayCall": ["monitoring"]}),
    ("mayCall/0", {"mayCall": ["monitoring:65536"]}),
    ("mayCall: 10.0.0.1/8:5432 has bits after", {"mayCall": ["10.0.0.1/8:5432"]}),
    ("admission/exemptNamespaces/0", {"admission": {"exemptNamespaces": ["A"]}}),
    ("admission/exemptNamespaces", {"admission": {"exemptNamespaces": ["a", "a"]}}),
    ("admission/withoutProject", {"admission": {"withoutProject": "queue:"}}),
    ("admission/withoutProjectIn", {"admission": {"withoutProjectIn": {"a..b/c": "d"}}}),
    ("refuseNodeNames", {"admission": {"refuseNodeNames": True}}),
    ("priorityClasses", {"priorityClasses": "weir"}),
    ("pods/requests/cpu", {"pods": {"requests": {"cpu": "much", "memory": "1Gi"}}}),
    ("pods.requests.memory", {"pods": {"requests": {"cpu": "1", "memory": "2049Mi"}}}),
    ("pods.requests.cpu", {"pods": {"limits": {"cpu": "499m", "memory": "1Gi"}}}),
    ("pods/tolerations/0", {"pods": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}),
    ("pods/nodeSelector", {"pods": {"nodeSelector": {"a": "b c"}}}),
    ("dashboard.url", {"dashboard": {"enabled": True, "issuer": "https://sso.example.org"}}),
    ("dashboard.issuer", {"dashboard": {"enabled": True, "url": "https://weir.example.org"}}),
    ("dashboard/url", {"dashboard": {"url": "http://weir.example.org"}}),
    ("dashboard/issuer", {"dashboard": {"issuer": 'https://a"b'}}),
    ("dashboard.mayCall: 10.0.0.1/8:5432 has bits", {"dashboard": {"mayCall": ["10.0.0.1/8:5432"]}}),
    ("dashboard.trustedProxies: 10.0.0.1/8 has bits", {"dashboard": {"trustedProxies": ["10.0.0.1/8"]}}),
    ("dashboard/trustedProxies/0", {"dashboard": {"trustedProxies": ["0.0.0.0/0"]}}),
    ("dashboard/trustedProxies/0", {"dashboard": {"trustedProxies": ["ingress-nginx"]}}),
    ("overcommitGrace", {"overcommitGrace": "soon"}),
    ("sharedNodes", {"sharedNodes": -1}),
)


@pytest.mark.parametrize(("key", "values"), WRONG)
def test_wrong_value_is_refused_with_its_key(
    helm: Helm, charts: Path, key: str, values: dict[str, Any]
) -> None:
    done = helm.run("template", "weir", str(charts / "weir"), values=values)
    assert done.returncode != 0
    assert key in done.stderr


def test_charts_that_exist_are_not_overwritten(charts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kube", "charts", str(charts)]) == 2
    assert "exists: remove it" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(2 * EFFORT))
def test_api_server_accepts_random_values(helm: Helm, charts: Path, cluster: Cluster, seed: int) -> None:
    """The kinds of the Prometheus operator aren't in this cluster."""
    install_kinds(cluster.api)
    values = random_values(seed) | {"monitoring": False}
    namespace = cluster.namespace()
    for managed in values.get("managedNamespaces", ()):
        cluster.namespace(managed)
    objects = helm.do("template", "weir", str(charts / "weir"), "--namespace", namespace, values=values)
    cluster.plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=objects
    )


HOOKS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/weir"
    for kind in ("mutating", "validating")
)


class Release:
    """The charts as releases of Helm. Nothing answers at the Service that the webhooks call."""

    def __init__(self, helm: Helm, charts: Path, cluster: Cluster) -> None:
        self._helm = helm
        self.charts = charts
        self._cluster = cluster
        self.namespace = cluster.namespace()

    def install_kinds(self) -> None:
        install_kinds(self._cluster.api)
        self.apply_kinds()

    def apply_kinds(self) -> None:
        self._upgrade("weir-crds", {})

    def apply(self, values: dict[str, Any]) -> None:
        self._upgrade("weir", values)

    def roll_back(self) -> None:
        self._helm.do("rollback", "weir", "1", "--namespace", self.namespace)

    def uninstall(self) -> None:
        """Uninstall both charts, and wait until the API server enforces none of it on the next test."""
        for name in ("weir", "weir-crds"):
            self._helm.do("uninstall", name, "--namespace", self.namespace)
        wait_for_policies(self._cluster.api)
        wait_for_webhooks(self._cluster.api)

    def replicas(self) -> int:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/weir"
        return int(self._cluster.api.get(path)["spec"]["replicas"])

    def _upgrade(self, name: str, values: dict[str, Any]) -> None:
        """Other tests may have left kinds and cluster roles, so Helm takes them over."""
        words = ("--install", "--take-ownership", "--force-conflicts", "--namespace", self.namespace)
        self._helm.do("upgrade", name, str(self.charts / name), *words, values=values)

    def remove_webhooks(self) -> None:
        """Remove what would call the Service, and wait until the rest is in force."""
        for path in HOOKS:
            self._cluster.api.delete(path)
        wait_for_webhooks(self._cluster.api)
        wait_for_policies(self._cluster.api)
        wait_for_rights(self._cluster.api)


NEW_RIGHTS, NEW_ARGUMENT, OLD_SETTINGS = "serving.knative.dev", "--overcommit-grace", "weir"
PROJECTS = "projects.weir.dev"


@pytest.fixture
def older_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory with the charts of an older version: fewer fields, rights and arguments, and another object."""

    def older_kinds() -> list[dict[str, Any]]:
        return [without_times(each) for each in definitions()]

    def older_objects(installation: Installation) -> list[dict[str, Any]]:
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OLD_SETTINGS}, "data": {}}
        settings["metadata"]["namespace"] = installation.namespace
        return [*(older(each) for each in manifests(installation)), settings]

    with monkeypatch.context() as patched:
        patched.setattr(chart_files, "definitions", older_kinds)
        patched.setattr(chart_files, "manifests", older_objects)
        assert main(["kube", "charts", str(tmp_path / "older")]) == 0
    return tmp_path / "older"


def without_times(kind: dict[str, Any]) -> dict[str, Any]:
    """Return a kind as an older version had it: projects without the field `times`."""
    if kind["metadata"]["name"] == PROJECTS:
        for version in kind["spec"]["versions"]:
            del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["times"]
    return kind


def older(thing: dict[str, Any]) -> dict[str, Any]:
    """Return an object as an older version had it."""
    if thing["kind"] == "ClusterRole" and thing["metadata"]["name"] == "weir":
        thing["rules"] = [rule for rule in thing["rules"] if NEW_RIGHTS not in rule["apiGroups"]]
    if thing["kind"] == "Deployment" and thing["metadata"]["name"] == "weir":
        (container,) = thing["spec"]["template"]["spec"]["containers"]
        at = container["args"].index(NEW_ARGUMENT)
        del container["args"][at : at + 2]
    return thing


def shown_version(cluster: Cluster, namespace: str) -> tuple[bool, bool, bool, bool]:
    """Return what tells versions apart: the field, the right and the argument of the new one, the object of the old."""
    api = cluster.api
    kind = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PROJECTS}")
    role = api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/weir")
    deployed = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/weir")
    settings = api.maybe(f"/api/v1/namespaces/{namespace}/configmaps/{OLD_SETTINGS}")
    fields = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return (
        "times" in fields,
        NEW_RIGHTS in str(role["rules"]),
        NEW_ARGUMENT in str(deployed),
        settings is not None,
    )


OLD, NEW = (False, False, False, True), (True, True, True, False)


def test_upgrade_rollback_and_uninstall_keep_projects_and_pods(
    binaries: Binaries,
    charts: Path,
    older_charts: Path,
    cluster: Cluster,
    plane: ControlPlane,
    tmp_path: Path,
) -> None:
    """Each step leaves all running pods as they were, and Weir starts more in between.

    An older version is upgraded, both with other values, and rolled back.
    """
    pods = 500 if EFFORT > 1 else 16
    release = Release(Helm(binaries["helm"], tmp_path, plane.kubeconfig), older_charts, cluster)
    install_kinds(cluster.api)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PROJECTS}"
    cluster.api.put(path, without_times(cluster.api.get(path)))  # other tests have the newer one
    release.apply_kinds()
    release.apply({})
    release.remove_webhooks()
    assert shown_version(cluster, release.namespace) == OLD
    cluster.add_nodes(pods // 4, gpus=8)
    team = cluster.namespace()
    cluster.api.create(project("team", 2 * pods, [team]))
    arguments = ("--namespace", release.namespace)
    with Weir(plane, plane.kubeconfig_of(release.namespace, "weir"), name="chart", arguments=arguments):
        _run_more(cluster, team, "first", pods)
        running, team_before = _running(cluster, team), _team(cluster)
        release.charts = charts
        release.apply_kinds()
        release.apply({"replicas": 3, "admission": {"requireScheduler": True}})
        release.remove_webhooks()
        assert release.replicas() == 3
        assert shown_version(cluster, release.namespace) == NEW
        assert _team(cluster) == team_before
        _run_more(cluster, team, "upgraded", 1)
        release.roll_back()
        release.remove_webhooks()
        assert release.replicas() == 2
        assert shown_version(cluster, release.namespace) == (True, *OLD[1:]), "kinds are upgraded for good"
        _run_more(cluster, team, "back", 1)
    release.uninstall()
    assert cluster.api.maybe(f"/apis/apps/v1/namespaces/{release.namespace}/deployments/weir") is None
    assert _team(cluster) == team_before
    after = _running(cluster, team)
    assert running.items() <= after.items()
    assert len(after) == pods + 2


def _team(cluster: Cluster) -> tuple[str, dict[str, Any]]:
    """Return the uid and the spec of the only project."""
    (found,) = cluster.api.items("/apis/weir.dev/v1alpha1/projects")
    return found["metadata"]["uid"], found["spec"]


def test_upgrade_keeps_the_fields_that_weir_writes(
    binaries: Binaries, charts: Path, cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    """The certificate of the webhooks, the key in their path, and the finalizers aren't in the charts."""
    api = cluster.api
    certificate = written(first(["weir.gpus.svc"], datetime.now(UTC)))["ca.crt"]
    release = Release(Helm(binaries["helm"], tmp_path, plane.kubeconfig), charts, cluster)
    release.install_kinds()
    release.apply({})
    for path in HOOKS:
        hooks = api.get(path)["webhooks"]
        for hook in hooks:
            hook["clientConfig"]["caBundle"] = certificate
            hook["clientConfig"]["service"]["path"] = "/key"
        api.patch(path, {"webhooks": hooks})
    secret = f"/api/v1/namespaces/{release.namespace}/secrets/weir-webhook"
    api.patch(secret, {"data": {"ca.crt": certificate}})
    release.apply({"replicas": 3, "devices": ["example.com/gpu"]})
    for path in HOOKS:
        hooks = api.get(path)["webhooks"]
        assert "example.com/gpu" in str(hooks), "the upgrade is applied"
        assert {hook["clientConfig"]["service"]["path"] for hook in hooks} == {"/key"}
        assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {certificate}
    assert api.get(secret)["data"] == {"ca.crt": certificate}


def _run_more(cluster: Cluster, team: str, name: str, pods: int) -> None:
    """Create Jobs of one pod each, and wait until all pods run."""
    expected = len(_running(cluster, team)) + pods
    cluster.api.create_many([job(team, f"{name}-{at}") for at in range(pods)])
    cluster.until(lambda: len(_running(cluster, team)) == expected, f"{expected} pods to run")


def _running(cluster: Cluster, team: str) -> dict[str, str]:
    """Return the node by uid of each pod that runs."""
    return {
        pod["metadata"]["uid"]: pod["spec"]["nodeName"]
        for pod in cluster.pods(team)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }
