"""Answers in wall-clock time: the server uses its own timeline, people read the wall clock.

The two differ only after the wall clock was set, so most answers stay as they are.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from weir.api.answers import (
    Answer,
    DashboardLink,
    EventPage,
    EventRow,
    EvictionRow,
    PodRow,
    PoolStatus,
    SecretPage,
    SecretRow,
    Suggestion,
    TokenMade,
    TokenPage,
    TokenRow,
    UsageReport,
    WhyAnswer,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from weir.api.history import HistoryPoint, HistoryReport
from weir.api.notifications import (
    DeliveryPage,
    DeliveryRow,
    NotificationMade,
    NotificationPage,
    NotificationRow,
)
from weir.api.sweeps import RungValue, SweepDetail, SweepPage, SweepRow, TrialRow
from weir.api.workload_list import ActivityRow, ArrayIndexPage, ArrayIndexRow

Shown = TypeVar("Shown", bound=Answer)
_OF_WORKLOAD = ("submitted_s", "first_started_s", "started_s", "ended_s")
_TIMES: Mapping[type[Answer], tuple[str, ...]] = {
    WorkloadRow: _OF_WORKLOAD,
    ArrayIndexRow: ("first_started_s", "ended_s"),
    WorkloadDetail: (*_OF_WORKLOAD, "begin_s", "checkpointed_s"),
    EvictionRow: ("at_s",),
    ActivityRow: ("since_s", "extended_until_s"),
    PodRow: ("since_s",),
    EventRow: ("at_s",),
    Suggestion: ("at_s",),
    PoolStatus: ("started_s",),
    UsageReport: ("since_s", "until_s"),
    HistoryReport: ("since_s", "until_s"),
    HistoryPoint: ("at_s",),
    TokenMade: ("expires_s",),
    DashboardLink: ("expires_s",),
    TokenRow: ("created_s", "expires_s", "used_s"),
    SecretRow: ("set_s",),
    NotificationRow: ("created_s",),
    NotificationMade: ("created_s",),
    DeliveryRow: ("made_s", "due_s", "done_s"),
    SweepRow: ("created_s", "ended_s"),
    SweepDetail: ("created_s", "ended_s"),
    RungValue: ("at_s",),
}
"""Fields that are times rather than durations."""
_WITHIN: Mapping[type[Answer], tuple[str, ...]] = {
    WorkloadDetail: ("pod_rows", "events"),
    WorkloadPage: ("items",),
    ArrayIndexPage: ("items",),
    EventPage: ("items",),
    HistoryReport: ("points",),
    WhyAnswer: ("suggestions",),
    TokenPage: ("items",),
    SecretPage: ("items",),
    NotificationPage: ("items",),
    DeliveryPage: ("items",),
    SweepPage: ("items",),
    SweepDetail: ("trial_rows",),
    TrialRow: ("results",),
}
"""Fields that are lists of such answers."""
_EVICTED = (WorkloadRow, WhyAnswer)
"""Answers that may contain an eviction and an activity."""
_TIMES_OF_EVENTS = ("retry_at_s", "until_s")
"""Numbers of events that are times."""


def on_wall_clock(answer: Shown, ahead_s: float) -> Shown:
    """Return an answer with its times as the wall clock reads them, which is so far ahead of the timeline."""
    kind = type(answer)
    if not ahead_s or not (kind in _TIMES or kind in _WITHIN):
        return answer
    changed: dict[str, Any] = {}
    for name in _TIMES.get(kind, ()):
        at_s = getattr(answer, name)
        if at_s is not None:
            changed[name] = at_s + ahead_s
    for name in _WITHIN.get(kind, ()):
        changed[name] = [on_wall_clock(each, ahead_s) for each in getattr(answer, name)]
    if isinstance(answer, _EVICTED) and answer.evicted is not None:
        changed["evicted"] = on_wall_clock(answer.evicted, ahead_s)
    if isinstance(answer, _EVICTED) and answer.activity is not None:
        changed["activity"] = on_wall_clock(answer.activity, ahead_s)
    if isinstance(answer, EventRow):
        changed["numbers"] = _numbers(answer.numbers, ahead_s)
    return answer.model_copy(update=changed)


def _numbers(numbers: Mapping[str, object], ahead_s: float) -> dict[str, object]:
    """Return the numbers of an event, with times on the wall clock."""
    return {
        name: value + ahead_s if name in _TIMES_OF_EVENTS and isinstance(value, int | float) else value
        for name, value in numbers.items()
    }
