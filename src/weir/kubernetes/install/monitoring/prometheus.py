"""Monitoring of an installation: how Prometheus scrapes it, alerts, and a Grafana board.

The ServiceMonitor trusts the authority of Weir's own certificate, which is in the Secret of its webhooks. It
shows a token of an account that may read /metrics and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import CHOSEN, Thing, within
from weir.kubernetes.install.rights.access import METRICS_ROLE
from weir.kubernetes.install.rights.roles import cluster_binding, service_account, subject

READER = f"{NAME}-metrics-reader"
_OPERATOR = "monitoring.coreos.com/v1"
_EVERY = "30s"
_RUNBOOKS = "docs/how-to/kubernetes/runbooks.md"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert: an expression that is true for a while, and its sentence for a person."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    advice: str


def _of_project(metric: str) -> str:
    return f'max(weir_queue_{metric}{{kind="project"}}) by (queue)'


ALERTS = (
    Alert(
        "WeirNoLeader",
        "absent(weir_leading == 1)",
        2,
        "critical",
        "No instance of Weir leads.",
        "No GPU pod of Weir starts. Look at the pods in Weir's namespace and at the Lease `weir`.",
    ),
    Alert(
        "WeirNotReady",
        "weir_ready == 0",
        5,
        "warning",
        "An instance of Weir makes no progress.",
        "Get /readyz of the pod: it names the parts that make no progress.",
    ),
    Alert(
        "WeirControlRestarts",
        "increase(weir_control_restarts_total[15m]) > 2",
        0,
        "critical",
        "The control loop of Weir fails and starts again.",
        "Look for control_broken in the log, and report it with `weir snapshot`.",
    ),
    Alert(
        "WeirSlowCycles",
        "histogram_quantile(0.99, sum(rate(weir_cycle_seconds_bucket[10m])) by (le)) > 5",
        10,
        "warning",
        "More than 1 % of Weir's cycles take over 5 seconds.",
        "Look at CPU throttling of Weir's pods first, then at weir_api_requests_total with code 429.",
    ),
    Alert(
        "WeirGpusOvercommitted",
        "max(weir_overcommitted_gpus) > 0",
        5,
        "critical",
        "Pods hold more GPUs than their nodes have.",
        "A device plugin lowered the GPUs of a node, or another scheduler uses it. See `weir nodes`.",
    ),
    Alert(
        "WeirQuotaNotMet",
        " and ".join(
            (
                f"{_of_project('pending_workloads')} > 0",
                f"{_of_project('allocated_gpus')} < {_of_project('quota_gpus')}",
                f"{_of_project('allocated_gpus')} < {_of_project('demand_gpus')}",
            )
        ),
        15,
        "warning",
        "Project {{ $labels.queue }} waits with less than its quota.",
        "`weir why WORKLOAD` names the shortage: often a gang or a large pod that fits on no node.",
    ),
    Alert(
        "WeirUnreadableObjects",
        "sum(weir_unreadable_objects) by (resource) > 0",
        10,
        "warning",
        "Weir leaves out {{ $value }} {{ $labels.resource }} that it can't read.",
        "Events on these objects say why.",
    ),
    Alert(
        "WeirSettingsRefused",
        "max(weir_settings_refused) > 0",
        5,
        "warning",
        "A SchedulerConfig can't be used.",
        "The last good settings are in force. `kubectl describe schedulerconfigs` shows the mistake.",
    ),
    Alert(
        "WeirHistoryNotStored",
        "min(weir_history_stored) == 0",
        15,
        "warning",
        "Weir can't store its history.",
        "Scheduling goes on. Look for history_not_written in the log, then at the database or the volume.",
    ),
    Alert(
        "WeirNotificationsNotSent",
        "min(weir_notifications_sent) == 0",
        10,
        "warning",
        "Weir sends no notifications.",
        "Scheduling goes on. Look for notification_sender_failed and notifications_failed in the log.",
    ),
    Alert(
        "WeirUsageUnknown",
        "min(weir_usage_known) == 0",
        15,
        "warning",
        "Weir doesn't know what GPUs do, so idle rules end nothing.",
        "Scheduling goes on. The condition UsageRead of the SchedulerConfig says why, and the log too.",
    ),
)


def monitoring(namespace: str, secret: str) -> Iterator[Thing]:
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


def rules() -> dict[str, Any]:
    """Return the alerts as groups of rules, as Prometheus reads them from a file too."""
    return {"groups": [{"name": NAME, "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> dict[str, Any]:
    found: dict[str, Any] = {"alert": alert.name, "expr": alert.expression}
    if alert.minutes:
        found["for"] = f"{alert.minutes}m"
    found["labels"] = {"severity": alert.severity}
    runbook = f"{_RUNBOOKS}#{alert.name.lower()}"
    found["annotations"] = {"summary": alert.summary, "description": alert.advice, "runbook": runbook}
    return found
