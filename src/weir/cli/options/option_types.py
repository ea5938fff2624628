"""Types of options that many commands have."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from weir.api.comma_lists import comma_words

if TYPE_CHECKING:
    from cyclopts import Token

Switch = Annotated[bool, Parameter(negative=())]
"""Option without a value, and without a form that begins with --no-."""
YesSwitch = Annotated[bool, Parameter(name=("--yes", "-y"), negative=())]
"""Option that answers the question of a command beforehand."""
Repeated = Annotated[Sequence[str], Parameter(negative=())]
"""Option that may be repeated, with a value each time."""
Names = Annotated[Sequence[str], Parameter(consume_multiple=True, negative=())]
"""Option with all the values that follow it."""


def _written(_type: Any, tokens: "Sequence[Token]") -> str:
    text = tokens[0].value
    if not comma_words(text):
        raise ValueError("is empty; write a name, or leave it out")
    return text


NOT_EMPTY = Parameter(converter=_written)
"""Refusal of an empty text: `-p "$TEAM"` without a TEAM must not choose the work of all projects."""
