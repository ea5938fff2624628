"""Mistakes reported for a scenario file, without the name of the file."""

import pytest

from weir.model.scenario import InvalidFile
from weir.scenario_io.reading import parse_scenario


def reported(text: str) -> list[str]:
    """Return the mistakes of a text."""
    with pytest.raises(InvalidFile) as refused:
        parse_scenario(text, "lab.yaml")
    return [str(mistake).removeprefix("lab.yaml:") for mistake in refused.value.mistakes]
