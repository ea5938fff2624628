"""Retention of a cluster's history, by one setting."""

from weir.kubernetes.history.options import EVENTS_S_MAX, HOURS_S, MINUTES_S
from weir.store.records import Retention


def retention_of(keep_s: float) -> Retention:
    """Return the retention periods: sums by minute and hour, and events, are kept no longer than needed."""
    return Retention(
        minutes_s=min(MINUTES_S, keep_s),
        hours_s=min(HOURS_S, keep_s),
        days_s=keep_s,
        events_s=min(EVENTS_S_MAX, keep_s),
        workloads_s=keep_s,
    )
