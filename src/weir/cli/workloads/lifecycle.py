"""`weir stop`, `suspend`, `resume`, `extend` and `rerun`."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.cli.options.mistakes import option_mistakes
from weir.cli.options.negative_values import negative_text
from weir.cli.options.numbers import number_or_name
from weir.cli.options.option_types import Switch
from weir.cli.options.refusals import named
from weir.cli.output.formatting import moment
from weir.cli.output.outputs import IndexOption
from weir.cli.pool.connect import connect
from weir.cli.workloads.selection import Selection
from weir.client.errors import Refused
from weir.model.array_indices import index_name

if TYPE_CHECKING:
    from weir.api.answers import WorkloadRow
    from weir.client.api import Pool

NamesOrPatterns = Annotated[str, Parameter(help="The workloads, or patterns such as 'sweep-*'.")]
Duration = Annotated[str, negative_text("is no duration: write one such as 2h")]
_NAMED = Selection()
"""Filter of the named workloads only."""


def stop(
    *names: NamesOrPatterns,
    selection: Selection = _NAMED,
    index: IndexOption = None,
) -> int:
    """End workloads for good. They get notice and their grace period to save their state.

    Parameters
    ----------
    index
        Stop only this index of an array.
    """
    return _act_on_each(
        with_index(names, index), selection, lambda pool, name: pool.stop(name), _stopped, "stop"
    )


def suspend(*names: NamesOrPatterns, selection: Selection = _NAMED) -> int:
    """Stop workloads until they are resumed."""
    return _act_on_each(names, selection, lambda pool, name: pool.suspend(name), _suspended, "suspend")


def resume(*names: NamesOrPatterns, selection: Selection = _NAMED) -> int:
    """Let suspended workloads start again."""
    return _act_on_each(names, selection, lambda pool, name: pool.resume(name), _queued, "resume")


def priority(name: str, priority: Annotated[int | str, number_or_name()], /) -> int:
    """Change the priority of a workload that isn't over. Its preemptibility stays.

    Parameters
    ----------
    name
        The workload.
    priority
        The new priority, up to your highest in its project: a number, or a class such as high
        (`weir priorities`).
    """
    with connect() as pool, named(priority="PRIORITY"):
        row = pool.set_priority(name, priority)
    print(f"{row.name} has priority {row.priority} now.")
    return 0


def extend(name: str, duration: Duration, /) -> int:
    """Pause the idle rules for a workload, as an answer to a warning.

    Parameters
    ----------
    name
        The workload.
    duration
        Time from now, such as 2h; the policy limits it.
    """
    with connect() as pool, named(duration="DURATION"):
        row = pool.extend(name, duration)
    until_s = None if row.activity is None else row.activity.extended_until_s
    until = "" if until_s is None else f" until {moment(until_s)}"
    subject = row.name if row.array is None else f"the running indices of {row.name}"
    print(f"The idle rules leave {subject} alone{until or f' for {duration}'}.")
    return 0


def rerun(
    *names: NamesOrPatterns,
    selection: Selection = _NAMED,
    failed: Switch = False,
    index: IndexOption = None,
) -> int:
    """Submit ended workloads again, unchanged.

    A pattern, --me and --project choose among those that failed or were stopped.

    Parameters
    ----------
    failed
        Run only the failed indices of an array again.
    index
        Run only this index of an array again.
    """
    return _act_on_each(
        with_index(names, index),
        selection,
        lambda pool, name: pool.rerun(name, failed=failed),
        _queued,
        "rerun",
    )


def with_index(names: tuple[str, ...], index: int | None) -> tuple[str, ...]:
    """Return the names of one index of arrays."""
    return names if index is None else tuple(index_name(name, index) for name in names)


def _queued(row: "WorkloadRow") -> str:
    return f"{row.name} is queued again."


def _stopped(row: "WorkloadRow") -> str:
    if row.ended_s is not None:
        return f"{row.name} is over."
    return f"{row.name} is being stopped."


def _suspended(row: "WorkloadRow") -> str:
    begun = "is suspended" if row.status == "pending" else "is being suspended"
    return f"{row.name} {begun}; `weir resume {row.name}` lets it start again."


def _act_on_each(
    names: tuple[str, ...],
    selection: Selection,
    act: "Callable[[Pool, str], WorkloadRow]",
    message: "Callable[[WorkloadRow], str]",
    verb: str,
) -> int:
    """Act on each workload; continue after a refusal."""
    code = 0
    with connect() as pool:
        with option_mistakes():
            chosen = selection.names(pool, names, over=verb == "rerun")
        if not chosen:
            state = "failed or was stopped" if verb == "rerun" else "is pending or running"
            print(f"No workload that you chose {state}.", file=sys.stderr)
        if not selection.is_confirmed(names, chosen, verb):
            return 1
        for name in chosen:
            try:
                row = act(pool, name)
            except Refused as refused:
                sys.stdout.flush()
                print(f"weir: {refused}", file=sys.stderr)
                code = max(code, 2 if refused.is_ours else 1)
                continue
            print(message(row))
    return code
