"""Watching a list: repainted in place on a terminal, appended line by line elsewhere."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from weir.cli.output.columns import Column, Lines
from weir.cli.output.outputs import Output, as_json, as_yaml
from weir.cli.output.terminal import Screen, screen, shortened
from weir.cli.pool.connect import report_outage
from weir.client.errors import Unreachable
from weir.client.outage import ServerOutage

if TYPE_CHECKING:
    from pydantic import BaseModel

EVERY_S = 1.0
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"

Row = TypeVar("Row", bound="BaseModel")
Found = TypeVar("Found")
Frame = Callable[[Screen], Sequence[str]]


def repaint(frame: Frame, *, every_s: float = EVERY_S, times: int | None = None) -> int:
    """Repaint a frame in place until the person interrupts it.

    While the pool doesn't answer, the last frame stays.
    """
    height, painted = 0, 0
    last: Sequence[str] = ()
    sys.stdout.write(HIDE)
    try:
        while True:
            display = screen()
            try:
                lines = last = frame(display)
            except Unreachable as error:
                if not painted:
                    raise
                message = (
                    str(error)
                    if display.width is None
                    else shortened(str(error), display.width, middle=False)
                )
                lines = [*last, "", display.paint(message, "bad")]
            height = paint_over(lines, display, height)
            painted += 1
            if times is not None and painted >= times:
                return 0
            time.sleep(every_s)
    except KeyboardInterrupt:
        return 0
    finally:
        sys.stdout.write(SHOW)
        sys.stdout.flush()


def paint_over(lines: Sequence[str], display: Screen, before: int) -> int:
    """Paint over the previous frame of `before` lines; return the height of the new one."""
    most = max(2, (display.height or 10_000) - 1)
    if len(lines) > most:
        hidden = len(lines) - most + 1
        lines = [*lines[: most - 1], display.paint(f"… {hidden} more lines", "quiet")]
    up = f"\x1b[{before}F" if before else ""
    sys.stdout.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
    sys.stdout.flush()
    return len(lines)


def repaint_or_append(
    frame: Frame, rows: Iterable[Row], columns: Sequence[Column[Row]], output: Output
) -> int:
    """Repaint the frame on a terminal. Elsewhere, and for programs, append the rows as they arrive."""
    if is_terminal() and output in ("table", "wide"):
        return repaint(frame)
    return append(rows, columns, output)


def append(rows: Iterable[Row], columns: Sequence[Column[Row]], output: Output) -> int:
    """Print each row when it arrives: a line of the table, a line of JSON, or a document of YAML."""
    lines = Lines(columns, wide=output == "wide")
    try:
        for row in rows:
            if output == "json":
                print(as_json(row.model_dump(mode="json")), flush=True)
            elif output == "yaml":
                print(f"---\n{as_yaml(row.model_dump(mode='json'))}", flush=True)
            else:
                print("\n".join(lines.next(row, screen())), flush=True)
    except KeyboardInterrupt:
        return 0
    return 0


def changed(
    look: Callable[[], Iterable[Row]], key: Callable[[Row], object], every_s: float = EVERY_S
) -> Iterator[Row]:
    """Poll rows; yield new and changed ones. A restart of the pool is waited out."""
    seen: dict[object, Row] = {}
    outage = ServerOutage(report_outage)
    while True:
        rows = waited_out(look, outage, every_s)
        now = {key(row): row for row in rows}
        for name, row in now.items():
            if seen.get(name) != row:
                yield row
        seen = now
        time.sleep(every_s)


def waited_out(look: Callable[[], Found], outage: ServerOutage, every_s: float = EVERY_S) -> Found:
    """Return the answer of a request; repeat the request while the pool is away, if it answered before.

    Raises:
        Unreachable: the pool never answered, or is away for too long.
    """
    while True:
        try:
            answer = look()
        except Unreachable as error:
            outage.failed(error)
            time.sleep(every_s)
        else:
            outage.answered()
            return answer


def is_terminal() -> bool:
    """Return True if the output is a terminal that can be repainted."""
    return sys.stdout.isatty()
