"""Columns of Weir's kinds, as `kubectl get` prints them."""

from typing import Any

Schema = dict[str, Any]


def column(name: str, path: str, wide: int = 0, *, kind: str = "string") -> Schema:
    """Return a column at a path; `wide` shows it with -o wide alone."""
    return {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}


def queue_columns(*own: tuple[str, str] | tuple[str, str, int]) -> list[Schema]:
    """Return the columns of departments and projects, after their own ones."""
    return [
        *(column(*own_column) for own_column in own),
        column("QUOTA", ".status.quota.gpu"),
        column("DEMAND", ".status.demand.gpu"),
        column("SHARE", ".status.share.gpu"),
        column("ALLOCATED", ".status.allocated.gpu"),
        column("LIMIT", ".spec.limit.gpu", 1),
        column("PRIORITY", ".spec.priority", 1, kind="integer"),
        column("RUNNING", ".status.running", kind="integer"),
        column("PENDING", ".status.pending", kind="integer"),
        column("UNSCHEDULABLE", ".status.unschedulable", 1, kind="integer"),
        column("PHASE", ".status.phase"),
        column("MESSAGE", ".status.message", 1),
    ]


def workload_columns() -> list[Schema]:
    """Return the columns of workloads."""
    return [
        column("PROJECT", ".spec.project"),
        column("TYPE", ".spec.type", 1),
        column("PRIORITY", ".spec.priority", 1, kind="integer"),
        column("GPUS", ".status.gpus"),
        column("PHASE", ".status.phase"),
        column("RUNNING", ".status.running"),
        column("SINCE", ".status.since", kind="date"),
        column("WHY", ".status.reason.sentence"),
        column("NODES", ".status.nodes", 1),
        column("EXPECTED", ".status.estimatedStart", 1),
    ]


def sweep_columns() -> list[Schema]:
    """Return the columns of sweeps."""
    return [
        column("PROJECT", ".spec.project"),
        column("PHASE", ".status.phase"),
        column("TRIALS", ".status.progress"),
        column("BEST", ".status.best"),
        column("MESSAGE", ".status.message", 1),
    ]


def notification_columns() -> list[Schema]:
    """Return the columns of notification rules."""
    return [
        column("CHANNEL", ".spec.channel"),
        column("RECEIVER", ".status.receiver"),
        column("TOPICS", ".spec.topics", 1),
        column("PENDING", ".status.pending", kind="integer"),
        column("PHASE", ".status.phase"),
        column("MESSAGE", ".status.message"),
    ]
