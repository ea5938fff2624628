"""Answers in wall-clock time: the server uses its own timeline, people read the wall clock.

The two differ only after the wall clock was set, so most answers stay as they are.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from weir.api.answers import Answer, EventRow
from weir.api.workload_list import PointInTime

AnswerKind = TypeVar("AnswerKind", bound=Answer)
_TIMES_OF_EVENTS = ("retry_at_s", "until_s")
"""Numbers of events that are times."""


def on_wall_clock(answer: AnswerKind, ahead_s: float) -> AnswerKind:
    """Return an answer with its times as the wall clock reads them, which is so far ahead of the timeline."""
    if not ahead_s:
        return answer
    times = _times_of(type(answer))
    changed: dict[str, Any] = {}
    for name in type(answer).model_fields:
        value = getattr(answer, name)
        if isinstance(value, Answer):
            changed[name] = on_wall_clock(value, ahead_s)
        elif isinstance(value, list) and value and isinstance(value[0], Answer):
            changed[name] = [on_wall_clock(item, ahead_s) for item in value]
        elif name in times and value is not None:
            changed[name] = value + ahead_s
    if isinstance(answer, EventRow):
        changed["numbers"] = _numbers(answer.numbers, ahead_s)
    return answer.model_copy(update=changed)


@cache
def _times_of(kind: type[Answer]) -> frozenset[str]:
    """Return the fields of an answer that are times rather than durations."""
    hints = get_type_hints(kind, include_extras=True).items()
    return frozenset(name for name, hint in hints if PointInTime in (hint, *get_args(hint)))


def _numbers(numbers: Mapping[str, object], ahead_s: float) -> dict[str, object]:
    """Return the numbers of an event, with times on the wall clock."""
    return {
        name: value + ahead_s if name in _TIMES_OF_EVENTS and isinstance(value, int | float) else value
        for name, value in numbers.items()
    }
