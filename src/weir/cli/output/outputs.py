"""Output formats: a table for people, JSON or YAML for programs."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter

from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import NOT_EMPTY
from weir.cli.output.columns import Column, table
from weir.cli.output.terminal import Screen, screen

if TYPE_CHECKING:
    from pydantic import BaseModel

Output = Literal["table", "wide", "json", "yaml"]
OutputOption = Annotated[Output, Parameter(name=("--output", "-o"), help="table, wide, json or yaml.")]
DocumentedOutput = Annotated[Output, Parameter(name=("--output", "-o"))]
"""The same option, for a command whose docstring describes it further."""
WatchOption = Annotated[bool, Parameter(name=("--watch", "-w"), negative=())]
NamespaceOption = Annotated[
    str | None,
    Parameter(
        name=("--namespace", "-n"),
        help="On a cluster: its namespace; the project's namespace if it has only one.",
    ),
]
NameOutput = Annotated[
    Literal["name", "json", "yaml"],
    Parameter(name=("--output", "-o"), help="name, or the whole answer as json or yaml."),
]
IndexOption = Annotated[int | None, Parameter(negative=()), whole_number(0)]
LimitOption = Annotated[int, whole_number(0, 1_000_000)]
"""Maximum number of rows; 0 for all."""
ProjectOption = Annotated[str | None, Parameter(name=("--project", "-p")), NOT_EMPTY]
OwnerOption = Annotated[
    str | None,
    NOT_EMPTY,
    Parameter(name=("--project", "-p"), help="The project; $WEIR_PROJECT if left out, or your only one."),
]
"""Project of a secret or a template."""

NO_PROJECT = "no project is named: write -p PROJECT; `weir project list` shows which there are"
_UNSAFE = re.compile(r"[^\n -~]")
Row = TypeVar("Row", bound="BaseModel")


def show(
    rows: Sequence[Row], columns: Sequence[Column[Row]], output: Output, *, none: str, note: str = ""
) -> None:
    """Print rows. A table without rows prints `none`; `note` is printed below a table."""
    if output in ("json", "yaml"):
        print_plain([row.model_dump(mode="json") for row in rows], output)
    elif not rows:
        print(none, file=sys.stderr)
    else:
        print("\n".join(table(rows, columns, screen(), wide=output == "wide")))
        if note:
            sys.stdout.flush()
            print(note, file=sys.stderr)


def show_one(row: "BaseModel", output: str, lines: Callable[[Screen], Sequence[str]]) -> None:
    """Print one row: its lines for people, or all of it as JSON or YAML."""
    if output in ("json", "yaml"):
        print_plain(row.model_dump(mode="json"), output)
    else:
        print("\n".join(lines(screen())))


def print_plain(value: object, output: str) -> None:
    """Print a value as JSON or YAML."""
    print(as_yaml(value) if output == "yaml" else as_json(value, indent=2))


class UnwrittenOutput(OSError):
    """The standard output takes nothing. It is no BrokenPipeError, which ends a command without a message."""


@contextmanager
def naming(done: str) -> Iterator[None]:
    """Write the output of the block. If that fails, the sentence of the failure begins with the deed `done`.

    Raises:
        UnwrittenOutput: the standard output takes nothing.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        failed = f"{done}, but the output can't be written: {error.strerror}"
        raise UnwrittenOutput(error.errno, failed) from None


def print_made(made: "BaseModel", output: str, done: str, *lines: str) -> bool:
    """Print these lines about something new, or all of it as JSON or YAML; return True for the lines.

    `done` is the deed, for `naming`.
    """
    is_for_people = output not in ("json", "yaml")
    with naming(done):
        if is_for_people:
            print(*lines, sep="\n")
        else:
            print_plain(made.model_dump(mode="json"), output)
    return is_for_people


def as_json(value: object, indent: int | None = None) -> str:
    """Return the value as JSON in which unprintable characters are escaped."""
    return _UNSAFE.sub(_escaped, json.dumps(value, indent=indent, ensure_ascii=False))


def as_yaml(value: object) -> str:
    """Return the value as YAML; if it has unprintable characters, all but ASCII is escaped."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    if any(not line.isprintable() for line in text.split("\n")):
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=100)
    return text.rstrip("\n")


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]
