"""A Grafana board of an installation, to be imported or provisioned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_PROJECTS = '{kind="project"}'


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: expressions with the names of their lines."""

    title: str
    unit: str
    lines: Sequence[tuple[str, str]]
    stacked: bool = False


def _by_project(metric: str) -> str:
    return f"max({metric}{_PROJECTS}) by (queue)"


def _quantile(part: str, metric: str, by: str = "") -> str:
    return f"histogram_quantile({part}, sum(rate({metric}_bucket[1h])) by (le{by}))"


PANELS = (
    Panel(
        "GPUs in use",
        "short",
        (
            ("max(weir_gpus)", "there are"),
            ("max(weir_allocated_gpus)", "held by Weir's pods"),
            ("max(weir_foreign_gpus)", "held by other schedulers' pods"),
            ("max(weir_overcommitted_gpus)", "over-committed"),
        ),
    ),
    Panel(
        "Allocated GPUs", "short", ((_by_project("weir_queue_allocated_gpus"), "{{queue}}"),), stacked=True
    ),
    Panel(
        "Quota and fair share",
        "short",
        (
            (_by_project("weir_queue_quota_gpus"), "{{queue}} quota"),
            (_by_project("weir_queue_share_gpus"), "{{queue}} share"),
        ),
    ),
    Panel("Demand", "short", ((_by_project("weir_queue_demand_gpus"), "{{queue}}"),), stacked=True),
    Panel(
        "Pending workloads",
        "short",
        ((_by_project("weir_queue_pending_workloads"), "{{queue}}"),),
        stacked=True,
    ),
    Panel(
        "Reasons of waiting workloads", "short", (("sum(weir_waiting_workloads) by (reason)", "{{reason}}"),)
    ),
    Panel(
        "Wait until start",
        "s",
        (
            (_quantile("0.5", "weir_workload_wait_seconds"), "median"),
            (_quantile("0.95", "weir_workload_wait_seconds"), "95 %"),
        ),
    ),
    Panel(
        "Wait within quota, 95 %",
        "s",
        ((_quantile("0.95", "weir_quota_wait_seconds", ", project"), "{{project}}"),),
    ),
    Panel(
        "Time to GPU of services, 95 %",
        "s",
        ((_quantile("0.95", "weir_time_to_gpu_seconds", ", project"), "{{project}}"),),
    ),
    Panel(
        "Evictions by rule", "short", (("sum(increase(weir_preemptions_total[1h])) by (rule)", "{{rule}}"),)
    ),
    Panel("Evicted pods", "short", (("sum(increase(weir_evicted_pods_total[1h])) by (rule)", "{{rule}}"),)),
    Panel(
        "Ended workloads",
        "short",
        (("sum(increase(weir_workloads_ended_total[1h])) by (status)", "{{status}}"),),
    ),
    Panel(
        "Unschedulable workloads",
        "short",
        ((_by_project("weir_queue_unschedulable_workloads"), "{{queue}}"),),
    ),
    Panel(
        "Cycle time",
        "s",
        (
            (_quantile("0.5", "weir_cycle_seconds"), "median"),
            (_quantile("0.99", "weir_cycle_seconds"), "99 %"),
            (_quantile("0.99", "weir_decision_seconds"), "decision, 99 %"),
        ),
    ),
    Panel(
        "API calls by verb",
        "reqps",
        (("sum(rate(weir_api_requests_total[5m])) by (verb)", "{{verb}}"),),
        stacked=True,
    ),
    Panel(
        "API calls by resource",
        "reqps",
        (("topk(8, sum(rate(weir_api_requests_total[5m])) by (verb, resource))", "{{verb}} {{resource}}"),),
    ),
    Panel(
        "API calls without success",
        "reqps",
        (
            ('sum(rate(weir_api_requests_total{code!~"2.."}[5m])) by (verb, code)', "{{verb}} {{code}}"),
            ("sum(rate(weir_writes_total{result!='tried'}[5m])) by (result)", "writes {{result}}"),
        ),
    ),
    Panel(
        "Time of API calls, 99 %",
        "s",
        (
            (
                "histogram_quantile(0.99, sum(rate(weir_api_request_seconds_bucket[5m])) by (le, verb))",
                "{{verb}}",
            ),
        ),
    ),
    Panel(
        "Events of watches",
        "ops",
        (("sum(rate(weir_watch_events_total[5m])) by (resource)", "{{resource}}"),),
        stacked=True,
    ),
    Panel(
        "Objects watched",
        "short",
        (
            ("max(weir_objects) by (resource)", "{{resource}}"),
            ("sum(increase(weir_lists_total[1h])) by (resource)", "{{resource}}: lists in an hour"),
        ),
    ),
    Panel(
        "Health",
        "short",
        (
            ("sum(weir_leading)", "leaders"),
            ("sum(weir_ready)", "ready"),
            ("sum(increase(weir_control_restarts_total[1h]))", "control restarts"),
            ("sum(weir_unreadable_objects)", "unreadable objects"),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the board as Grafana imports it; it asks for the data source."""
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "title": "Weir",
        "uid": "weir",
        "tags": ["weir", "gpu"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "",
        "templating": {"list": [source]},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, Any]]:
    for at, panel in enumerate(PANELS):
        row, column = divmod(at, _COLUMNS)
        stacking = {"group": "A", "mode": "normal" if panel.stacked else "none"}
        custom = {"fillOpacity": 20 if panel.stacked else 0, "stacking": stacking, "lineWidth": 1}
        yield {
            "id": at + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": _SOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi"},
            },
            "targets": [
                {
                    "refId": chr(ord("A") + number),
                    "datasource": _SOURCE,
                    "expr": expression,
                    "legendFormat": name,
                }
                for number, (expression, name) in enumerate(panel.lines)
            ],
        }
