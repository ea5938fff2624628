"""Helm takes over an installation of the manifests, and upgrades it, by the commands of its page."""

import shlex
from pathlib import Path

import pytest
from tests.kubernetes.test_charts import Helm, Release
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import ROOT

from weir.cli.main import main
from weir.kubernetes.install.manifests import Installation, as_yaml, manifests

PAGE = ROOT / "docs" / "how-to" / "kubernetes" / "helm.md"
IMAGE, NEXT = "registry.example.com/weir:1", "registry.example.com/weir:2"


def commands(charts: Path, namespace: str) -> list[list[str]]:
    """Return the commands of the page without their `helm`, with these charts."""
    section = PAGE.read_text().partition("## Come from the manifests\n")[2].partition("\n## ")[0]
    lines = [line.removeprefix("$ helm ") for line in section.splitlines() if line.startswith("$ helm ")]
    replaced = (line.replace("weir-system", namespace).replace(" -f values.yaml", "") for line in lines)
    return [
        [str(charts / Path(word).name) if "/" in word else word for word in shlex.split(line)]
        for line in replaced
    ]


def test_an_installation_of_the_manifests_becomes_a_release_that_takes_a_new_image(
    binaries: Binaries,
    cluster: Cluster,
    plane: ControlPlane,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    charts = tmp_path / "charts"
    assert main(["kube", "charts", str(charts)]) == 0, capsys.readouterr().err
    helm = Helm(binaries["helm"], tmp_path, plane.kubeconfig)
    release = Release(helm, charts, cluster)
    take_kinds, take_over, upgrade = commands(charts, release.namespace)
    objects = as_yaml(manifests(Installation(release.namespace, IMAGE)))
    cluster.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=objects)
    helm.do(*take_kinds)
    helm.do(*take_over, values={"image": IMAGE})
    helm.do(*upgrade, values={"image": NEXT})
    release.remove_webhooks()
    deployed = cluster.api.get(f"/apis/apps/v1/namespaces/{release.namespace}/deployments/weir")
    assert [each["image"] for each in deployed["spec"]["template"]["spec"]["containers"]] == [NEXT]
    release.uninstall()
