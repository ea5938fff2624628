"""The API server takes the objects that the docs show, and knows each of their fields."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import yaml
from tests.kubernetes.claim_objects import needs_claims
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.weir import ROOT, install_kinds

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("[!_]*/**/*.md")))
GROUPS = {
    "weir.dev/v1alpha1",
    "v1",
    "batch/v1",
    "networking.k8s.io/v1",
    "resource.k8s.io/v1",
    "rbac.authorization.k8s.io/v1",
    "admissionregistration.k8s.io/v1",
}
_BLOCK = re.compile(r"^ *```ya?ml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_OF_THE_CLUSTER = {"Namespace", "Project", "Department", "SchedulerConfig", "Topology", "DeviceClass"}
_OF_THE_CLUSTER |= {
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def _objects(page: Path) -> Iterator[Object]:
    """Yield the whole objects of a page."""
    for block in _BLOCK.findall(page.read_text("utf-8")):
        for each in yaml.safe_load_all(dedent(block)):
            if isinstance(each, dict) and each.get("apiVersion") in GROUPS and "kind" in each:
                yield each


@needs_claims
def test_the_api_server_takes_the_objects_of_the_docs(cluster: Cluster) -> None:
    install_kinds(cluster.api)
    namespace = cluster.namespace()
    count, wrong = 0, []
    for page in PAGES:
        found = list(_objects(page))
        for each in found:
            place = {} if each["kind"] in _OF_THE_CLUSTER else {"namespace": namespace}
            each["metadata"] = {"name": "shown", **each.get("metadata", {}), **place}
        count += len(found)
        if not found:
            continue
        try:
            words = (
                "apply",
                "--server-side",
                "--force-conflicts",
                "--dry-run=server",
                "--validate=strict",
                "-f",
                "-",
            )
            cluster.plane.kubectl(*words, stdin=yaml.safe_dump_all(found))
        except RuntimeError as error:
            wrong.append(f"{page.relative_to(ROOT)}: {error}")
    assert count > 15
    assert not wrong
