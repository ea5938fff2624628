"""`weir list` and `weir describe`."""

import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from weir.cli.options.mistakes import option_mistakes
from weir.cli.options.option_types import Switch
from weir.cli.options.refusals import named
from weir.cli.output.columns import Column, pairs, table
from weir.cli.output.formatting import clock, counted, lasting, moment, number, resource, sentence, since
from weir.cli.output.outputs import DocumentedOutput, LimitOption, Output, WatchOption, show, show_one
from weir.cli.output.terminal import Screen, plain, wrapped
from weir.cli.pool.connect import connect, report_outage
from weir.cli.pool.watch import changed, repaint_or_append, waited_out
from weir.cli.workloads.activity import activity_facts, idle_facts
from weir.cli.workloads.list_columns import columns_of, progress_bar, time_of, tone_of
from weir.cli.workloads.list_filter import ListFilter, ListOptions, check_projects
from weir.cli.workloads.list_order import Order, ordered, summary
from weir.cli.workloads.start_conditions import condition_lines
from weir.cli.workloads.sweep_lines import with_parked_together
from weir.client.outage import ServerOutage
from weir.model.resources import CPU, GPU, MEMORY

if TYPE_CHECKING:
    from weir.api.answers import PodRow, WorkloadDetail, WorkloadPage, WorkloadRow
    from weir.client.api import Pool

_LIMIT, _EVENTS = 100, 20
_ALL = ListOptions()


def list_(
    name: str | None = None,
    /,
    *,
    indices: Switch = False,
    options: ListOptions = _ALL,
    sort: Order = "status",
    limit: LimitOption = _LIMIT,
    watch: WatchOption = False,
    output: DocumentedOutput = "table",
) -> int:
    """List running and pending workloads; with --all also those that are over.

    Parameters
    ----------
    name
        An array whose --indices are listed.
    indices
        List the indices of an array, which is one line otherwise.
    sort
        Order: status (running first, each newest first), age (newest first), name, gpus or priority.
    limit
        Maximum number of workloads, the newest; 0 for all.
    watch
        Repaint the list as it changes; if the output is no terminal, print a line for each change.
    output
        table, wide (more columns), json or yaml.
    """
    if indices or name is not None:
        from weir.cli.workloads.index_list import list_indices

        return list_indices(name, options.statuses, limit, output, indices=indices)
    with option_mistakes():
        list_filter = options.filter()
    return _list(list_filter, options, sort, limit, output, watch=watch)


def _list(
    list_filter: ListFilter, options: ListOptions, sort: Order, limit: int, output: Output, *, watch: bool
) -> int:
    with connect() as pool, named(status="--status", type="--type"):
        if options.me:
            list_filter = replace(list_filter, user=pool.whoami().user)
        if watch:
            return repaint_or_append(
                lambda display: _frame(list_filter.all(pool, _LIMIT), sort, display, output, options.nothing),
                _changes(pool, list_filter, limit),
                columns_of(output),
                output,
            )
        rows, page = list_filter.all(pool, limit)
        total = max(page.total, len(rows))
        check_projects(pool, list_filter.project, {row.project for row in rows})
    note = f"{len(rows):,} of {total:,} shown: --limit 0 shows all." if total > len(rows) else ""
    note = note or f"{summary(rows, total, page)}."
    lines = ordered(rows, sort)
    if output in ("table", "wide"):
        lines = with_parked_together(lines)
    show(lines, columns_of(output), output, none=options.nothing, note=note)
    if page.trouble:
        print(f"weir: {page.trouble}", file=sys.stderr)
    if page.note:
        print(page.note, file=sys.stderr)
    return 0


def _changes(pool: "Pool", list_filter: ListFilter, limit: int) -> "Iterator[WorkloadRow]":
    """Yield the present list, oldest first, then each change."""
    from weir.api.answers import WorkloadRow
    from weir.client.stream import Change

    def newest() -> "list[WorkloadRow]":
        return list_filter.all(pool, limit)[0]

    changes, outage = pool.stream(), ServerOutage(report_outage)
    seen: dict[int, WorkloadRow] = {}
    for change in chain([Change("reset", None)], changes):
        rows = [change.row] if isinstance(change.row, WorkloadRow) and list_filter.holds(change.row) else []
        for row in reversed(waited_out(newest, outage)) if change.kind == "reset" else rows:
            if seen.get(row.uid) != row:
                seen[row.uid] = row
                yield row


def _frame(
    listing: "tuple[list[WorkloadRow], WorkloadPage]",
    sort: Order,
    display: Screen,
    output: Output,
    nothing: str,
) -> list[str]:
    """Return the lines of a watched list; `nothing` is the sentence about a list without rows."""
    rows, page = listing
    numbers = summary(rows, max(page.total, len(rows)), page) if rows else nothing
    head = f"{clock(time.time())}  {numbers}"
    shown = with_parked_together(ordered(rows, sort))[: display.height or _LIMIT]
    return [
        display.paint(head, "quiet"),
        "",
        *(table(shown, columns_of(output), display, wide=output == "wide") if shown else []),
    ]


def describe(name: str, /, *, output: DocumentedOutput = "table", watch: WatchOption = False) -> int:
    """Show all details of a workload: its request, its pods and its events.

    Parameters
    ----------
    name
        The workload: the newest of that name. In a pool also a uid, which `weir list -o wide` shows.
    output
        table for people (wide adds the environment), json or yaml for programs.
    watch
        Go on, and show it again as it changes.
    """
    with connect() as pool:
        if watch:
            return repaint_or_append(
                lambda display: description(pool.get(name), display, wide=output == "wide"),
                changed(lambda: [pool.get(name)], lambda row: row.uid),
                columns_of(output),
                output,
            )
        detail = pool.get(name)
    show_one(detail, output, lambda display: description(detail, display, wide=output == "wide"))
    return 0


def description(detail: "WorkloadDetail", display: Screen, *, wide: bool = False) -> list[str]:
    """Return the details of a workload as lines."""
    from weir.cli.workloads.events import event_lines

    head = f"{display.paint(detail.name, 'strong')}  {display.paint(_standing(detail), tone_of(detail))}"
    lines = [head]
    if detail.evicted is not None:
        eviction = f"Evicted at {moment(detail.evicted.at_s)}: {detail.evicted.sentence}"
        lines += wrapped(sentence(plain(eviction)), display.width, "  ").split("\n")
    if detail.reason is not None:
        lines += wrapped(sentence(plain(detail.reason.sentence), detail.name), display.width, "  ").split(
            "\n"
        )
    lines += ["", *pairs(_facts(detail, wide=wide), display)]
    if detail.pod_rows:
        lines += ["", *table(detail.pod_rows, _PODS, display)]
    if detail.events:
        newest = sorted(detail.events, key=lambda row: (row.at_s, row.id))[-_EVENTS:]
        lines += ["", *event_lines(newest, display, named=False)]
    return lines


def _standing(detail: "WorkloadDetail") -> str:
    """Return its status and the time since the last change."""
    if detail.ended_s is not None:
        return f"{detail.status} {since(detail.ended_s)} ago"
    if detail.status == "running":
        return f"running for {since(detail.started_s)}"
    if detail.status == "pending":
        age = since(detail.submitted_s)
        return f"pending for {age}" if detail.first_started_s is None else f"pending, submitted {age} ago"
    return detail.status


def _requests(detail: "WorkloadDetail") -> str:
    """Return the requests of its pods: `4 pods, 4 GPUs together, 2 cores each`."""
    if detail.array is not None:
        size = max(1, detail.array.size)
        per_index = resource(GPU, detail.devices / max(1, detail.array.running))
        return f"{counted(detail.pods // size, 'pod')}, {per_index} for each of {size:,} indices"
    text = f"{counted(detail.pods, 'pod')}, {resource(GPU, detail.devices)}"
    if detail.pods > 1 and detail.devices:
        text += " together"
    stated = ((CPU, detail.pod_cpu), (MEMORY, detail.pod_memory))
    beside = " and ".join(resource(name, value) for name, value in stated if value is not None)
    if beside:
        text += f", {beside}{' each' if detail.pods > 1 else ''}"
    return text + (f", {detail.pods_running} running" if 0 < detail.pods_running < detail.pods else "")


_ACCESS = {
    "enforced": "enforced: the kernel lets no other job open its GPUs",
    "cooperative": "cooperative: other jobs stay off its GPUs if they heed CUDA_VISIBLE_DEVICES",
}
_MEMORY = {
    "cooperative": "cooperative: frameworks heed its share, as far as they read its variables",
    "none": "none: nothing limits the memory of its share",
}
_LIMITED = "enforced: the driver limits every job on its GPUs to its share"


def isolation_lines(detail: "WorkloadDetail") -> list[tuple[str, str]]:
    """Return the isolation of its GPUs and of its share of their memory; nothing for virtual GPUs."""
    if detail.gpu_access == "none" or detail.gpu_memory is None:
        return []
    lines = []
    if detail.gpu_access is not None:
        means = f" ({detail.gpu_access_by})" if detail.gpu_access_by is not None else ""
        lines.append(("GPU access", f"{_ACCESS.get(detail.gpu_access, detail.gpu_access)}{means}"))
    is_whole = detail.gpu_memory == detail.gpu_access and not (detail.gpu_memory_by or detail.gpu_memory_why)
    if is_whole:  # access to its GPUs says it all
        return lines
    memory: str = _MEMORY.get(detail.gpu_memory, detail.gpu_memory)  # a newer server may send other values
    if detail.gpu_memory_by is not None:
        memory = _LIMITED
    elif detail.gpu_memory == "cooperative" and detail.gpu_access is None:  # on a cluster
        memory = f"cooperative: {detail.gpu_memory_why}"
    elif detail.gpu_memory_why is not None:
        memory = f"{memory} ({detail.gpu_memory_why})"
    return [*lines, ("GPU memory", memory)]


def _facts(detail: "WorkloadDetail", *, wide: bool) -> list[tuple[str, str]]:
    array = detail.array
    facts = [
        *([("Uid", str(detail.uid))] if wide else []),
        *([("Array", f"{array.written}: {array.sentence}")] if array is not None else []),
        ("Project", f"{detail.project}, submitted by {detail.user}" if detail.user else detail.project),
        ("Asks for", _requests(detail)),
        (
            "Type",
            f"{detail.type}, priority {detail.priority}, {'' if detail.preemptible else 'not '}preemptible",
        ),
        ("Submitted", f"{moment(detail.submitted_s)}, {since(detail.submitted_s)} ago"),
    ]
    facts += [*condition_lines(detail), *_starts(detail)]
    if detail.ended_s is not None:
        facts.append(("Ended", f"{moment(detail.ended_s)}, {since(detail.ended_s)} ago"))
    limit = f" of at most {lasting(detail.max_runtime_s)}" if detail.max_runtime_s else ""
    if time_of(detail) != "-" or limit:
        again = f", restarted {'once' if detail.restarts == 1 else f'{detail.restarts:,} times'}"
        facts.append(("Ran", f"{time_of(detail)}{limit}{again if detail.restarts else ''}"))
    if detail.exit_code:
        facts.append(("Exit code", str(detail.exit_code)))
    if detail.checkpointed_s is not None:
        step = f"step {detail.step:,}, " if detail.step is not None else ""
        facts.append(("Saved", f"{step}{since(detail.checkpointed_s)} ago"))
        if detail.checkpoints:
            facts.append(("Saved in", detail.checkpoints))
    facts += [*activity_facts(detail.activity), *idle_facts(detail.idle_rules)]
    if detail.progress is not None:
        facts.append(("Progress", progress_bar(detail.progress)))
    facts += isolation_lines(detail)
    if detail.reported:
        facts.append(("Reported", ", ".join(f"{name} {value:g}" for name, value in detail.reported.items())))
    if detail.command is not None:
        facts.append(("Command", shlex.join(detail.command)))
    places = (("Session", detail.session), ("Image", detail.image), ("Directory", detail.directory))
    facts += [(label, value) for label, value in places if value]
    if detail.secrets:
        secrets = ", ".join(f"{key} from {name}" for key, name in detail.secrets.items())
        facts.append(("Secrets", secrets))
    if detail.env and wide:
        facts += [
            ("Environment" if not index else "", f"{key}={value}")
            for index, (key, value) in enumerate(detail.env.items())
        ]
    elif detail.env:
        facts.append(("Environment", f"{counted(len(detail.env), 'variable')}: --output wide shows them"))
    return facts


def _starts(detail: "WorkloadDetail") -> list[tuple[str, str]]:
    """Return the times of its first start and of its last one if they differ."""
    first_s, last_s = detail.first_started_s, detail.started_s
    starts = [("Started", first_s or last_s)]
    if first_s is not None and last_s is not None and last_s > first_s:
        starts.append(("Last start", last_s))
    return [(label, f"{moment(at_s)}, {since(at_s)} ago") for label, at_s in starts if at_s is not None]


_PODS: "tuple[Column[PodRow], ...]" = (
    Column("POD", lambda row: row.name.partition("/")[2] or row.name, least=8),
    Column("STATUS", lambda row: row.status, tone=tone_of),
    Column("NODE", lambda row: row.node or "-", least=8, drop=2),
    Column("DEVICES", lambda row: ",".join(map(str, row.devices)) or "-", least=7, drop=3),
    Column("SINCE", lambda row: since(row.since_s), right=True, drop=4),
    Column("START", lambda row: number(row.start), right=True, drop=5),
    Column("EXIT", lambda row: row.exit or "", least=8, drop=1, sentence=True),
)
