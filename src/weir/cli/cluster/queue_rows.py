"""Departments and projects of a cluster as rows of answers."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from weir.api.answers import QueueRow
from weir.cli.cluster.objects import ListedQueue
from weir.kubernetes.crd.schemas import camel
from weir.model.resources import in_units, plain_amount, quantity, seconds
from weir.scenario_io.specs import TimesEntry

_TIMES = {camel(name): name for name in TimesEntry.model_fields}


def queue_row(queue: ListedQueue, *, is_project: bool) -> QueueRow:
    """Return the row of a Department or Project."""
    spec, status = queue.spec, queue.status
    stated = _texts(spec.get("quota"))
    times = spec.get("times") or {}  # a newer Weir may have others
    summed = "0" if is_project else status.quota.get("gpu", "0")
    return QueueRow(
        name=queue.metadata.name,
        kind="project" if is_project else "department",
        parent=spec.get("department" if is_project else "parent"),
        quota=_amounts({"gpu": summed, **stated}),
        follows=not is_project and "gpu" not in stated,
        limit=_amounts(_texts(spec.get("limit"))),
        weight={name: float(quantity(value)) for name, value in _texts(spec.get("weight")).items()},
        priority=spec.get("priority", 100),
        max_priority=spec.get("maxPriority"),
        times={_TIMES[word]: seconds(value) for word, value in times.items() if word in _TIMES},
        allocated=_amounts(status.allocated),
        share=_amounts(status.share),
        running=status.running,
        pending=status.pending + status.unschedulable,  # as the list of workloads counts
        warnings=[f"{queue.metadata.name}: {status.message}"] if status.message else [],
    )


def _texts(amounts: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}


def _amounts(written: Mapping[str, str]) -> dict[str, float]:
    """Return amounts in the units of answers, without unlimited ones.

    An amount that Weir refuses because it is finer than its unit is rounded up, so that people can change it.
    """
    return {
        name: plain_amount(name, ceil(in_units(name, quantity(amount))))
        for name, amount in written.items()
        if amount != "unlimited"
    }
