"""What departments and projects say of themselves: what they ask for, what is theirs, what they hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from weir.backends.kubernetes.api.paths import path_of
from weir.backends.kubernetes.own.shapes import API_VERSION
from weir.backends.kubernetes.picture.queue_view import QueueView
from weir.backends.kubernetes.writing.writes import PatchStatus
from weir.cluster.state import Cluster
from weir.model.policy import Policy
from weir.model.pool import QueueRow
from weir.model.resources import in_thousandths, written
from weir.model.workloads import WHOLE_MILLI
from weir.server.amounts import queue_rows

_PLURALS = {"Department": "departments", "Project": "projects", "Topology": "topologies"}
Words = dict[str, Any]


class QueueStatuses:
    """What was written of each, so that only what changed is written again."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], Words] = {}

    def forget(self) -> None:
        """Somebody else may have written meanwhile."""
        self._written.clear()

    def take(self, view: QueueView, cluster: Cluster, policy: Policy, now_s: float) -> Iterator[PatchStatus]:
        """What is to be written now."""
        rows = queue_rows(cluster, policy, now_s, view.running, view.pending)
        for key, generation in view.generations.items():
            status = self._status(key, view, rows.get(key[1]), cluster)
            status["observedGeneration"] = generation
            before = self._written.get(key)
            if status != before:
                self._written[key] = status
                kind, name = key
                patch = status if before is None else _cleared(status, before)
                yield PatchStatus(path_of(API_VERSION, _PLURALS[kind], "", name), {"status": patch})
        for key in [key for key in self._written if key not in view.generations]:
            del self._written[key]

    def _status(self, key: tuple[str, str], view: QueueView, row: QueueRow | None, cluster: Cluster) -> Words:
        refused = view.refused.get(key)
        message = refused or view.remarks.get(key, "")
        status: Words = {"phase": "Ready" if refused is None else "Refused", "message": message}
        if key[0] == "Topology" or row is None:
            return status
        return {
            **status,
            "quota": _words(row.quota),
            "demand": _words(_demand(cluster, key[1])),
            "share": _words(row.share),
            "allocated": _words(row.allocated),
            "running": row.running,
            "pending": row.pending,
        }


def _demand(cluster: Cluster, name: str) -> dict[str, float]:
    """What its workloads hold and ask for together."""
    ledger, names = cluster.ledger, cluster.rows.names
    at = ledger.position.get(name)
    if at is None:
        return {}
    sums = zip(names, ledger.allocated[at], ledger.asked[at], strict=False)
    return {
        name: (held + asked) / (WHOLE_MILLI if in_thousandths(name) else 1)
        for name, held, asked in sums
        if held + asked
    }


def _words(amounts: Mapping[str, float]) -> dict[str, str]:
    return {
        name: written(name, round(amount * (WHOLE_MILLI if in_thousandths(name) else 1)))
        for name, amount in amounts.items()
    }


def _cleared(status: Words, before: Words) -> Words:
    """A merge patch that leaves nothing of amounts that are gone."""
    patch: Words = {}
    for key, value in status.items():
        last = before.get(key)
        if value != last:
            gone = dict.fromkeys(last.keys() - value.keys()) if isinstance(value, dict) and last else {}
            patch[key] = {**value, **gone} if gone else value
    return patch
