"""Types of options that many commands have."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

Switch = Annotated[bool, Parameter(negative=())]
"""Option without a value, and without a form that begins with --no-."""
Repeated = Annotated[Sequence[str], Parameter(negative=())]
"""Option that may be there several times, with a value each time."""
Names = Annotated[Sequence[str], Parameter(consume_multiple=True, negative=())]
"""Option with all the values that follow it."""
