"""Common parts of the objects of an installation."""

from collections.abc import Mapping, Sequence
from typing import Any

from weir import __version__
from weir.kubernetes.admission.webhook_configuration import NAME

Manifest = dict[str, Any]
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/version": __version__}
CHOSEN = {"app.kubernetes.io/name": NAME}
"""The labels that select Weir's pods."""
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}
"""The one level that permits a directory of the node."""
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
HOME_VARIABLE = {"name": "HOME", "value": "/tmp"}  # noqa: S108 - its own, in memory
TMP_MOUNT = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - see above
"""The one directory of a container that it can write to."""


def cluster_object(
    api_version: str, kind: str, name: str, *, labels: Manifest | None = None, **rest: Any
) -> Manifest:
    """Return an object of the whole cluster."""
    metadata = {"name": name, "labels": LABELS if labels is None else labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def within(namespace: str, api_version: str, kind: str, name: str, **rest: Any) -> Manifest:
    """Return an object of a namespace."""
    manifest = cluster_object(api_version, kind, name, **rest)
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def tmp_volume(size: str) -> Manifest:
    """Return the volume of `/tmp`, of this size in memory."""
    return {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def secret_volume(name: str, secret: str, **rest: Any) -> Manifest:
    """Return a volume with the keys of a Secret, which any user may read."""
    return {"name": name, "secret": {"secretName": secret, **rest, "defaultMode": 0o444}}


def placement(
    pull_secrets: Sequence[str],
    node_selector: Mapping[str, str],
    tolerations: Sequence[Mapping[str, str]] = (),
    **rest: Any,
) -> Manifest:
    """Return the fields of a pod on its nodes and on the pull of its image, without empty ones."""
    fields = {
        **rest,
        "nodeSelector": dict(node_selector),
        "tolerations": [dict(toleration) for toleration in tolerations],
        "imagePullSecrets": [{"name": name} for name in pull_secrets],
    }
    return {name: value for name, value in fields.items() if value}


def probes() -> Manifest:
    """Return the probes of a container that answers them at its port `https`."""
    return {
        "livenessProbe": _probe("/healthz", every_s=10, failures=6),
        "readinessProbe": _probe("/readyz", every_s=5, failures=2),
        "startupProbe": _probe("/healthz", every_s=2, failures=60),
    }


def _probe(path: str, *, every_s: int, failures: int) -> Manifest:
    get = {"path": path, "port": "https", "scheme": "HTTPS"}
    return {"httpGet": get, "periodSeconds": every_s, "failureThreshold": failures, "timeoutSeconds": 3}
