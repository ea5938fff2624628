"""The examples for GitOps tools: they parse, their values fit the charts, and they except what Weir writes."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from weir.kubernetes.install.charts.values import ChartValues
from weir.kubernetes.install.manifests import Installation, manifests

EXAMPLES = Path(__file__).parents[4] / "examples/gitops"
FILES = sorted(EXAMPLES.rglob("*.yaml"))
VERSIONS = {
    "Application": "argoproj.io/v1alpha1",
    "GitRepository": "source.toolkit.fluxcd.io/v1",
    "HelmRelease": "helm.toolkit.fluxcd.io/v2",
    "Kustomization": "kustomize.toolkit.fluxcd.io/v1",
}


def objects(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


TOOLS = {each["metadata"]["name"]: each for each in objects(EXAMPLES / "argocd.yaml")}
FLUX = {(each["kind"], each["metadata"]["name"]): each for each in objects(EXAMPLES / "flux.yaml")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_object_has_a_kind_and_a_known_version(path: Path) -> None:
    for each in objects(path):
        assert each["kind"]
        if path.parent == EXAMPLES:
            assert each["apiVersion"] == VERSIONS[each["kind"]]


@pytest.mark.parametrize(
    "values",
    [TOOLS["weir"]["spec"]["source"]["helm"]["valuesObject"], FLUX["HelmRelease", "weir"]["spec"]["values"]],
    ids=["argocd", "flux"],
)
def test_values_fit_the_chart(values: dict[str, Any]) -> None:
    ChartValues.model_validate(values)


def test_kinds_come_before_weir_and_projects_are_never_pruned() -> None:
    waves = [
        int(TOOLS[name]["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"])
        for name in ("weir-crds", "weir", "weir-projects")
    ]
    assert waves == sorted(set(waves))
    assert FLUX["HelmRelease", "weir"]["spec"]["dependsOn"] == [{"name": "weir-crds"}]
    for name in ("weir-crds", "weir-projects"):
        assert TOOLS[name]["spec"]["syncPolicy"]["automated"]["prune"] is False
    assert FLUX["Kustomization", "weir-projects"]["spec"]["prune"] is False


def test_exceptions_are_objects_of_an_installation_that_weir_writes() -> None:
    found = {
        (each["apiVersion"].rpartition("/")[0], each["kind"])
        for each in manifests(Installation())
        if each["kind"] != "Secret"
    }
    found.add(("", "Secret"))  # which Weir creates itself
    spec = TOOLS["weir"]["spec"]
    assert {(each.get("group", ""), each["kind"]) for each in spec["ignoreDifferences"]} <= found
    assert "RespectIgnoreDifferences=true" in spec["syncPolicy"]["syncOptions"]
    written = {(key, path) for key, path in _written_by_weir()}
    excepted = {
        (each["kind"], path)
        for each in spec["ignoreDifferences"]
        for path in chain(each.get("jqPathExpressions", []), each.get("jsonPointers", []))
    }
    assert excepted == written


def _written_by_weir() -> list[tuple[str, str]]:
    hooks = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    parts = ("caBundle", "service.path")
    fields = [(kind, f".webhooks[].clientConfig.{part}") for kind in hooks for part in parts]
    return [*fields, ("APIService", "/spec/caBundle"), ("Secret", "/data")]


def test_every_file_of_the_projects_is_a_resource_of_their_kustomization() -> None:
    (listed,) = objects(EXAMPLES / "projects/kustomization.yaml")
    files = {path.name for path in FILES if path.parent.name == "projects"} - {"kustomization.yaml"}
    assert set(listed["resources"]) == files
