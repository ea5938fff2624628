"""`weir logs`, and following a workload to its end."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.cli.paint import screen

if TYPE_CHECKING:
    from weir.client.api import Pool
    from weir.model.pool import WorkloadDetail

_ENDED = ("succeeded", "failed", "stopped")


def logs(
    name: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative=())] = False,
    pod: str | None = None,
    start: int | None = None,
    tail: Annotated[int | None, Parameter(name=("--tail", "-n"))] = None,
) -> int:
    """Print the output of a workload.

    Parameters
    ----------
    name
        The workload: the newest of that name.
    follow
        Go on, and print what comes, until it is over.
    pod
        Of this pod, as group/index; `weir describe` lists them. By default the first one.
    start
        Of this start of it; by default the last one.
    tail
        Only so many of its last lines.
    """
    from weir.cli.where import the_pool

    with the_pool() as pool:
        _print(pool, name, follow=follow, pod=pod, start=start, tail=tail)
    return 0


def _print(
    pool: "Pool", name: str, *, follow: bool, pod: str | None, start: int | None, tail: int | None
) -> None:
    last = "\n"
    for text in pool.logs(name, follow=follow, pod=pod, start=start, tail=tail):
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            last = text[-1]
    if last != "\n" and sys.stdout.isatty():
        print()


def follow_to_end(pool: "Pool", name: str) -> int:
    """Print a workload's output as it comes, until it is over; 0 if it succeeded.

    Raises:
        KeyboardInterrupt: the person has seen enough; the workload goes on.
    """
    try:
        _print(pool, name, follow=True, pod=None, start=None, tail=None)
    except KeyboardInterrupt:
        _goes_on(name)
        raise
    return wait_to_end(pool, name)


def wait_to_end(pool: "Pool", name: str) -> int:
    """Wait until a workload is over, and say how it ended; 0 if it succeeded.

    Raises:
        KeyboardInterrupt: the person doesn't want to wait; the workload goes on.
    """
    try:
        found = pool.wait(name)
    except KeyboardInterrupt:
        _goes_on(name)
        raise
    print(ended(found), file=sys.stderr)
    return 0 if found.status == "succeeded" else 1


def ended(found: "WorkloadDetail") -> str:
    """How it ended, for people."""
    from weir.cli.words import sentence
    from weir.cli.workloads import time_of, tone_of

    reason = found.reason if found.status != "succeeded" else None
    why = f". {sentence(reason.sentence, found.name)}" if reason is not None else "."
    ran = "" if time_of(found) == "-" else f" after running for {time_of(found)}"
    return f"{found.name} {screen(sys.stderr).paint(found.status, tone_of(found))}{ran}{why}"


def _goes_on(name: str) -> None:
    print(f"\n{name} goes on; `weir stop {name}` ends it.", file=sys.stderr)
