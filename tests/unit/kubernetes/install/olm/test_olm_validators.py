"""The bundle and the catalogue, held against the validators of OLM itself.

They are built once, with Go. Without it these tests are left out. WEIR_OLM=required makes that a failure.
"""

import subprocess
from pathlib import Path

import pytest
from tools.controlplane.binaries import NoBinaries
from tools.olm_validator import find, is_skipped, must_run

from weir.kubernetes.install.manifests import Installation
from weir.kubernetes.install.olm.bundle import BundleOptions, bundle
from weir.kubernetes.install.olm.catalog import catalog
from weir.kubernetes.install.pods.deployment import PodOptions
from weir.kubernetes.install.pods.history import HistoryStorage
from weir.kubernetes.install.pods.node_agent import NodeAgents

DIGEST = "sha256:" + "ab" * 32
IMAGE = f"registry.example.com/weir@{DIGEST}"
BUNDLE_IMAGE = f"registry.example.com/weir-bundle@{DIGEST}"
CSV = "bundle/manifests/weir.clusterserviceversion.yaml"
CATALOG = "catalog/weir/catalog.yaml"
LEAST = BundleOptions(Installation(image=IMAGE), bundle_image=BUNDLE_IMAGE)
MOST = BundleOptions(
    Installation(
        image=IMAGE,
        monitoring=True,
        node=NodeAgents(),
        pods=PodOptions(history=HistoryStorage(secret="db")),
    ),
    bundle_image=BUNDLE_IMAGE,
    channel="candidate",
    replaces="weir.v0.0.9",
    provider="A company",
    url="https://weir.example.com",
    maintainers=(("A team", "team@example.com"),),
)

EXPECTED = (
    "Kind=SharedNodes: provided API should have an example",  # Weir alone writes it
    "Kind=Workload: provided API should have an example",
    "APIs which were deprecated and removed in v1.25",  # rules name no version: these are events.k8s.io/v1 and policy/v1
)
"""Warnings that no bundle of Weir can avoid."""


@pytest.fixture(scope="module")
def validator() -> Path:
    if is_skipped():
        pytest.skip("LEFT OUT: THE VALIDATORS OF OLM. WEIR_OLM=skip says so.")
    try:
        return find()
    except NoBinaries as why:
        if must_run():
            pytest.fail(f"THE VALIDATORS OF OLM HAVE TO RUN HERE. {why}", pytrace=False)
        pytest.skip(f"LEFT OUT: THE VALIDATORS OF OLM. {why}")


def findings(validator: Path, files: dict[str, str], directory: Path) -> tuple[int, list[str]]:
    """Return the exit code of the validators, and a line for each thing that they find."""
    for path, text in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    command = [str(validator), str(directory / "bundle"), str(directory / "catalog")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("options", [LEAST, MOST], ids=["least", "most"])
def test_the_validators_of_olm_find_nothing(validator: Path, options: BundleOptions, tmp_path: Path) -> None:
    code, found = findings(validator, {**bundle(options), **catalog(options)}, tmp_path)
    assert code == 0
    assert [line for line in found if not any(each in line for each in EXPECTED)] == []


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        (CSV, "capabilities: Seamless Upgrades", "capabilities: All of them", "capabilities"),
        (CSV, "minKubeVersion: 1.31.0", "minKubeVersion: soon", "MinKubeVersion has an invalid value: soon"),
        (CATALOG, "defaultChannel: stable", "defaultChannel: other", 'invalid channel "other"'),
    ],
)
def test_the_validators_of_olm_find_what_is_wrong(
    validator: Path, path: str, old: str, new: str, expected: str, tmp_path: Path
) -> None:
    files = {**bundle(LEAST), **catalog(LEAST)}
    assert old in files[path]
    files[path] = files[path].replace(old, new)
    code, found = findings(validator, files, tmp_path)
    assert code == 1
    assert expected in "\n".join(line for line in found if not line.startswith("warning: "))
