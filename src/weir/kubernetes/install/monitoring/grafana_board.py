"""A Grafana board of an installation, to be imported or provisioned."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import yaml

_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def panels() -> list[dict[str, Any]]:
    """Return the graphs of the board: the title of each, its unit and its lines by name."""
    board_panels: list[dict[str, Any]] = yaml.safe_load(
        files(__package__).joinpath("panels.yaml").read_text("utf-8")
    )
    return board_panels


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
    for index, panel in enumerate(panels()):
        row, column = divmod(index, _COLUMNS)
        is_stacked = panel.get("stacked", False)
        stacking = {"group": "A", "mode": "normal" if is_stacked else "none"}
        custom = {"fillOpacity": 20 if is_stacked else 0, "stacking": stacking, "lineWidth": 1}
        yield {
            "id": index + 1,
            "type": "timeseries",
            "title": panel["title"],
            "datasource": _SOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0, "custom": custom}, "overrides": []},
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
                for number, (name, expression) in enumerate(panel["lines"].items())
            ],
        }
