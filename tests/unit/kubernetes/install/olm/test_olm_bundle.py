"""The bundle and the catalogue of OLM: valid against the published schemas, and all of the manifests."""

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.kubernetes.install.olm.olm_schema import (
    ANNOTATIONS,
    CREATED_BY_OLM,
    wrong_for_restricted_v2,
    wrong_in_catalog,
    wrong_in_csv,
)

from weir.cli.main import main
from weir.kubernetes.api.managed_namespaces import ManagedNamespaces
from weir.kubernetes.install.manifests import Installation, manifests
from weir.kubernetes.install.olm.bundle import BUNDLED, BundleOptions, bundle
from weir.kubernetes.install.olm.catalog import catalog
from weir.kubernetes.install.pods.dashboard_server import DashboardOptions
from weir.kubernetes.install.pods.deployment import PodOptions
from weir.kubernetes.install.pods.history import HistoryStorage
from weir.kubernetes.install.pods.node_agent import NodeAgents

ROOT = Path(__file__).parents[5]
DIGEST = "sha256:" + "ab" * 32
IMAGE = f"registry.example.com/weir@{DIGEST}"
read = partial(yaml.load, Loader=yaml.CSafeLoader)
read_all = partial(yaml.load_all, Loader=yaml.CSafeLoader)
CSV = "bundle/manifests/weir.clusterserviceversion.yaml"
Object = dict[str, Any]


def options(**more: Any) -> BundleOptions:
    return BundleOptions(Installation(image=IMAGE, monitoring=True), **more)


def objects(files: dict[str, str]) -> list[Object]:
    """The objects of the bundle's manifests."""
    return [read(text) for path, text in files.items() if path.startswith("bundle/manifests/")]


def definitions(files: dict[str, str]) -> dict[str, Object]:
    found = objects(files)
    return {each["metadata"]["name"]: each for each in found if each["kind"] == "CustomResourceDefinition"}


def test_the_csv_is_valid() -> None:
    files = bundle(options(maintainers=(("A team", "team@example.com"),), replaces="weir.v0.0.9"))
    assert wrong_in_csv(read(files[CSV]), definitions(files)) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("spec", "version"), "1", "version"),
        (("spec", "installModes"), [{"type": "AllNamespaces", "supported": True}], "installModes"),
        (("spec", "relatedImages"), [], "relatedImages"),
        (("metadata", "labels"), {"operatorframework.io/arch.amd64": "supported"}, "platforms"),
        (("metadata", "annotations", "capabilities"), "All of them", "capabilities"),
        (("metadata", "annotations", "alm-examples"), "[]", "example of projects.weir.dev"),
        (("spec", "customresourcedefinitions", "owned"), [], "owned kinds"),
    ],
)
def test_the_checks_find_what_is_wrong(path: tuple[str, ...], value: Any, expected: str) -> None:
    files = bundle(options())
    csv = read(files[CSV])
    here = csv
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    assert expected in wrong_in_csv(csv, definitions(files))


def test_the_pods_fit_restricted_v2_without_a_path_of_the_host() -> None:
    csv = read(bundle(options())[CSV])
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    pod = deployment["spec"]["template"]["spec"]
    assert wrong_for_restricted_v2(pod) == []
    other = copy.deepcopy(pod)
    other["volumes"].append({"name": "devices", "hostPath": {"path": "/dev"}})
    other["securityContext"]["runAsUser"] = 0
    other["containers"][0]["securityContext"]["capabilities"]["add"] = ["SYS_ADMIN"]
    assert wrong_for_restricted_v2(other) == ["runAsUser", "volume devices", "capabilities"]


@pytest.mark.parametrize(
    ("history", "wrong"),
    [
        (HistoryStorage(secret="weir-history"), []),
        (HistoryStorage(claim="weir-history", fixed_group=False), []),
        (HistoryStorage(claim="weir-history"), ["fsGroup"]),
    ],
)
def test_pods_with_a_dashboard_and_a_history_fit_restricted_v2(
    history: HistoryStorage, wrong: list[str]
) -> None:
    dashboard = DashboardOptions(url="https://weir.example.org", issuer="https://id.example.org")
    installation = Installation(replicas=1, pods=PodOptions(history=history), dashboard=dashboard)
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in manifests(installation)
        if each["kind"] == "Deployment"
    }
    found = {name: wrong_for_restricted_v2(pod) for name, pod in pods.items()}
    assert found == {"weir": wrong, "weir-dashboard": []}


def test_a_bundle_holds_what_olm_creates_and_the_other_file_the_rest() -> None:
    chosen = options()
    files = bundle(chosen)
    bundled = objects(files)
    assert {each["kind"] for each in bundled} <= CREATED_BY_OLM
    assert set(BUNDLED) <= CREATED_BY_OLM
    rest = list(read_all(files["cluster.yaml"]))
    (query_api,) = read_all(files["query-api.yaml"])
    assert query_api["kind"] == "APIService", "an administrator applies it when Weir answers"
    assert [
        each["metadata"]["name"] for each in rest if each["metadata"].get("namespace") == "kube-system"
    ] == ["weir-front-proxy"], "OLM creates objects of the bundle in its own namespace"
    assert not [each for each in bundled if each["metadata"].get("namespace", "placeholder") != "placeholder"]
    assert not {each["kind"] for each in rest} & {"Deployment", "ServiceAccount", "CustomResourceDefinition"}
    there = {(each["kind"], each["metadata"]["name"]) for each in (*bundled, *rest, query_api)}
    wanted = {(each["kind"], each["metadata"]["name"]) for each in manifests(chosen.installation)}
    of_csv = {
        (kind, "weir")
        for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    }
    assert wanted - there == {*of_csv, ("Deployment", "weir"), ("Secret", "weir-webhook")}
    assert there - wanted == {("ClusterServiceVersion", "weir.v0.1.0")}


def test_agents_of_nodes_come_with_the_administrators_file() -> None:
    chosen = BundleOptions(Installation(image=IMAGE, node=NodeAgents()))
    files = bundle(chosen)
    bundled = {(each["kind"], each["metadata"]["name"]) for each in objects(files)}
    rest = {(each["kind"], each["metadata"]["name"]): each for each in read_all(files["cluster.yaml"])}
    assert bundled >= {("ServiceAccount", "weir-node"), ("Service", "weir-replicas")}
    pod = rest["DaemonSet", "weir-node"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == IMAGE
    assert (
        rest["Namespace", "weir-system"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        == "privileged"
    )
    assert wrong_in_csv(read(files[CSV]), definitions(files)) == []


def wrong_for_constraints(pod: Object, constraints: Object) -> list[str]:
    """Return what security context constraints of OpenShift refuse of a pod."""
    security, (container,) = pod["securityContext"], pod["containers"]
    its = container["securityContext"]
    seccomp = {"RuntimeDefault": "runtime/default"}[security["seccompProfile"]["type"]]
    checks = {
        "hostPID": pod.get("hostPID", False) <= constraints["allowHostPID"],
        "hostNetwork": not pod.get("hostNetwork") and not pod.get("hostIPC"),
        "user": security["runAsUser"] == constraints["runAsUser"]["uid"],
        "SELinux": "seLinuxOptions" not in {**security, **its},
        "seccomp": seccomp in constraints.get("seccompProfiles", ()),
        "escalation": its["allowPrivilegeEscalation"] <= constraints["allowPrivilegeEscalation"],
        "root file system": its["readOnlyRootFilesystem"] >= constraints["readOnlyRootFilesystem"],
        "capabilities": its["capabilities"] == {"drop": constraints["requiredDropCapabilities"]},
        "privileged": not its.get("privileged"),
        "volumes": all(constraints["volumes"].count(*(each.keys() - {"name"})) for each in pod["volumes"]),
        "ports": not any("hostPort" in each for each in container.get("ports", ())),
    }
    return [name for name, is_right in checks.items() if not is_right]


@pytest.mark.parametrize("watches", [False, True])
def test_openshift_admits_the_agents_by_constraints_for_their_account_alone(*, watches: bool) -> None:
    installation = Installation(image=IMAGE, namespace="gpus", node=NodeAgents(watch_memory=watches))
    rest = list(read_all(bundle(BundleOptions(installation))["cluster.yaml"]))
    found = {each["kind"]: each for each in rest if each["metadata"]["name"] == "weir-node"}
    constraints, pod = found["SecurityContextConstraints"], found["DaemonSet"]["spec"]["template"]["spec"]
    assert wrong_for_constraints(pod, constraints) == []
    assert constraints["users"] == [f"system:serviceaccount:gpus:{pod['serviceAccountName']}"]
    assert not constraints.get("groups")
    assert constraints["allowHostPID"] is watches
    narrower = {**constraints, "allowHostPID": False, "seccompProfiles": []}
    assert wrong_for_constraints(pod, narrower) == [*(["hostPID"] if watches else []), "seccomp"]


def test_no_constraints_come_without_agents_or_to_another_kubernetes() -> None:
    files = bundle(options())
    assert "SecurityContextConstraints" not in {each["kind"] for each in read_all(files["cluster.yaml"])}
    assert "SecurityContextConstraints" not in {
        each["kind"] for each in manifests(Installation(node=NodeAgents()))
    }


def test_objects_of_another_namespace_are_in_the_other_file_with_it() -> None:
    files = bundle(options())
    (elsewhere,) = [each for each in read_all(files["cluster.yaml"]) if each["kind"] == "RoleBinding"]
    assert elsewhere["metadata"]["namespace"] == "kube-system"
    assert elsewhere["metadata"]["name"] not in {each["metadata"]["name"] for each in objects(files)}


def test_each_managed_namespace_has_its_bindings() -> None:
    managed = ManagedNamespaces(("speech", "vision"))
    chosen = replace(options(), installation=replace(options().installation, managed=managed))
    found = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in read_all(bundle(chosen)["cluster.yaml"])
        if each["kind"] == "RoleBinding"
    }
    names = ("weir-namespaces", "weir-delete-pods")
    wanted = {(namespace, name) for namespace in managed.names for name in names}
    assert found == {*wanted, ("default", "weir-events"), ("kube-system", "weir-front-proxy")}


def test_rights_deployment_and_kinds_are_those_of_the_manifests() -> None:
    chosen = options()
    files = bundle(chosen)
    install = read(files[CSV])["spec"]["install"]["spec"]
    made = {(each["kind"], each["metadata"]["name"]): each for each in manifests(chosen.installation)}
    assert install["clusterPermissions"][0]["rules"] == made["ClusterRole", "weir"]["rules"]
    assert install["permissions"][0]["rules"] == made["Role", "weir"]["rules"]
    assert install["deployments"][0]["spec"] == made["Deployment", "weir"]["spec"]
    kinds = {name: each for (kind, name), each in made.items() if kind == "CustomResourceDefinition"}
    assert definitions(files) == kinds


def test_annotations_and_labels_of_the_image_are_the_same() -> None:
    files = bundle(options(channel="candidate"))
    annotations = read(files["bundle/metadata/annotations.yaml"])["annotations"]
    assert annotations.keys() >= ANNOTATIONS
    lines = files["bundle.Containerfile"].splitlines()
    labels = dict(line.removeprefix("LABEL ").split("=", 1) for line in lines if line.startswith("LABEL "))
    assert {key: value.strip('"') for key, value in labels.items()} == annotations
    copied = [line.split()[1:] for line in lines if line.startswith("COPY ")]
    assert copied == [["bundle/manifests", "/manifests/"], ["bundle/metadata", "/metadata/"]]


def test_the_catalogue_is_valid_and_names_every_image_by_digest() -> None:
    chosen = options(bundle_image=f"registry.example.com/weir-bundle@{DIGEST}", replaces="weir.v0.0.9")
    csv = read(bundle(chosen)[CSV])
    blobs = list(read_all(catalog(chosen)["catalog/weir/catalog.yaml"]))
    assert wrong_in_catalog(blobs, csv) == []
    (channel,) = (each for each in blobs if each["schema"] == "olm.channel")
    assert channel["entries"] == [{"name": "weir.v0.1.0", "replaces": "weir.v0.0.9"}]
    (shown,) = (each["value"] for each in blobs[-1]["properties"] if each["type"] == "olm.csv.metadata")
    assert shown["displayName"] == "Weir"
    assert shown["crdDescriptions"] == csv["spec"]["customresourcedefinitions"]
    assert shown["annotations"]["alm-examples"] == csv["metadata"]["annotations"]["alm-examples"]
    images = [each["image"] for blob in blobs for each in blob.get("relatedImages", ())]
    assert len(images) == 2
    assert all(image.endswith(DIGEST) for image in images)
    bare = [
        {**each, "properties": [one for one in each.get("properties", ()) if "csv" not in one["type"]]}
        for each in blobs
    ]
    assert "one olm.csv.metadata" in wrong_in_catalog(bare, csv)
    assert "related images" in wrong_in_catalog([{**each, "relatedImages": []} for each in blobs], csv)


def test_the_command_writes_everything_and_refuses_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "kube",
                "bundle",
                str(tmp_path / "olm"),
                "--image",
                IMAGE,
                "--maintainer",
                "Team <t@example.com>",
            ]
        )
        == 0
    )
    assert capsys.readouterr().err == ""
    csv = read((tmp_path / "olm" / CSV).read_text())
    assert csv["spec"]["maintainers"] == [{"name": "Team", "email": "t@example.com"}]
    assert main(["kube", "bundle", str(tmp_path / "olm")]) == 2
    assert "exists" in capsys.readouterr().err
    for words, flag in (
        (["--image", "a b"], "--image"),
        (["--replaces", "0.1"], "--replaces"),
        (["--maintainer", "nobody"], "--maintainer"),
        (["--url", "ftp://a"], "--url"),
        (["--created", "today"], "--created"),
        (["--channel", "A B"], "--channel"),
    ):
        assert main(["kube", "bundle", str(tmp_path / "other"), *words]) == 2
        assert flag in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_image_on_ubi_has_the_labels_and_licences_that_certification_asks_for() -> None:
    text = (ROOT / "deploy" / "Containerfile.ubi9").read_text()
    bases = [line.split()[1] for line in text.splitlines() if line.startswith("FROM ")]
    assert all(each.startswith("registry.access.redhat.com/ubi9/") for each in bases), "not a short name"
    for label in ("name", "vendor", "version", "release", "summary", "description", "maintainer"):
        assert f"\n      {label}=" in text or f"LABEL {label}=" in text
    assert "COPY LICENSE /licenses/" in text
    assert "USER 65532:0" in text


@pytest.mark.parametrize("name", ["Containerfile.ubi9", "Dockerfile"])
def test_no_layer_of_an_image_holds_what_a_later_one_removes(name: str) -> None:
    text = (ROOT / "deploy" / name).read_text()
    last = text[text.rindex("\nFROM ") :]
    assert "COPY --from=" not in last
    assert "rm -r" not in last
    assert "RUN --mount=type=bind,from=built,source=/wheels,target=/wheels" in last
