"""Results of a trial as the text that its container leaves when it ends. It needs no other library."""

import json
import math
from collections.abc import Sequence

MESSAGE_KEY = "weir_rungs"
"""Key of the results: pairs of a step and a value, or null for no finite number."""
ENTRIES_MAX = 100
STEP_MAX = 10**15
Reached = tuple[int, float | None]


def message_of(reached: Sequence[Reached]) -> str:
    """Return the text of results."""
    return json.dumps({MESSAGE_KEY: reached})


def results_in(message: str) -> list[Reached]:
    """Return the results in a text; none if the text has another form."""
    try:
        pairs = json.loads(message)[MESSAGE_KEY]
        return [(_step(step), _value(value)) for step, value in pairs[:ENTRIES_MAX]]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError):
        return []


def _step(step: object) -> int:
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= STEP_MAX:
        raise ValueError("no step")
    return step


def _value(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("no value")  # noqa: TRY004 - read as other mistakes of the text
    number = float(value)
    return number if math.isfinite(number) else None
