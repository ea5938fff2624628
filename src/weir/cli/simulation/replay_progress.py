"""Progress bars of replays, on the error output."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[float], None] | None]:
    """Show a progress bar if the output is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with bars() as shown:
        task = shown.add_task(name, total=1.0)
        yield lambda part: shown.update(task, completed=part)
        shown.update(task, completed=1.0)


def bars() -> "Progress":
    """Return progress bars on the terminal of the error output."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:<20}"),
        BarColumn(40),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
