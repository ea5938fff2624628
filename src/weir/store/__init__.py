"""What is written down: workloads, the quota tree, tokens, events, use. One database, one writer.

`Store` is all of it; its docstring is the interface. Nothing here decides, and nothing upstream imports it.
"""

from weir.store.errors import (
    NameTaken,
    NoSuchQueue,
    NoSuchToken,
    NoSuchWorkload,
    NotSuspended,
    QueueInUse,
    QueueUnsound,
    StoreFailed,
    StoreRefusal,
    WorkloadOver,
)
from weir.store.metering import UsageMeter
from weir.store.records import (
    DeviceUsageSample,
    HistoryEvent,
    NewWorkload,
    RecordPage,
    Retention,
    StoredEvent,
    StoredWorkload,
    TokenRecord,
    UsagePoint,
    UsageSample,
    UsageSamples,
    WorkloadFilter,
    WorkloadSummary,
    WorkloadUsageSample,
)
from weir.store.store import Store

__all__ = [
    "DeviceUsageSample",
    "HistoryEvent",
    "NameTaken",
    "NewWorkload",
    "NoSuchQueue",
    "NoSuchToken",
    "NoSuchWorkload",
    "NotSuspended",
    "QueueInUse",
    "QueueUnsound",
    "RecordPage",
    "Retention",
    "Store",
    "StoreFailed",
    "StoreRefusal",
    "StoredEvent",
    "StoredWorkload",
    "TokenRecord",
    "UsageMeter",
    "UsagePoint",
    "UsageSample",
    "UsageSamples",
    "WorkloadFilter",
    "WorkloadOver",
    "WorkloadSummary",
    "WorkloadUsageSample",
]
