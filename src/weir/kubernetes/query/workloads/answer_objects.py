"""Answers of the aggregated API as objects of Kubernetes."""

from collections.abc import Sequence
from typing import Any

import msgspec

from weir.api.answers import NodeRow, WorkloadDetail
from weir.kubernetes.query.aggregation.discovery import API_VERSION
from weir.kubernetes.query.workloads.stored_history import Listed


def of_cluster(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer about the whole cluster."""
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": {"name": "cluster"}, **answer}


def node_list(rows: Sequence[NodeRow]) -> bytes:
    """Return the list of nodes, encoded."""
    items = [_node_item(row) for row in rows]
    return msgspec.json.encode(listed("NodeList", {"total": len(rows), "next": None, "items": items}))


def _node_item(row: NodeRow) -> msgspec.Raw:
    """Return a row with its metadata. It is joined as text: plain values take five times as long."""
    metadata = msgspec.json.encode({"name": row.name})
    return msgspec.Raw(b'{"metadata":%b,%b' % (metadata, row.model_dump_json().encode()[1:]))


def detailed(workload: Listed, detail: WorkloadDetail) -> dict[str, Any]:
    """Return a workload with all its details."""
    return {
        "kind": "Workload",
        "apiVersion": API_VERSION,
        "metadata": workload.metadata,
        **detail.model_dump(mode="json"),
    }


def listed(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Return a list; `continue` in its metadata has kubectl ask for the next page."""
    metadata = {"continue": answer["next"]} if answer["next"] else {}
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": metadata, **answer}
