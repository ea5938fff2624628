"""Words about a workload for lists and details: why it waits or how it ended, and its activity."""

import time
from typing import TYPE_CHECKING

from weir.cli.output.formatting import NOTHING, lasting, sentence, since

if TYPE_CHECKING:
    from weir.api.workload_list import ActivityRow, IdleRulesRow, WorkloadRow

_MEANS = {
    "working": "its GPUs compute",
    "starved": "its GPUs are quiet",
    "parked": "it holds its GPUs, and nothing moves",
    "left": "nothing moves, and no person is connected",
    "unknown": "the use of its GPUs can't be measured",
}
_SIGNS = {
    "cpu": "its processors are busy",
    "disk": "it reads or writes files",
    "network": "its network is busy",
    "blocked": "a process waits for a disk or a file server",
    "user": "a person is at it",
}
_NAMED_MAX = 4
IDLE_STATES = ("starved", "parked", "left")


def why_of(row: "WorkloadRow") -> str:
    """Return the text of the WHY column: array progress, last eviction, pending or end reason, idle state."""
    reason = "" if row.reason is None or row.status == "succeeded" else row.reason.sentence
    indices = row.array.sentence if row.array is not None and row.ended_s is None else ""
    parts = [part for part in (indices, evicted(row), reason, activity_note(row.activity)) if part]
    return sentence("; ".join(parts), row.name) if parts else ""


def evicted(row: "WorkloadRow") -> str:
    """Return the time and beneficiary of the eviction of a pending workload; nothing for other workloads."""
    if row.evicted is None or row.status != "pending":
        return ""
    by = row.evicted.by or "the cluster"
    whose = f" of {row.evicted.by_user} in {row.evicted.by_project}" if row.evicted.by_project else ""
    return f"evicted {since(row.evicted.at_s)} ago for {by}{whose}"


def activity_word(row: "ActivityRow | None") -> str:
    """Return the state in one word, or a dash."""
    return NOTHING if row is None or row.state is None else row.state


def activity_note(row: "ActivityRow | None") -> str:
    """Return the note of a list on a running workload: a warning, idle time, or a quiet GPU."""
    if row is None:
        return ""
    if row.warning:
        return row.warning
    if row.state in IDLE_STATES:
        return _state(row)
    return _quiet(row)


def activity_facts(row: "ActivityRow | None") -> list[tuple[str, str]]:
    """Return labels and values for the details of a workload."""
    if row is None:
        return []
    facts = []
    if row.state is not None:
        facts.append(("Activity", _state(row)))
    if quiet := _quiet(row):
        facts.append(("", quiet))
    if row.warning:
        facts.append(("Warning", row.warning))
    if row.unprotected:
        facts.append(("Protection", "lost: any request may take its GPUs"))
    until_s = row.extended_until_s
    if until_s is not None and until_s > time.time():
        until = time.strftime("%b %d %H:%M", time.localtime(until_s))
        facts.append(("Extended", f"until {until}: the idle rules leave it alone"))
    return facts


def idle_facts(row: "IdleRulesRow | None") -> list[tuple[str, str]]:
    """Return the idle times after which the rules act on a workload, as a label with its value."""
    if row is None:
        return []
    acts = (
        ("notice after", row.notice_s),
        ("any request may take its GPUs after", row.unprotect_s),
        ("suspended after", row.suspend_s),
        ("stopped after", row.stop_s),
    )
    words = [f"{act} {lasting(after_s)}" for act, after_s in acts if after_s is not None]
    return [("If idle", ", ".join(words))] if words else []


def _state(row: "ActivityRow") -> str:
    """Return the state, its beginning, its meaning, and the signs of life."""
    signs = "; ".join(_SIGNS.get(signal, signal) for signal in row.signals)
    lasts = "" if row.since_s is None else f" for {since(row.since_s)}"
    means = _MEANS.get(row.state or "unknown", "")  # a newer server may have other states
    return f"{row.state}{lasts}{f': {means}' if means else ''}{f', but {signs}' if signs else ''}"


def _quiet(row: "ActivityRow") -> str:
    """Return which GPUs are quiet while the others compute."""
    if not row.quiet:
        return ""
    named = ", ".join(row.quiet[:_NAMED_MAX]) + (" and more" if len(row.quiet) > _NAMED_MAX else "")
    verb = "is" if len(row.quiet) == 1 else "are"
    return f"{named} {verb} quiet while the others compute"
