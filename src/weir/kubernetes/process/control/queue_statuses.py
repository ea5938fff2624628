"""Statuses of departments and projects: demand, fair share and allocation."""

from collections.abc import Iterator, Mapping
from typing import Any

from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.state.queue_view import QueueView
from weir.kubernetes.writes.operations import PatchStatus
from weir.model.resources import in_thousandths, written
from weir.model.workloads import WHOLE_MILLI

_PLURALS = {"Department": "departments", "Project": "projects", "Topology": "topologies"}
Words = dict[str, Any]


class QueueStatuses:
    """Statuses as last written, so that only changes are written again."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], Words] = {}
        self._uids: dict[tuple[str, str], str] = {}  # uids of the objects with a written status

    def forget(self) -> None:
        """Write all statuses again: others may have changed them."""
        self._written.clear()
        self._uids.clear()

    def take(self, view: QueueView, numbers: ClusterSummary) -> Iterator[PatchStatus]:
        """Yield the statuses to write now."""
        for key, generation in view.generations.items():
            status = self._status(key, view, numbers)
            status["observedGeneration"] = generation
            uid = view.uids.get(key, "")
            before = self._written.get(key) if self._uids.get(key) == uid else None
            if status != before:
                self._uids[key] = uid
                self._written[key] = status
                kind, name = key
                patch = status if before is None else _cleared(status, before)
                yield PatchStatus(path_of(API_VERSION, _PLURALS[kind], "", name), {"status": patch})
        for key in [key for key in self._written if key not in view.generations]:
            del self._written[key], self._uids[key]

    def _status(self, key: tuple[str, str], view: QueueView, numbers: ClusterSummary) -> Words:
        refused = view.refused.get(key)
        leaving = view.leaving.get(key)
        message = leaving or refused or view.remarks.get(key, "")
        phase = "Leaving" if leaving is not None else "Ready" if refused is None else "Refused"
        status: Words = {"phase": phase, "message": message}
        row = numbers.queues.get(key[1])
        if key[0] == "Topology" or row is None:
            return status
        return {
            **status,
            "quota": _words(row.quota),
            "demand": _words(numbers.demand.get(key[1], {})),
            "share": _words(row.share),
            "allocated": _words(row.allocated),
            "running": row.running,
            "pending": row.pending,
            "unschedulable": numbers.unschedulable.get(key[1], 0),
        }


def _words(amounts: Mapping[str, float]) -> dict[str, str]:
    return {
        name: written(name, round(amount * (WHOLE_MILLI if in_thousandths(name) else 1)))
        for name, amount in amounts.items()
    }


def _cleared(status: Words, before: Words) -> Words:
    """Return a merge patch that removes the amounts of resources that no longer have any."""
    patch: Words = {}
    for key, value in status.items():
        last = before.get(key)
        if value != last:
            gone = dict.fromkeys(last.keys() - value.keys()) if isinstance(value, dict) and last else {}
            patch[key] = {**value, **gone} if gone else value
    return patch
