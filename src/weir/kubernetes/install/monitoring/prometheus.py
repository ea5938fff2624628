"""Monitoring of an installation: how Prometheus scrapes it, alerts, and a Grafana board.

The ServiceMonitor trusts the authority of Weir's own certificate, which is in the Secret of its webhooks. It
shows a token of an account that may read /metrics and nothing else.
"""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import yaml

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import CHOSEN, Manifest, within
from weir.kubernetes.install.rights.access import METRICS_ROLE
from weir.kubernetes.install.rights.roles import cluster_binding, service_account, subject

READER = f"{NAME}-metrics-reader"
_OPERATOR = "monitoring.coreos.com/v1"
_EVERY = "30s"
_RUNBOOKS = "docs/how-to/kubernetes/runbooks.md"


def monitoring(namespace: str, secret: str) -> Iterator[Manifest]:
    """Yield the objects for the Prometheus operator. `secret` holds the authority of Weir's certificate."""
    yield service_account(namespace, READER)
    token = within(namespace, "v1", "Secret", READER, type="kubernetes.io/service-account-token")
    token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": READER}
    yield token
    yield cluster_binding(READER, subject(namespace, READER), role=METRICS_ROLE)
    endpoint = {
        "port": "https",
        "scheme": "https",
        "path": "/metrics",
        "interval": _EVERY,
        "authorization": {"type": "Bearer", "credentials": {"name": READER, "key": "token"}},
        "tlsConfig": {
            "serverName": f"{NAME}.{namespace}.svc",
            "ca": {"secret": {"name": secret, "key": "ca.crt"}},
        },
    }
    spec = {"selector": {"matchLabels": CHOSEN}, "endpoints": [endpoint]}
    yield within(namespace, _OPERATOR, "ServiceMonitor", NAME, spec=spec)
    yield within(namespace, _OPERATOR, "PrometheusRule", NAME, spec=rules())


def alerts() -> list[Manifest]:
    """Return the alerts as rules of Prometheus, each with the address of its runbook."""
    alert_rules: list[Manifest] = yaml.safe_load(
        files(__package__).joinpath("alerts.yaml").read_text("utf-8")
    )
    for rule in alert_rules:
        rule["annotations"]["runbook"] = f"{_RUNBOOKS}#{rule['alert'].lower()}"
    return alert_rules


def rules() -> dict[str, Any]:
    """Return the alerts as groups of rules, as Prometheus reads them from a file too."""
    return {"groups": [{"name": NAME, "rules": alerts()}]}
