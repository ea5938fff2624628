"""`weir logs`, and following a workload to its end.

On a terminal, control characters are escaped: those of another person's job could change the display or the
terminal itself. Files and other programs get the output unchanged.
"""

import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Switch
from weir.cli.options.refusals import named
from weir.cli.output.outputs import IndexOption
from weir.cli.output.terminal import plain, screen
from weir.cli.pool.connect import connect
from weir.client.errors import PoolError, Unreachable
from weir.model.array_indices import index_name

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail, WorkloadRow
    from weir.client.api import Pool

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tabs and ends of lines, and characters that change the direction of text."""
_ALL_PODS: Final = "all"
FAILED: Final = 1
STOPPED: Final = 143
"""A person or a limit stopped the workload for good. The number is that of a process ended by SIGTERM."""
CODE_MAX: Final = 255
TailOption = Annotated[int | None, Parameter(name=("--tail", "-n")), whole_number(0, 1_000_000)]


def logs(
    name: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative=())] = False,
    pod: str | None = None,
    start: Annotated[int | None, whole_number(1)] = None,
    tail: TailOption = None,
    index: IndexOption = None,
    raw: Switch = False,
) -> int:
    """Print the output of a workload. The error output says where a later start begins.

    Parameters
    ----------
    name
        The workload: the newest of that name. In a pool also a uid, which `weir list -o wide` shows.
    follow
        Continue until the workload is over.
    pod
        The pod as group/index, or its name or index on a cluster, or all; `weir describe` lists pods. The
        default is the first pod.
    start
        Number of the pod's start; the last one by default.
    tail
        Maximum number of last lines.
    index
        Index of an array: --index 17 is the same as NAME[17].
    raw
        Print control characters, such as colours, on a terminal.
    """
    if index is not None:
        name = index_name(name, index)
    with connect() as pool, named(pod="--pod", start="--start"):
        is_last = start is None and pod != _ALL_PODS
        if follow:
            row = pool.get(name)
            _say_pending(row)
            if is_last:
                _say_start(row, in_cluster=pool.address.is_cluster)
        is_empty = not _print(pool, name, follow=follow, pod=pod, start=start, tail=tail, raw=raw)
        if is_empty and not follow:
            _say_pending(pool.get(name))
        elif is_last and not follow:
            with suppress(PoolError):  # the output is printed
                _say_start(pool.get(name), in_cluster=pool.address.is_cluster)
    return 0


def _say_pending(row: "WorkloadRow") -> None:
    """Say on the error output that a workload without output is pending."""
    from weir.cli.output.formatting import sentence

    if row.status == "pending" and row.first_started_s is None and row.reason is not None:
        why = plain(sentence(row.reason.sentence, row.name))
        print(f"{plain(row.name)} is pending, without output so far. {why}", file=sys.stderr)


def _say_start(row: "WorkloadRow", *, in_cluster: bool) -> None:
    """Say on the error output that the output is that of a later start.

    A pending workload has the output of the start before its last restart. A stopped one may have been
    pending.
    """
    start = row.restarts + (row.status != "pending")
    if start > 1 and row.status != "stopped":
        earlier = "" if in_cluster else f" --start {start - 1} prints that of the start before."
        print(f"weir: this is the output of start {start}.{earlier}", file=sys.stderr, flush=True)


def _print(
    pool: "Pool",
    name: str,
    *,
    follow: bool,
    pod: str | None = None,
    start: int | None = None,
    tail: int | None = None,
    raw: bool = False,
) -> bool:
    """Print the output; return True if there is any."""
    last, harmless = "", not raw and sys.stdout.isatty()

    def say_begin(begun: str) -> None:
        sys.stdout.flush()
        end = "\n" if last not in ("", "\n") and sys.stdout.isatty() else ""
        print(f"{end}weir: {plain(begun)} begins", file=sys.stderr)

    for text in pool.logs(name, follow=follow, pod=pod, start=start, tail=tail, on_start=say_begin):
        if text:
            sys.stdout.write(_CONTROL.sub(_written_out, text) if harmless else text)
            sys.stdout.flush()
            last = text[-1]
    if last not in ("", "\n") and sys.stdout.isatty():
        print()
    return last != ""


def _written_out(match: "re.Match[str]") -> str:
    return ascii(match[0])[1:-1]


def follow_to_end(pool: "Pool", name: str) -> int:
    """Print a workload's output until it is over; return its exit code.

    If the connection breaks, the rest of the output is left out, and the end is waited for.

    Raises:
        KeyboardInterrupt: the person stopped following; the workload continues.
    """
    try:
        _say_pending(pool.get(name))
        _print(pool, name, follow=True)
    except KeyboardInterrupt:
        _goes_on(name)
        raise
    except Unreachable as error:
        sys.stdout.flush()
        rest = f"{name} goes on, and its end is waited for: `weir logs {name} -f` follows its output again."
        print(f"weir: {error}\n{rest}", file=sys.stderr)
    return wait_to_end(pool, name)


def wait_to_end(pool: "Pool", name: str) -> int:
    """Wait until a workload is over, print how it ended, and return its exit code.

    Raises:
        KeyboardInterrupt: the person stopped waiting; the workload continues.
    """
    try:
        detail = pool.wait(name)
    except KeyboardInterrupt:
        _goes_on(name)
        raise
    print(ended(detail), file=sys.stderr)
    return _exit_code_of(detail)


def ended(detail: "WorkloadDetail") -> str:
    """Return a sentence about the end of a workload."""
    from weir.cli.output.formatting import sentence
    from weir.cli.workloads.list_columns import time_of, tone_of

    if (
        detail.array is not None and detail.reason is not None
    ):  # the reason contains the results of all indices
        return plain(sentence(detail.reason.sentence, detail.name))
    reason = detail.reason if detail.status != "succeeded" else None
    why = f". {plain(sentence(reason.sentence, detail.name))}" if reason is not None else "."
    ran = "" if time_of(detail) == "-" else f" after running for {time_of(detail)}"
    return f"{detail.name} {screen(sys.stderr).paint(detail.status, tone_of(detail))}{ran}{why}"


def _goes_on(name: str) -> None:
    print(f"\n{name} goes on; `weir stop {name}` ends it.", file=sys.stderr)


def _exit_code_of(row: "WorkloadRow") -> int:
    """Return the exit code of a workload that is over, as a shell has it."""
    if row.status == "succeeded":
        return 0
    if row.status == "stopped":
        return STOPPED
    code = row.exit_code
    return code if code is not None and 0 < code <= CODE_MAX else FAILED
