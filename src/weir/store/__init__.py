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
    Refusal,
    StoreFailed,
    WorkloadOver,
)
from weir.store.metering import Meter
from weir.store.records import (
    DeviceSample,
    Happening,
    Listed,
    Page,
    Point,
    Recollected,
    Recorded,
    Retention,
    Samples,
    Submitted,
    TokenRow,
    UseSample,
    Wanted,
    WorkloadSample,
)
from weir.store.store import Store

__all__ = [
    "DeviceSample",
    "Happening",
    "Listed",
    "Meter",
    "NameTaken",
    "NoSuchQueue",
    "NoSuchToken",
    "NoSuchWorkload",
    "NotSuspended",
    "Page",
    "Point",
    "QueueInUse",
    "QueueUnsound",
    "Recollected",
    "Recorded",
    "Refusal",
    "Retention",
    "Samples",
    "Store",
    "StoreFailed",
    "Submitted",
    "TokenRow",
    "UseSample",
    "Wanted",
    "WorkloadOver",
    "WorkloadSample",
]
