"""Types of options that many commands have."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

Switch = Annotated[bool, Parameter(negative=())]
"""True if the option is there. It has no value, and no form that begins with --no-."""
Repeated = Annotated[Sequence[str], Parameter(negative=())]
"""One value each time that the option is there."""
Names = Annotated[Sequence[str], Parameter(consume_multiple=True, negative=())]
"""All values that follow the option."""
