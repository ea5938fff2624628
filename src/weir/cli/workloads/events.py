"""`weir events`: events and their causes."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.cli.options.mistakes import option_mistakes
from weir.cli.options.option_types import NOT_EMPTY
from weir.cli.options.past_time import since_time
from weir.cli.output.columns import GAP, Column
from weir.cli.output.formatting import clock, moment
from weir.cli.output.outputs import LimitOption, OutputOption, ProjectOption, print_plain
from weir.cli.output.terminal import Screen, cells, plain, screen, shortened, wrapped
from weir.cli.pool.connect import connect, report_outage
from weir.cli.pool.watch import append, waited_out
from weir.cli.workloads.list_filter import check_projects, chosen
from weir.client.outage import ServerOutage

if TYPE_CHECKING:
    from weir.api.answers import EventRow
    from weir.client.api import Pool

_LIMIT, _PAGE = 50, 500
_NAME_WIDTH_MAX = 28
_SENTENCE_WIDTH_MIN = 30
_SAME_S = 10.0
"""Time within which equal events of a workload are one."""
_ENDS_SO = "It failed, for the same reason."

COLUMNS: "tuple[Column[EventRow], ...]" = (
    Column("TIME", lambda row: moment(row.at_s)),
    Column("KIND", lambda row: row.kind, least=12),
    Column("PROJECT", lambda row: row.project or "-", least=8, wide=True),
    Column("WORKLOAD", lambda row: row.workload or "-", least=14),
    Column("WHAT", lambda row: row.sentence, sentence=True),
)


def events(
    name: Annotated[str | None, NOT_EMPTY] = None,
    /,
    *,
    project: ProjectOption = None,
    kind: str | None = None,
    since: str | None = None,
    limit: LimitOption = _LIMIT,
    watch: Annotated[bool, Parameter(name=("--watch", "-w", "--follow", "-f"), negative=())] = False,
    output: OutputOption = "table",
) -> int:
    """Show events with their causes, newest last.

    Parameters
    ----------
    name
        Only events of this workload.
    project
        Only events of this project, or of several between commas.
    kind
        Only events of this kind, or of several between commas.
    since
        Only events since then: an age such as 2h or 3d, or a date such as 2026-11-01.
    limit
        Maximum number of events; 0 for all.
    watch
        Continue and print events as they happen.
    """
    with option_mistakes():
        wanted = _EventFilter(name, project, kind, None if since is None else since_time(since))
    with connect() as pool:
        if watch:
            _check_name(pool, name)
            rows = _as_they_come(pool, wanted, limit)
            if output == "table":
                return _print_each(rows, named=name is None)
            return append(rows, COLUMNS, output)
        recent, note = _last(pool, wanted, limit)
        check_projects(pool, project, {row.project for row in recent})
        if not recent:
            _check_name(pool, name)
    if note:
        print(note, file=sys.stderr)
    if output in ("json", "yaml"):
        print_plain([row.model_dump(mode="json") for row in recent], output)
    elif not recent:
        print(_nothing(wanted), file=sys.stderr)
    elif output == "wide":
        append(recent, COLUMNS, output)
    else:
        print("\n".join(event_lines(recent, screen(), named=name is None)))
    return 0


def _check_name(pool: "Pool", name: str | None) -> None:
    """Refuse a name that no workload has and no event names.

    Raises:
        Refused: the pool knows no such workload.
    """
    if name is not None and not pool.events_page(workload=name, limit=1).items:
        pool.get(name)


def _nothing(wanted: "_EventFilter") -> str:
    """Return a sentence about an empty list of events."""
    if wanted.kind:
        return f"Nothing happened of kind {wanted.kind}: `weir events --output wide` shows which there are."
    if wanted.since_s is not None:
        return "Nothing happened since then."
    if wanted.name is None:
        return "Nothing happened yet."
    shown = "members of its project see them, and old ones are deleted"
    return f"The pool shows no event of {plain(wanted.name)}: {shown}."


def event_lines(rows: "Sequence[EventRow]", display: Screen, *, named: bool = True) -> list[str]:
    """Return events as a table; long sentences continue below.

    A reason that several pods share is printed once.
    """
    rows = _once(rows)
    times = max((len(clock(row.at_s)) for row in rows), default=0)
    names = max([8, *(min(_NAME_WIDTH_MAX, cells(row.workload or "-")) for row in rows)]) if named else 0
    heads = ["TIME".ljust(times), *(["WORKLOAD".ljust(names)] if named else []), "WHAT HAPPENED"]
    return [
        display.paint(GAP.join(heads), "quiet"),
        *(line for row in rows for line in _lines(row, display, times, names)),
    ]


def _once(rows: "Sequence[EventRow]") -> "Sequence[EventRow]":
    """Return events without copies of sentences.

    A cluster has an event of a reason for a workload, and for each pod. A workload ends for the reason that
    one of its pods failed for.
    """
    seen: dict[tuple[str | None, str], float] = {}
    failures = {(row.workload, _failure_of(row)) for row in rows if row.kind == "failed"}
    kept = []
    for row in rows:
        key = row.workload, row.sentence
        at_s = seen.get(key)
        if row.workload is None or at_s is None or abs(row.at_s - at_s) >= _SAME_S:  # clocks may go back
            repeats = row.kind == "ended" and (row.workload, row.sentence[1:]) in failures
            kept.append(row.model_copy(update={"sentence": _ENDS_SO}) if repeats else row)
            seen[key] = row.at_s
    return kept


def _failure_of(row: "EventRow") -> str:
    """Return the reason in the sentence of a pod that failed, without its first letter."""
    return row.sentence.partition(" failed: ")[2][1:]


def _lines(row: "EventRow", display: Screen, times: int, names: int) -> list[str]:
    time_text = clock(row.at_s).ljust(times)
    parts = [display.paint(time_text, "quiet")]
    indent = times + len(GAP)
    if names:
        name = shortened(plain(row.workload or "-"), names, middle=True)
        parts.append(name + " " * (names - cells(name)))
        indent += names + len(GAP)
    width = None if display.width is None else max(_SENTENCE_WIDTH_MIN, display.width - indent)
    first, *rest = wrapped(_sentence(row), width).split("\n")
    return [GAP.join([*parts, first]), *(" " * indent + line for line in rest)]


def _sentence(row: "EventRow") -> str:
    """Return the sentence of an event without the name before it."""
    text, name = plain(row.sentence), row.workload
    if not name:
        return text
    bare = text.replace(f" {name}/", " ").removeprefix(f"{name} ")
    return bare[:1].upper() + bare[1:] if text.startswith(f"{name} ") else bare


@dataclass(frozen=True, slots=True)
class _EventFilter:
    """Filter of `weir events`."""

    name: str | None = None
    project: str | None = None
    kind: str | None = None
    since_s: float | None = None

    def holds(self, row: "EventRow") -> bool:
        """Return True if an event matches."""
        return (
            self.name in (None, row.workload)
            and chosen(self.project, row.project)
            and chosen(self.kind, row.kind)
            and row.at_s >= (self.since_s or 0.0)
        )


def _last(pool: "Pool", wanted: _EventFilter, limit: int) -> "tuple[list[EventRow], str | None]":
    """Return the newest events, oldest first, and a note if some are missing."""
    rows: list[EventRow] = []
    after: str | None = None
    while True:
        seen = len(rows)
        page = pool.events_page(
            workload=wanted.name,
            project=wanted.project,
            kind=wanted.kind,
            limit=min(_PAGE, limit - len(rows)) if limit else _PAGE,
            after=after,
        )
        rows += [row for row in page.items if row.at_s >= (wanted.since_s or 0.0)]
        is_older = len(rows) < seen + len(page.items)  # they come newest first
        if page.next is None or not page.items or is_older or 0 < limit <= len(rows):
            return rows[::-1], page.note
        after = page.next


def _as_they_come(pool: "Pool", wanted: _EventFilter, limit: int) -> "Iterator[EventRow]":
    from weir.api.answers import EventRow
    from weir.client.stream import Change

    def newest() -> "Sequence[EventRow]":
        return _last(pool, wanted, limit)[0]

    last, outage = 0, ServerOutage(report_outage)
    for number, change in enumerate(chain([Change("reset", None)], pool.stream())):
        # The first change proves that no event was missed since the list; before, some may have been.
        looks = change.kind == "reset" or number == 1
        missed = waited_out(newest, outage) if looks else [change.row]
        for row in missed:
            if isinstance(row, EventRow) and row.id > last and wanted.holds(row):
                last = row.id
                yield row


def _print_each(rows: "Iterable[EventRow]", *, named: bool) -> int:
    """Print events one by one in columns of a usual width."""
    width = 8
    try:
        for row in rows:
            width = min(_NAME_WIDTH_MAX, max(width, cells(row.workload or "-")))
            print("\n".join(_lines(row, screen(), 8, width if named else 0)), flush=True)
    except KeyboardInterrupt:
        return 0
    return 0
