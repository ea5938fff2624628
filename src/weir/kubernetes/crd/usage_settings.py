"""The part `usage` of a `SchedulerConfig`: the Prometheus server with the use of GPUs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from weir.scenario_io.scalars import Term
from weir.scenario_io.specs import Entry

INTERVAL_S_MIN, INTERVAL_S_MAX = 10.0, 60.0
"""Longer ones leave gaps, after which the idle rules begin to measure from the start."""
ACTIVITY, UTILIZATION = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
MEMORY_USED = "DCGM_FI_DEV_FB_USED"
SECRET = "weir-prometheus"  # noqa: S105 - its name
"""Secret in Weir's namespace with a token and authorities for the server; an administrator makes it."""
SECRETS = Path("/etc/weir/prometheus")
"""Directory with the keys of that Secret: `token`, and `ca.crt` with authorities."""
MetricName = Annotated[str, Field(pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=128)]


class WrittenPrometheus(Entry):
    """A Prometheus server and the names of its metrics."""

    url: Annotated[str, Field(pattern="^https?://", max_length=500)]
    interval: Term = 30.0
    activity_metric: MetricName = ACTIVITY
    utilization_metric: MetricName = UTILIZATION
    memory_metric: MetricName = MEMORY_USED


class WrittenUsage(Entry):
    """Source of the use of GPUs, and how far it is trusted."""

    prometheus: WrittenPrometheus | None = None
    ignore_interaction: bool = False


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """Settings for the use of GPUs; without a URL nothing is read.

    `activity_metric` is a fraction, `utilization_metric` a percentage, `memory_metric` in MiB. With
    `ignore_interaction`, build workloads count as idle although keys and connections are unknown.
    """

    url: str = ""
    every_s: float = 30.0
    activity_metric: str = ACTIVITY
    utilization_metric: str = UTILIZATION
    memory_metric: str = MEMORY_USED
    ignore_interaction: bool = False


def read_usage(written: WrittenUsage) -> UsageSettings:
    """Return the settings that are written.

    Raises:
        ValueError: the URL or the interval can't be used.
    """
    source = written.prometheus
    if source is None:
        return UsageSettings(ignore_interaction=written.ignore_interaction)
    _check_url(source.url)
    if not INTERVAL_S_MIN <= source.interval <= INTERVAL_S_MAX:
        raise ValueError(
            f"spec.usage.prometheus.interval is {source.interval:g}s: write a duration from "
            f"{INTERVAL_S_MIN:g}s to {INTERVAL_S_MAX:g}s"
        )
    return UsageSettings(
        source.url.rstrip("/"),
        source.interval,
        source.activity_metric,
        source.utilization_metric,
        source.memory_metric,
        written.ignore_interaction,
    )


def _check_url(url: str) -> None:
    """Refuse a URL that isn't the plain address of a server; the sentence never repeats a password."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.username or parts.password:
        raise ValueError(
            "spec.usage.prometheus.url holds a user or a password: leave them out, and put a token into the "
            "Secret weir-prometheus"
        )
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError(
            "spec.usage.prometheus.url isn't the address of a server: write one such as "
            "https://prometheus.monitoring.svc:9090"
        )
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("spec.usage.prometheus.url has characters that no URL has: write them as %XX")
