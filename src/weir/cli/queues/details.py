"""`weir project show` and `weir department show`: all settings of one queue."""

from typing import TYPE_CHECKING

from weir.cli.output.columns import pairs
from weir.cli.output.formatting import lasting, number, resource
from weir.cli.output.terminal import Screen
from weir.model.resources import GPU, PODS

if TYPE_CHECKING:
    from pydantic import BaseModel

    from weir.api.answers import QueueRow

_DURATIONS = ("max_runtime", "grace")


def queue_lines(row: "QueueRow", display: Screen) -> list[str]:
    """Return the lines of one queue: its facts, and the warnings about it."""
    return [*pairs(queue_facts(row), display), *(line for text in row.warnings for line in ("", text))]


def queue_facts(row: "QueueRow") -> list[tuple[str, str]]:
    """Return the settings and the present numbers of a queue, without rules that aren't set."""
    follows = " (the sum of its projects)" if row.follows else ""
    facts = [
        (row.kind.capitalize(), f"{row.name} in {row.parent}" if row.parent else row.name),
        ("Quota", f"{_amounts(row.quota)}{follows}" if row.quota else "none"),
        ("Limit", _amounts(row.limit) if row.limit else "none"),
        ("Allocated", _amounts(row.allocated) or "nothing"),
        ("Fair share", f"{resource(GPU, row.share.get(GPU, 0.0))} now"),
        ("Workloads", f"{row.running:,} running, {row.pending:,} pending"),
        ("Weight", ", ".join(f"{key} {number(value)}" for key, value in row.weight.items()) or "1"),
        ("Priority", f"{row.priority} among its siblings"),
    ]
    highest = [] if row.max_priority is None else [str(row.max_priority)]
    highest += [f"{value} for {user}" for user, value in row.max_priority_of.items()]
    facts += [("Highest priority of work", ", ".join(highest))] if highest else []
    limits = [("Limits of each person", row.person_limits)]
    limits += [(f"Limits of {user}", limit) for user, limit in row.person_limits_of.items()]
    rules: list[tuple[str, BaseModel]] = [*limits, ("Defaults of work", row.defaults)]
    facts += [(label, words) for label, rule in rules if (words := _stated(rule))]
    times = [_setting(key, lasting(value) if value else "none") for key, value in row.times.items()]
    return facts + ([("Time rules", ", ".join(times))] if times else [])


def _amounts(amounts: dict[str, float]) -> str:
    return ", ".join(resource(name, value) for name, value in amounts.items() if name != PODS)


def _stated(rules: "BaseModel") -> str:
    """Return the set fields in the form of their options."""
    stated = rules.model_dump(exclude_none=True)
    return ", ".join(_setting(key, _value(key, value)) for key, value in stated.items())


def _value(key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower()
    if value == 0 and key != "grace":
        return "none"
    return lasting(value) if key in _DURATIONS else number(value)


def _setting(key: str, value: str) -> str:
    return f"{'grace' if key == 'stop_grace' else key.replace('_', '-')}={value}"
