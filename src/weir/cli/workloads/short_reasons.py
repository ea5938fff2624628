"""Reasons in a few words, for lists; `weir why` and `--output wide` have the whole sentence."""

import re
import time
from typing import TYPE_CHECKING

from weir.cli.output.formatting import since
from weir.cli.workloads.activity import IDLE_STATES

if TYPE_CHECKING:
    from weir.api.workload_list import ActivityRow, Explanation, WorkloadRow

IN_SWEEP = " of sweep "
"""Words after the rung of a parked trial."""
_WORDS = {
    "over_limit": "limit",
    "non_preemptible_over_quota": "quota",
    "no_node_matches": "no node fits",
    "insufficient_capacity": "capacity",
    "older_claim": "older work first",
    "no_eligible_victims": "capacity",
    "gang_incomplete": "capacity for all pods",
    "waiting_for_eviction": "GPUs are being freed",
    "capacity_reserved": "reserved capacity",
    "person_limit": "your limit",
    "not_ready": "pods are missing",
    "dependency": "other work",
}
_MOMENTS = {"begin_time": "begins", "retrying": "tried again"}
"""Words before the end of a wait that ends by itself."""
_WAITS_FOR = re.compile(r"it waits for (\S+) to ")
"""The first workload that the sentence of a dependency names."""


def short_reason(row: "WorkloadRow") -> str:
    """Return the reason or the end of a workload, and the beneficiary of its eviction."""
    if row.status == "pending":
        parts = [] if row.reason is None else [_of_pending(row.reason)]
        if row.evicted is not None:
            parts.append(f"evicted by {row.evicted.by}" if row.evicted.by else "evicted")
        return ", ".join(parts)
    if row.status == "running":
        return _of_activity(row.activity)
    if row.status == "failed" and row.exit_code:
        return f"exit code {row.exit_code}" if row.exit_code < 128 else f"signal {row.exit_code - 128}"
    return "" if row.reason is None or row.status == "succeeded" else _of_end(row.name, row.reason.sentence)


def _of_end(name: str, sentence: str) -> str:
    """Return an end in words without the workload's name: `by mia`, `parked at rung 3`."""
    before, its_name, after = sentence.partition(f"{name} ")
    if not its_name or (before and not before.endswith(": ")):
        return sentence
    end = after.removeprefix("was stopped ")
    end = end.removeprefix("was ") if end.startswith("was parked ") else end
    return end.rstrip(".").partition(IN_SWEEP)[0]


def _of_activity(row: "ActivityRow | None") -> str:
    """Return the words for a running workload with quiet GPUs; nothing if they compute."""
    if row is None:
        return ""
    if row.state in IDLE_STATES:
        lasts = f" for {since(row.since_s)}" if row.since_s is not None else ""
        return (
            f"{row.state}{lasts}{', open to all' if row.unprotected else ', warned' if row.warning else ''}"
        )
    return f"quiet: {', '.join(row.quiet)}" if row.quiet else ""


def _of_pending(reason: "Explanation") -> str:
    """Return the class of a reason in words; a class of a newer pool is its own word."""
    until_s = reason.numbers.get("until_s")
    if isinstance(until_s, int | float) and reason.why in _MOMENTS:
        return f"{_MOMENTS[reason.why]} {_moment(until_s)}"
    if reason.why == "dependency" and (match := _WAITS_FOR.match(reason.sentence)):
        return f"after {match[1]}"
    suspended = reason.numbers.get("suspended")
    if reason.why == "suspended" and isinstance(suspended, str) and IN_SWEEP in suspended:
        return suspended.partition(IN_SWEEP)[0]
    return _WORDS.get(reason.why, reason.why.replace("_", " "))


def _moment(at_s: float) -> str:
    """Return a local time: the hour within a day, else the date too, and in another year the date alone."""
    local_time, now_s = time.localtime(at_s), time.time()
    if at_s - now_s < 86400:
        return time.strftime("%H:%M", local_time)
    return time.strftime(
        "%b %d %H:%M" if local_time.tm_year == time.localtime(now_s).tm_year else "%Y-%m-%d", local_time
    )
