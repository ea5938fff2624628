"""Storage of workloads, the quota tree, tokens, events and usage: one database, one writer.

`Store` is the interface. The store makes no decisions, and nothing upstream imports it.
"""

from weir.store.arrays import ArrayEnd
from weir.store.cluster_history import ClusterHistory
from weir.store.cluster_reader import ClusterHistoryReader
from weir.store.cluster_records import (
    ClusterEvent,
    ClusterEventFilter,
    ClusterHistoryEntry,
    ClusterWorkloadFilter,
    StoredHistoryEntry,
)
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
from weir.store.history_report import Prices
from weir.store.metering import UsageMeter
from weir.store.model_reports import history_by_model, usage_by_model
from weir.store.new_workloads import new_row
from weir.store.notification_outbox import NotificationOutbox
from weir.store.records import (
    ArrayIndexRecord,
    ArrayRecord,
    DeviceUsageSample,
    HistoryEvent,
    MembershipRecord,
    RecordPage,
    Retention,
    RungResult,
    StoredWorkload,
    SweepRecord,
    TokenRecord,
    TrialRecord,
    UsageSample,
    UsageSamples,
    WorkloadFilter,
    WorkloadUsageSample,
)
from weir.store.report_scope import ReportScope
from weir.store.schedules import ScheduleRecord
from weir.store.store import Store
from weir.store.templates import TemplateRecord

__all__ = [
    "ArrayEnd",
    "ArrayIndexRecord",
    "ArrayRecord",
    "ClusterEvent",
    "ClusterEventFilter",
    "ClusterHistory",
    "ClusterHistoryEntry",
    "ClusterHistoryReader",
    "ClusterWorkloadFilter",
    "DeviceUsageSample",
    "HistoryEvent",
    "MembershipRecord",
    "NameTaken",
    "NoSuchQueue",
    "NoSuchToken",
    "NoSuchWorkload",
    "NotSuspended",
    "NotificationOutbox",
    "Prices",
    "QueueInUse",
    "QueueUnsound",
    "RecordPage",
    "ReportScope",
    "Retention",
    "RungResult",
    "ScheduleRecord",
    "Store",
    "StoreFailed",
    "StoreRefusal",
    "StoredHistoryEntry",
    "StoredWorkload",
    "SweepRecord",
    "TemplateRecord",
    "TokenRecord",
    "TrialRecord",
    "UsageMeter",
    "UsageSample",
    "UsageSamples",
    "WorkloadFilter",
    "WorkloadOver",
    "WorkloadUsageSample",
    "history_by_model",
    "new_row",
    "usage_by_model",
]
