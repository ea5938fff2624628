"""`weir nodes`, `weir top` and `weir status`: the nodes and their usage."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cyclopts import App

from weir.cli.nodes.drain import drain, undrain
from weir.cli.options.mistakes import WrongOption, option_mistakes
from weir.cli.options.past_time import since_time
from weir.cli.output.columns import Column, pairs, table
from weir.cli.output.formatting import NOTHING, counted, number, percent, since, size
from weir.cli.output.outputs import DocumentedOutput, OutputOption, WatchOption, print_plain, show, show_one
from weir.cli.output.terminal import Screen, Tone, plain, screen
from weir.cli.pool.connect import connect
from weir.cli.pool.watch import changed, is_terminal, repaint, repaint_or_append
from weir.cli.reports.period_usage import notes, period_lines, period_usage
from weir.slurm.hostlists import folded_numbers

if TYPE_CHECKING:
    from weir.api.answers import DeviceRow, NodeRow, PoolStatus, QueueRow
    from weir.client.api import Pool

app = App(name="nodes", help="List the nodes with their allocation, and show, drain and undrain one.")
Row = TypeVar("Row")
_MEASURED = ("USE", "OTHERS", "STATE", "ACTIVITY")
_BAR_WIDTH = 20
_IDLE_BELOW = 0.05
"""Utilization below which an allocated device is highlighted."""


def _models(row: "NodeRow") -> str:
    return ",".join(sorted({device.model for device in row.devices if device.model})) or (
        "virtual" if row.virtual else "-"
    )


def _allocated(row: "NodeRow", resource: str) -> str:
    allocated, all_ = row.allocated.get(resource, 0.0), row.capacity.get(resource)
    if all_ is None:
        return "-"
    if resource == "memory":
        return f"{size(allocated)} of {size(all_)}"
    return f"{number(allocated)} of {number(all_)}"


def _devices_allocated(row: "NodeRow") -> str:
    return f"{number(row.allocated.get('gpu', 0.0))} of {len(row.devices)}"


def _others(row: "NodeRow") -> str:
    return number(row.others) if row.others else NOTHING


def _used(row: "NodeRow") -> str:
    used = [device.use for device in row.devices if device.use is not None]
    return percent(sum(used) / len(used)) if used else "-"


def _state_tone(row: "NodeRow") -> Tone:
    return "bad" if any(state.startswith("overcommitted") for state in row.state) else "plain"


def _states(row: "NodeRow") -> str:
    drained = {device.index: device.drained for device in row.devices if device.drained}
    used = {device.index: f"used by {_foreign(device)}" for device in row.devices if device.foreign}
    return ", ".join([*row.state, *_by_text(drained), *_by_text(used)]) or NOTHING


def _by_text(texts: Mapping[int, str]) -> Iterator[str]:
    """Yield each text once, after the GPUs that it is about, such as `GPUs 0-3 drained`."""
    for text in dict.fromkeys(texts.values()):
        indices = [index for index, other in texts.items() if other == text]
        yield f"GPU{'s' if len(indices) > 1 else ''} {folded_numbers(indices)} {text}"


def _foreign(device: "DeviceRow") -> str:
    """Return a sentence about the foreign process on a device, with its command if that is known."""
    command = f": {device.foreign_command}" if device.foreign_command else ""
    return f"{device.foreign}{command}"


NODES: "tuple[Column[NodeRow], ...]" = (
    Column("NODE", lambda row: row.name, least=10),
    Column("GPU ALLOC", _devices_allocated, right=True),
    Column("OTHERS", _others, right=True, drop=1),
    Column("STATE", _states, least=36, sentence=True, tone=_state_tone),
    Column("MODEL", _models, least=8, drop=4),
    Column("USE", _used, right=True, drop=2),
    Column("CPU ALLOC", lambda row: _allocated(row, "cpu"), right=True, drop=3),
    Column("MEM ALLOC", lambda row: _allocated(row, "memory"), right=True, drop=3),
    Column("PODS", lambda row: number(row.pods), right=True, drop=1),
    Column(
        "LABELS",
        lambda row: ",".join(f"{key}={value}" for key, value in row.labels.items()),
        least=8,
        wide=True,
        drop=9,
    ),
)


def measured_columns(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """Return the columns without those that this pool can't measure."""
    return [
        column
        for column in columns
        if column.head not in _MEASURED or any(column.cell(row) != NOTHING for row in rows)
    ]


@app.default
def nodes(*, output: DocumentedOutput = "table", watch: WatchOption = False) -> int:
    """List the nodes with their allocation and the utilization of their GPUs.

    Parameters
    ----------
    output
        table, wide (with labels), json or yaml.
    watch
        Go on, and show them again as they change.
    """
    with connect() as pool:
        if watch:

            def frame(display: Screen) -> list[str]:
                rows = pool.nodes()
                return table(rows, measured_columns(NODES, rows), display, wide=output == "wide")

            return repaint_or_append(frame, _changed_nodes(pool), NODES, output)
        rows = pool.nodes()
    show(rows, measured_columns(NODES, rows), output, none="The pool has no machine.")
    return 0


def _changed_nodes(pool: "Pool") -> "Iterator[NodeRow]":
    return changed(pool.nodes, lambda row: row.name)


app.command(drain)
app.command(undrain)


@dataclass(frozen=True, slots=True)
class _NodeDevice:
    """A device and its node."""

    node: "NodeRow"
    row: "DeviceRow"


def _use_tone(device: _NodeDevice) -> Tone:
    use = device.row.use
    return "busy" if use is not None and device.row.allocated > 0 and use < _IDLE_BELOW else "plain"


def _memory(device: _NodeDevice) -> str:
    row = device.row
    return (
        f"{size(row.memory_used)} of {size(row.memory)}" if row.memory_used is not None else size(row.memory)
    )


def _on(row: "DeviceRow") -> list[str]:
    return row.workloads if row.foreign is None else [*row.workloads, row.foreign]


def _share(device: _NodeDevice) -> str:
    allocated = device.row.allocated
    if allocated <= 0 and device.row.drained is not None:
        return "drained"
    if allocated <= 0 and device.row.foreign is not None:
        return "foreign"
    return "free" if allocated <= 0 else "whole" if allocated >= 1 else percent(allocated)


DEVICES: tuple[Column[_NodeDevice], ...] = (
    Column("GPU", lambda device: f"{device.node.name}/{device.row.index}", least=8),
    Column(
        "MODEL",
        lambda device: device.row.model or ("virtual" if device.node.virtual else "-"),
        least=8,
        drop=3,
    ),
    Column(
        "ALLOCATED", _share, right=True, tone=lambda device: "quiet" if device.row.allocated <= 0 else "plain"
    ),
    Column("USE", lambda device: percent(device.row.use), right=True, tone=_use_tone),
    Column("MEMORY", _memory, right=True, drop=2),
    Column("ACTIVITY", lambda device: device.row.activity or NOTHING, drop=4),
    Column("WORKLOADS", lambda device: ", ".join(_on(device.row)), least=14),
)


@app.command(name="show")
def show_node(name: str, /, *, output: OutputOption = "table") -> int:
    """Show a node: its state, its allocation, its labels, and its GPUs with their workloads.

    Parameters
    ----------
    name
        The node.
    """
    with connect() as pool:
        row = next((row for row in pool.nodes() if row.name == name), None)
    if row is None:
        raise WrongOption(f"There is no node {plain(name)}; `weir nodes` shows which there are")
    show_one(row, output, lambda display: _node_lines(row, display))
    return 0


def _node_lines(row: "NodeRow", display: Screen) -> list[str]:
    facts = [
        ("Node", row.name),
        ("State", _states(row)),
        ("Model", _models(row)),
        ("GPUs", f"{_devices_allocated(row)} allocated"),
        ("CPU", f"{_allocated(row, 'cpu')} allocated"),
        ("Memory", f"{_allocated(row, 'memory')} allocated"),
        ("Pods", number(row.pods)),
        ("Labels", ", ".join(f"{key}={value}" for key, value in row.labels.items()) or NOTHING),
    ]
    lines = pairs([fact for fact in facts if not fact[1].startswith(NOTHING)], display)
    devices = [_NodeDevice(row, device) for device in row.devices]
    return [*lines, "", *table(devices, measured_columns(DEVICES, devices), display)] if devices else lines


def top(*, since: str | None = None, watch: WatchOption = False, output: DocumentedOutput = "table") -> int:
    """Show the usage of every project and every GPU, now or over a time.

    Parameters
    ----------
    since
        Show the GPUs allocated since then, by project, user and node. An age such as 2h or 7d, or a date
        such as 2026-11-01.
    watch
        Repaint the screen every second.
    output
        table, or the devices as wide, json or yaml.
    """
    if since is not None:
        return _top_since(since, watch=watch, output=output)
    with connect() as pool:

        def frame(display: Screen) -> list[str]:
            return glance(pool.status(), pool.projects(), pool.nodes(), display)

        if watch:
            return repaint_or_append(frame, _changed_nodes(pool), NODES, output)
        if output in ("json", "yaml"):
            print_plain([row.model_dump(mode="json") for row in pool.nodes()], output)
        else:
            print("\n".join(frame(screen())))
    return 0


def _top_since(since: str, *, watch: bool, output: str) -> int:
    with option_mistakes():
        since_time(since)
    if watch and (output in ("json", "yaml") or not is_terminal()):
        print("weir: --since --watch repaints a screen: leave one of them out.", file=sys.stderr)
        return 2
    with connect() as pool:
        if watch:
            return repaint(lambda display: period_lines(period_usage(pool, since_time(since)), display))
        reports = period_usage(pool, since_time(since))
    if output in ("json", "yaml"):
        print_plain([report.model_dump(mode="json") for report in reports], output)
    else:
        print("\n".join(period_lines(reports, screen())))
    for note in notes(reports):
        print(note, file=sys.stderr)
    return 0


def glance(
    status: "PoolStatus", projects: "Sequence[QueueRow]", nodes_: "Sequence[NodeRow]", display: Screen
) -> list[str]:
    """Return the lines of the pool: its projects, then its devices."""
    usage = f"{number(status.allocated)} of {counted(status.devices, 'GPU')} allocated"
    lines = [
        f"{display.paint(usage, 'strong')}, {status.running:,} running, {status.pending:,} pending",
    ]
    most = max([1.0, float(status.devices)])
    if projects:
        lines += ["", *table(sorted(projects, key=lambda row: row.name), _projects(most), display)]
    devices = [_NodeDevice(node, row) for node in nodes_ for row in node.devices]
    if devices:
        lines += ["", *table(devices, measured_columns(DEVICES, devices), display)]
    return lines


def _projects(most: float) -> "tuple[Column[QueueRow], ...]":
    return (
        Column("PROJECT", lambda row: row.name, least=10),
        Column("ALLOCATED", lambda row: number(row.allocated.get("gpu", 0.0)), right=True),
        Column("QUOTA", lambda row: number(row.quota.get("gpu", 0.0)), right=True),
        Column("", lambda row: bar(row, most), drop=2),
        Column("RUNNING", lambda row: number(row.running), right=True, drop=1),
        Column(
            "PENDING",
            lambda row: number(row.pending),
            right=True,
            tone=lambda row: "busy" if row.pending else "quiet",
        ),
    )


def bar(row: "QueueRow", most: float) -> str:
    """Return the bar of a project: full within quota, grey over quota, dots for idle quota."""
    allocated, quota = row.allocated.get("gpu", 0.0), row.quota.get("gpu", 0.0)
    per = _BAR_WIDTH / most
    own, borrowed = round(min(allocated, quota) * per), round(max(0.0, allocated - quota) * per)
    free = round(max(0.0, min(quota, most) - allocated) * per)
    return ("█" * own + "▒" * borrowed + "·" * free)[:_BAR_WIDTH]


def status(*, output: DocumentedOutput = "table", watch: WatchOption = False) -> int:
    """Show a summary of the pool: its devices, and its running and pending workloads.

    Parameters
    ----------
    output
        table, wide, json or yaml.
    watch
        Go on, and show it again as it changes.
    """
    with connect() as pool:
        if watch:
            return repaint_or_append(
                lambda display: standing(pool.status(), pool.address.url, display),
                changed(lambda: [pool.status()], lambda _row: 0),
                _STATUS,
                output,
            )
        state = pool.status()
    show_one(state, output, lambda display: standing(state, pool.address.url, display))
    return 0


_STATUS: "tuple[Column[PoolStatus], ...]" = (
    Column("GPU ALLOC", lambda row: f"{number(row.allocated)} of {row.devices}", right=True),
    Column("RUNNING", lambda row: number(row.running), right=True, least=7),
    Column("PENDING", lambda row: number(row.pending), right=True, least=7),
)


def _allocated_of(state: "PoolStatus") -> str:
    others = f", {number(state.others)} of them by other schedulers" if state.others else ""
    return f"{number(state.allocated)} of {state.devices:,} allocated{others}"


def _headroom(state: "PoolStatus") -> list[tuple[str, str]]:
    """Return the learned headroom for sessions with its reason; nothing if none is learned."""
    if state.session_headroom is None:
        return []
    return [
        ("Headroom", f"{counted(state.session_headroom, 'GPU')} for sessions. {state.session_headroom_why}")
    ]


def standing(state: "PoolStatus", url: str, display: Screen) -> list[str]:
    """Return the lines of the summary."""
    virtual = ", virtual" if state.virtual else ""
    trouble = [display.paint(plain(state.trouble), "bad"), ""] if state.trouble else []
    return [
        *trouble,
        f"{display.paint('up', 'good')} for {since(state.started_s)} at {url}",
        "",
        *pairs(
            [
                ("GPUs", f"{_allocated_of(state)}{virtual}"),
                ("Machines", number(state.nodes)),
                ("Workloads", f"{state.running:,} running, {state.pending:,} pending"),
                *_headroom(state),
                ("Policy", state.policy),
                ("Version", state.version),
            ],
            display,
        ),
    ]
