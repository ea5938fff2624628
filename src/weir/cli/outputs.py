"""What is listed, in the form that was asked for: a table, or all of it as JSON or YAML."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter

from weir.cli.columns import Column, table
from weir.cli.paint import screen

if TYPE_CHECKING:
    from pydantic import BaseModel

Output = Literal["table", "wide", "json", "yaml"]
OutputOption = Annotated[Output, Parameter(name=("--output", "-o"))]
WatchOption = Annotated[bool, Parameter(name=("--watch", "-w"), negative=())]
ProjectOption = Annotated[str | None, Parameter(name=("--project", "-p"))]

Row = TypeVar("Row", bound="BaseModel")


def show(
    rows: Sequence[Row], columns: Sequence[Column[Row]], output: Output, *, none: str, more: str = ""
) -> None:
    """Print rows. `none` is said to people where there is nothing, `more` where there is more than this."""
    if output in ("json", "yaml"):
        print_plain([row.model_dump(mode="json") for row in rows], output)
    elif not rows:
        print(none, file=sys.stderr)
    else:
        print("\n".join(table(rows, columns, screen(), wide=output == "wide")))
        if more:
            sys.stdout.flush()
            print(more, file=sys.stderr)


def print_plain(value: object, output: str) -> None:
    """Print what programs read."""
    print(as_yaml(value) if output == "yaml" else json.dumps(value, indent=2, ensure_ascii=False))


def as_yaml(value: object) -> str:
    """The value as YAML, keys in their order."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text.rstrip("\n")
