"""Common parts of the objects of an installation."""

from typing import Any

from weir import __version__
from weir.kubernetes.admission.webhook_configuration import NAME

Thing = dict[str, Any]
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/version": __version__}
CHOSEN = {"app.kubernetes.io/name": NAME}
"""The labels that select Weir's pods."""
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}
"""The one level that permits a directory of the node."""


def thing(api_version: str, kind: str, name: str, *, labels: Thing | None = None, **rest: Any) -> Thing:
    """Return an object of the whole cluster."""
    metadata = {"name": name, "labels": LABELS if labels is None else labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def within(namespace: str, api_version: str, kind: str, name: str, **rest: Any) -> Thing:
    """Return an object of a namespace."""
    found = thing(api_version, kind, name, **rest)
    return {**found, "metadata": {**found["metadata"], "namespace": namespace}}


def probes() -> Thing:
    """Return the probes of a container that answers them at its port `https`."""
    return {
        "livenessProbe": _probe("/healthz", every_s=10, failures=6),
        "readinessProbe": _probe("/readyz", every_s=5, failures=2),
        "startupProbe": _probe("/healthz", every_s=2, failures=60),
    }


def _probe(path: str, *, every_s: int, failures: int) -> Thing:
    get = {"path": path, "port": "https", "scheme": "HTTPS"}
    return {"httpGet": get, "periodSeconds": every_s, "failureThreshold": failures, "timeoutSeconds": 3}
