"""An installation from the OLM bundle: what OLM creates, and the objects of the administrator's files."""

from collections.abc import Iterator

import yaml
from tools.controlplane.api import Object

from weir.kubernetes.install.manifests import Installation
from weir.kubernetes.install.olm.bundle import CLUSTER_FILE, QUERY_FILE, BundleOptions, bundle

_RBAC = "rbac.authorization.k8s.io"
_OF_THE_CLUSTER = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass")
_OF_OPENSHIFT = "SecurityContextConstraints"
"""A kind of the administrator's file that OpenShift alone serves."""


def bundle_objects(installation: Installation) -> list[Object]:
    """Return the objects of the administrator's first file, of OLM, and of the file for a Weir that runs."""
    files = bundle(BundleOptions(installation))
    texts = (files[CLUSTER_FILE], files.get(QUERY_FILE, ""))
    first, last = ([*yaml.load_all(text, yaml.CSafeLoader)] for text in texts)
    first = [manifest for manifest in first if manifest["kind"] != _OF_OPENSHIFT]
    return [*first, *created_by_olm(files, installation.namespace), *last]


def created_by_olm(files: dict[str, str], namespace: str) -> list[Object]:
    """Return the objects that OLM creates from a bundle that it installs in this namespace."""
    manifests = (text for path, text in files.items() if path.startswith("bundle/manifests/"))
    bundled: list[Object] = [yaml.load(text, yaml.CSafeLoader) for text in manifests]
    (csv,) = (manifest for manifest in bundled if manifest["kind"] == "ClusterServiceVersion")
    bundled.remove(csv)
    for manifest in bundled:
        if manifest["kind"] not in _OF_THE_CLUSTER:
            manifest["metadata"]["namespace"] = namespace
    return [*_of_csv(csv, namespace), *bundled]


def _of_csv(csv: Object, namespace: str) -> Iterator[Object]:
    """Yield the service accounts, their rights and the deployments of a ClusterServiceVersion."""
    install = csv["spec"]["install"]["spec"]
    inside = {"namespace": namespace}
    permissions = {"ClusterRole": install["clusterPermissions"], "Role": install["permissions"]}
    for account in {
        permission["serviceAccountName"] for of_kind in permissions.values() for permission in of_kind
    }:
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, **inside}}
    for kind, of_kind in permissions.items():
        for entry in of_kind:
            name = f"{csv['metadata']['name']}-{entry['serviceAccountName']}"
            made = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": name}}
            if kind == "Role":
                made["metadata"] |= inside
            subject = {"kind": "ServiceAccount", "name": entry["serviceAccountName"], **inside}
            reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
            yield {**made, "kind": kind, "rules": entry["rules"]}
            yield {**made, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}
    for entry in install["deployments"]:
        metadata = {"name": entry["name"], "labels": entry["label"], **inside}
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": entry["spec"]}
