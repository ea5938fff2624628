"""Departments, projects and ConfigMaps, with the fields that the command line reads."""

from typing import Any

from msgspec import Struct, field

from weir.kubernetes.api.objects import ApiStruct, Metadata


class QueueStatusView(ApiStruct):
    """The status of a department or project."""

    phase: str = ""
    message: str = ""
    quota: dict[str, str] = field(default_factory=dict)
    share: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)
    running: int = 0
    pending: int = 0
    unschedulable: int = 0  # pending workloads that fit on no node at any time; not in `pending`


class ListedQueue(ApiStruct):
    """A Department or a Project."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: QueueStatusView = field(default_factory=QueueStatusView)


class ConfigMapView(Struct):
    """A ConfigMap."""

    data: dict[str, str] = field(default_factory=dict)
