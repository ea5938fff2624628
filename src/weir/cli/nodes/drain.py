"""`weir drain`, `weir undrain` and `weir maintenance`: nodes and GPUs taken out of service, and back."""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import App, Parameter

from weir.cli.options.mistakes import WrongOption, option_mistakes
from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import YesSwitch
from weir.cli.options.refusals import named
from weir.cli.output.columns import Column
from weir.cli.output.formatting import NOTHING, counted, resource
from weir.cli.output.outputs import OutputOption, show
from weir.cli.output.terminal import is_agreed
from weir.cli.pool.connect import connect
from weir.cli.workloads.start_conditions import begin_time
from weir.client.errors import Refused
from weir.model.resources import GPU

if TYPE_CHECKING:
    from weir.api.maintenance import MaintenanceRow
    from weir.client import Pool

Row = TypeVar("Row")
app = App(name="maintenance", help="List, announce and withdraw maintenance windows.")
Running = Literal["evict", "finish", "stop"]
_BEGINS_NOW = 409
"""Status of a refusal because a drain or window that has to be later would begin now."""
_OPTIONS = {
    "after": "--in",
    "at_s": "--at",
    "from_s": "--from",
    "gpus": "--gpu",
    "name": "--name",
    "reason": "--reason",
    "until_s": "--until",
}
NodeName = Annotated[str | None, Parameter(help="The node; it can be left out in a pool of one.")]
Reason = Annotated[str, Parameter(help="Reason, which people with pending workloads see.")]
Gpus = Annotated[Sequence[int], Parameter(name="--gpu", negative=()), whole_number(0)]


def drain(
    name: NodeName = None,
    /,
    *,
    gpu: Annotated[int | None, whole_number(0)] = None,
    at: str | None = None,
    in_: Annotated[str | None, Parameter(name="--in")] = None,
    running: Running | None = None,
    reason: Reason = "",
    yes: YesSwitch = False,
) -> int:
    """Take a node, or one GPU of it, out of service, now or at a time: nothing starts there.

    With a time, work that would still run then isn't started there from now on.

    Parameters
    ----------
    gpu
        Index of one GPU of it, as `weir top` shows it.
    at
        Time at which it goes out of service: 2026-12-01T18:00, 18:00 for the next such time, or +2h from now.
    in_
        Time until it goes out of service, such as 2h.
    running
        Running work goes back to its queues (evict), runs on (finish) or is ended for good (stop). By default
        evict for a node and finish for a GPU.
    yes
        Don't ask before work is evicted or stopped. Without a terminal to ask on, nothing changes.
    """
    if at is not None and in_ is not None:
        raise WrongOption("--at and --in exclude each other: write one of them")
    with option_mistakes():
        at_s = None if at is None else begin_time(at, time.time(), "--at")
    with connect() as pool, named(**_OPTIONS):
        node = _only_node(pool) if name is None else name
        which = node if gpu is None else f"GPU {gpu} of {node}"
        action = running or ("evict" if gpu is None else "finish")
        do = partial(pool.drain, node) if gpu is None else partial(pool.drain_gpu, node, gpu)
        do = partial(do, reason=reason, running=action, at_s=at_s, after=in_)
        timed = (in_ is not None or at_s is not None) and _later(do) is not None
        if not timed:
            asks = action != "finish" and not yes
            if asks and not _is_confirmed(pool, node, () if gpu is None else (gpu,), action):
                return 1
            do()
        when = _announced(pool, "drain" if gpu is None else f"drain-gpu-{gpu}") if timed else ""
    undo = f"weir undrain {node}" + ("" if gpu is None else f" --gpu {gpu}")
    now = f"is drained; `{undo}` lets workloads start on it again."
    print(f"{which} will be drained{when}; `{undo}` withdraws it." if timed else f"{which} {now}")
    return 0


def undrain(name: NodeName = None, /, *, gpu: Annotated[int | None, whole_number(0)] = None) -> int:
    """Let workloads start on a drained node or GPU again, and withdraw an announced drain.

    Parameters
    ----------
    gpu
        Index of one drained GPU of it.
    """
    with connect() as pool:
        node = _only_node(pool) if name is None else name
        row = pool.undrain(node) if gpu is None else pool.undrain_gpu(node, gpu)
    print(f"{node if gpu is None else f'GPU {gpu} of {node}'} is in service: workloads may start there.")
    for device in row.devices if gpu is None else ():
        if device.drained is not None:
            undo = f"`weir undrain {node} --gpu {device.index}` lets workloads start on it"
            print(f"GPU {device.index} is still drained: {undo}.")
    return 0


def _later(do: Callable[..., Row]) -> Row | None:
    """Announce a drain or a window; return None if nothing has changed, because it would begin now.

    The clock of the pool decides: with the clock of this computer, a wrong time could evict work unasked.

    Raises:
        Refused: the pool refuses it for another reason.
    """
    try:
        return do(later_only=True)
    except Refused as refused:
        if refused.status != _BEGINS_NOW:
            raise
        return None


def _announced(pool: "Pool", name: str) -> str:
    """Return the time of a drain in words; empty if the drain isn't announced any more."""
    return next((f" at {_shown_time(row.from_s)}" for row in pool.maintenance() if row.name == name), "")


def _only_node(pool: "Pool") -> str:
    """Return the node of a pool of one.

    Raises:
        WrongOption: the pool has another number of nodes.
    """
    names = [row.name for row in pool.nodes()]
    if len(names) != 1:
        raise WrongOption(f"write the name of a node: {', '.join(names) or 'the pool has none'}")
    return names[0]


def _is_confirmed(pool: "Pool", node: str, gpus: Sequence[int], action: Running) -> bool:
    """Return True if nothing would stop, or a person agrees. Print the workloads that would stop.

    They are those on the whole node, or on some of its GPUs.
    """
    workload_rows = [row for gpu in gpus or (None,) for row in pool.node_workloads(node, gpu=gpu)]
    rows = list({row.uid: row for row in workload_rows}.values())
    for row in rows:
        print(f"{row.name} of {row.user} in {row.project} would stop: {resource(GPU, row.devices)}")
    if not rows:
        return True
    verb, workloads = "evict" if action == "evict" else "end", counted(len(rows), "workload")
    sys.stdout.flush()
    if is_agreed(f"{verb.capitalize()} {workloads}?"):
        return True
    they = "it end by itself" if len(rows) == 1 else "them end by themselves"
    print(f"Nothing has changed. --yes {verb}s {workloads}; --running finish lets {they}.")
    return False


def _shown_time(at_s: float | None) -> str:
    if at_s is None:
        return NOTHING
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))


def _gpus(row: "MaintenanceRow") -> str:
    return "all" if row.gpus is None else ",".join(str(gpu) for gpu in row.gpus)


COLUMNS: "tuple[Column[MaintenanceRow], ...]" = (
    Column("NAME", lambda row: row.name, least=24),
    Column("NODE", lambda row: row.node, least=8, drop=3),
    Column("GPUS", _gpus),
    Column("FROM", lambda row: _shown_time(row.from_s)),
    Column("UNTIL", lambda row: _shown_time(row.until_s)),
    Column("STATE", lambda row: "now" if row.begun else "announced", drop=1),
    Column("RUNNING WORK", lambda row: row.running, drop=2),
    Column("BY", lambda row: row.user, drop=4),
    Column("REASON", lambda row: row.reason or NOTHING, least=8),
)


@app.default
def list_(*, output: OutputOption = "table") -> int:
    """List the maintenance windows, and drains at a time."""
    with connect() as pool:
        rows = list(pool.maintenance())
    show(rows, list(COLUMNS), output, none="No maintenance is announced.")
    return 0


@app.command
def add(
    *,
    from_: Annotated[str, Parameter(name="--from")],
    until: str,
    gpu: Gpus = (),
    reason: Reason = "",
    running: Literal["evict", "finish"] = "evict",
    name: str | None = None,
    yes: YesSwitch = False,
) -> int:
    """Announce a maintenance window. Long work doesn't run into it, and the node comes back by itself.

    Parameters
    ----------
    from_
        Beginning: 2026-12-01T18:00, 18:00 for the next such time, or +2h from now.
    until
        End: 2026-12-01T22:00, 22:00 for the next such time after the beginning, or +4h from the beginning.
    gpu
        Index of a GPU, if only some GPUs of the node go out of service. Repeat it for more GPUs.
    running
        Work that still runs at the beginning goes back to its queues (evict), or runs on (finish).
    name
        Name of the window; by default maintenance-1 and so on.
    yes
        Don't ask for confirmation if the window begins now and evicts work. Without --yes and without a
        terminal, nothing changes.
    """
    with option_mistakes():
        begins_s = begin_time(from_, time.time(), "--from")
        ends_s = begin_time(until, begins_s, "--until", "the beginning")
    with connect() as pool, named(**_OPTIONS):
        do = partial(pool.add_maintenance, begins_s, ends_s, gpus=list(gpu) or None, reason=reason)
        do = partial(do, running=running, name=name)
        row = do() if running == "finish" or yes else _later(do)
        if row is None:
            if not _is_confirmed(pool, _only_node(pool), gpu, running):
                return 1
            row = do()
    times = f"from {_shown_time(row.from_s)} until {_shown_time(row.until_s)}"
    print(f"{row.name} is announced, {times}; `weir maintenance delete {row.name}` withdraws it.")
    return 0


@app.command
def delete(name: str, /) -> int:
    """Withdraw a maintenance window, or end one that has begun.

    Parameters
    ----------
    name
        The window, as `weir maintenance` lists it.
    """
    with connect() as pool:
        pool.delete_maintenance(name)
    print(f"{name} is withdrawn.")
    return 0
