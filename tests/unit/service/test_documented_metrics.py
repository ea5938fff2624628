"""Metrics that the docs, the board and the alerts name exist, and the docs name all metrics."""

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from weir.kubernetes.install.monitoring.grafana_board import dashboard
from weir.kubernetes.install.monitoring.prometheus import alerts
from weir.kubernetes.process.server import metrics as cluster_metrics
from weir.local.server.views import metrics as pool_metrics
from weir.service.metric_families import queue_families

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("[!_]*/**/*.md")))
_METRIC = re.compile(r"\bweir_[a-z0-9_]*[a-z0-9]\b")
_FAMILY = re.compile(r"(\w*)\(\s*\"(weir_\w+)\"")
_HISTOGRAM = ("", "_bucket", "_sum", "_count")
_PREFIXES = {"weir_queue"}
"""Beginnings of names, as `grep` takes them."""


def _families(module: ModuleType) -> dict[str, str]:
    """Return the word before the bracket by family of a module."""
    text = Path(module.__file__ or "").read_text("utf-8")
    return {name: kind for kind, name in _FAMILY.findall(text)}


def _series(family: str, kind: str) -> tuple[str, ...]:
    """Return the names that a family has in the text for Prometheus. Without a word, it is a row of a loop."""
    if not kind or "histogram" in kind:
        return tuple(f"{family}{end}" for end in _HISTOGRAM)
    return (f"{family}_total" if "counter" in kind.lower() else family,)


def _all_series() -> set[str]:
    names = {family.name for family in queue_families(())}
    for module in (cluster_metrics, pool_metrics):
        names.update(name for family in _families(module).items() for name in _series(*family))
    return names


def test_metrics_that_the_docs_name_exist() -> None:
    known_names = _all_series() | _PREFIXES
    wrong = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        for name in _METRIC.findall(page.read_text("utf-8"))
        if name not in known_names
    }
    assert not wrong


def test_metrics_of_the_board_and_of_alerts_exist() -> None:
    named = set(_METRIC.findall(json.dumps(dashboard())))
    named.update(name for rule in alerts() for name in _METRIC.findall(rule["expr"]))
    assert len(named) > 20
    assert named <= _all_series()


@pytest.mark.parametrize(
    ("module", "page"),
    [
        (pool_metrics, "docs/reference/server.md"),
        (cluster_metrics, "docs/how-to/kubernetes/operations.md"),
    ],
)
def test_the_docs_name_all_metrics(module: ModuleType, page: str) -> None:
    families = _families(module)
    assert len(families) > 10
    named = set(_METRIC.findall((ROOT / page).read_text("utf-8")))
    assert not {family for family, kind in families.items() if _series(family, kind)[0] not in named}
