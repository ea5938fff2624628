"""`weir why`: the reason of a pending workload, its numbers, and suggestions."""

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.cli.output.columns import Column, table
from weir.cli.output.formatting import gpus_of, number, ordinal, sentence, since
from weir.cli.output.outputs import DocumentedOutput, print_plain
from weir.cli.output.terminal import Screen, plain, screen, wrapped
from weir.cli.pool.connect import connect
from weir.cli.workloads.activity import activity_facts
from weir.cli.workloads.decision import decision_lines
from weir.cli.workloads.list_columns import TONES

if TYPE_CHECKING:
    from weir.api.answers import QueueRow, Suggestion, WhyAnswer
    from weir.client.api import Pool

SUGGESTIONS_S = 60.0
"""Time that is waited for suggestions."""
_WAIT_S = 10.0
"""Time that one request waits for them."""

_NOT_OURS, _RETRYING = "other_scheduler", "retrying"
_NEVER_TRIED = frozenset(
    ("not_ready", "waiting_for_eviction", "refused", "scheduling_gated", "volume_not_ready", "owner_missing")
)
"""Reasons without suggestions: the sentence names the missing part, or the start is in progress."""
_WITHHELD = (
    "Suggestions may name workloads of others: they need the right to list workloads in the whole cluster."
)
_IS = {"succeeded": "has", "failed": "has", "stopped": "was"}
"""Verbs for ended workloads, which have no decision."""


def why(name: str, /, *, explain: bool = False, output: DocumentedOutput = "table") -> int:
    """Print the reason of a pending workload, its queue's numbers, and changes that would let it start now.

    Parameters
    ----------
    name
        The workload: the newest of that name. In a pool also a uid, which `weir list -o wide` shows.
    explain
        Also print the details of the decision: nodes with their scores, and victims with their price.
    output
        table, wide, json or yaml.
    """
    with connect() as pool:
        is_table = output == "table"
        answer = pool.why(name, wait_s=0.0 if is_table else _WAIT_S)
        if not is_table:
            shown = _finished(pool, answer).model_dump(mode="json", exclude={"unfinished"})
            if explain:
                decision = None if answer.status in _IS else pool.decision(name)
                shown["decision"] = None if decision is None else decision.model_dump(mode="json")
            print_plain(shown, output)
            return 0
        print("\n".join(reason_lines(answer, screen())), flush=True)
        lines = suggestion_lines(_finished(pool, answer), screen())
        if explain and answer.status not in _IS:
            lines += decision_lines(pool.decision(name), screen())
    if lines:
        print("\n".join(lines))
    return 0


def _finished(pool: "Pool", answer: "WhyAnswer") -> "WhyAnswer":
    """Return the answer once its suggestions are found, which takes some seconds on a large cluster."""
    end_s = time.monotonic() + SUGGESTIONS_S
    while answer.unfinished and time.monotonic() < end_s:
        answer = pool.why(answer.name, wait_s=_WAIT_S)
    return answer


def reason_lines(answer: "WhyAnswer", display: Screen) -> list[str]:
    """Return the reason and the numbers of the queues as lines."""
    lines = [_head(answer, display)]
    if answer.array is not None:
        lines += ["", f"  {answer.array.sentence}"]
    if answer.evicted is not None and answer.status == "pending":
        eviction = f"Evicted {since(answer.evicted.at_s)} ago: {plain(answer.evicted.sentence)}"
        shown = " ".join(part for part in (sentence(eviction), plain(answer.evicted.choice)) if part)
        lines += ["", *wrapped(shown, display.width, "  ").split("\n")]
    if answer.reason is not None and answer.status != "succeeded":
        lines += [
            "",
            *wrapped(sentence(plain(answer.reason.sentence), answer.name), display.width, "  ").split("\n"),
        ]
    if answer.status == "failed" or (answer.reason is not None and answer.reason.why == _RETRYING):
        lines += ["", f"  `weir logs {plain(answer.name)}` shows its output."]
    facts = activity_facts(answer.activity)
    if facts:
        lines += ["", *(f"  {plain(f'{label}: ' if label else '')}{plain(value)}" for label, value in facts)]
    if answer.queues and answer.status not in _IS:
        lines += ["", *(f"  {line}" for line in table(answer.queues, _QUEUES, _narrower(display, 2)))]
    return lines


def suggestion_lines(answer: "WhyAnswer", display: Screen) -> list[str]:
    """Return the suggestions as lines."""
    lines: list[str] = []
    if answer.suggestions:
        lines += ["", display.paint("What would let it start", "strong")]
        for suggestion in answer.suggestions:
            lines += _suggested(suggestion, answer, display)
    elif answer.withheld:
        lines += ["", display.paint(wrapped(_WITHHELD, display.width), "quiet")]
    elif answer.status == "pending" and _was_tried(answer) and not answer.unfinished:
        lines += ["", display.paint("Nothing that was tried would let it start now.", "quiet")]
    if answer.untried:
        rest = ", ".join(plain(kind) for kind in answer.untried)
        lines += [display.paint(wrapped(f"Not tried for lack of time: {rest}.", display.width), "quiet")]
    return lines


def _head(answer: "WhyAnswer", display: Screen) -> str:
    name = display.paint(plain(answer.name), "strong")
    if answer.reason is not None and answer.reason.why == _NOT_OURS:
        return f"{name} isn't scheduled by Weir."
    if answer.status == "running" and answer.reason is not None:
        return f"{name} is {display.paint('running', TONES['running'])}, and some of its pods wait."
    if answer.status != "pending":
        status = display.paint(answer.status, TONES.get(answer.status, "plain"))
        return f"{name} isn't pending: it {_IS.get(answer.status, 'is')} {status}."
    queue = f" in {answer.queues[0].name}" if answer.queues else ""
    if answer.position is None:
        return f"{name} {display.paint('waits', 'busy')}{queue}."
    if answer.waiting <= 1:
        return f"{name} is the only {display.paint('pending', 'busy')} workload{queue}."
    place = f"{ordinal(answer.position)} of {answer.waiting:,}"
    return f"{name} {display.paint('waits', 'busy')}{queue}, {place}."


def _was_tried(answer: "WhyAnswer") -> bool:
    """Return True if changes were tried; a workload without a queue isn't known to the scheduler."""
    return bool(answer.queues) and (
        answer.reason is None or answer.reason.why not in (*_NEVER_TRIED, _NOT_OURS)
    )


def _narrower(display: Screen, by: int) -> Screen:
    return Screen(None if display.width is None else display.width - by, display.height, display.colour)


_QUEUES: "Sequence[Column[QueueRow]]" = (
    Column("QUEUE", lambda row: row.name, least=10),
    Column("QUOTA", lambda row: gpus_of(row.quota, "0"), right=True),
    Column("SHARE", lambda row: gpus_of(row.share, "0"), right=True),
    Column("ALLOCATED", lambda row: gpus_of(row.allocated, "0"), right=True),
    Column("LIMIT", lambda row: gpus_of(row.limit, "none"), right=True, drop=2),
    Column("RUNNING", lambda row: number(row.running), right=True, drop=3),
    Column("PENDING", lambda row: number(row.pending), right=True, drop=4),
)


def _suggested(suggestion: "Suggestion", answer: "WhyAnswer", display: Screen) -> list[str]:
    first, *rest = wrapped(plain(suggestion.sentence), display.width and display.width - 4).split("\n")
    lines = [f"  - {first}", *(f"    {line}" for line in rest)]
    command = as_command(suggestion.change, answer.name) if suggestion.how is None else plain(suggestion.how)
    return [*lines, f"    {display.paint(command, 'quiet')}"] if command else lines


def _quota_command(change: dict[str, object]) -> str:
    """Return the command that changes a project's quota, and its limit if that is part of the change."""
    words: list[str] = []
    for option, resource in (("quota", "--gpus {}"), ("limit", "--limit gpu={}")):
        amounts = change.get(option)
        for project, gpus in amounts.items() if isinstance(amounts, dict) else ():
            words += [] if words else ["weir", "project", "set", str(project)]
            words += resource.format(gpus).split()
    return shlex.join(words)


_OPTIONS = (
    "project",
    "gpus",
    "gpu_memory",
    "devices",
    "pods",
    "cpu",
    "memory",
    "priority",
    "preemptible",
    "type",
    "max_runtime",
    "gpu_models",
)


_NAMES = {"pods": "workers", "gpu_models": "gpu-model"}
"""Options that have another name than the field."""


def as_command(change: dict[str, object], name: str) -> str:
    """Return the command for a suggestion; an empty text if it takes more than one command."""
    if change == {"suspended": False}:
        return f"weir resume {name}"
    if "quota" in change:
        return _quota_command(change)
    words: list[str] = []
    for key, value in change.items():
        if key not in _OPTIONS:
            return ""
        option = _NAMES.get(key, key.replace("_", "-"))
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{option}")
        elif isinstance(value, str | int | float):
            words += [f"--{option}", f"{value:g}" if isinstance(value, float) else str(value)]
        elif isinstance(value, list):
            words += [word for part in value for word in (f"--{option}", str(part))]
        else:
            return ""
    return f"weir submit {shlex.join(words)} ..." if words else ""
